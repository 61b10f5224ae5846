"""Notices from the failed run to the mail and the signed request: their content, time and number."""

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import override

from catalog.credentials.oauth import tokens
from catalog.credentials.oauth.errors import NeedsSignInError
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Finding, Run
from catalog.models.runs import Trigger
from catalog.notifications import dispatch, mail, outbox, subscriptions, tasks, webhooks
from catalog.notifications.models import (
    Delivery,
    Event,
    Mail,
    MailAddress,
    Notice,
    SendingState,
    Webhook,
)
from core import redis_client, wakes
from core.stored_sentences import translate_sentence
from people.models import AuditEntry, Role
from tests import forked_python
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import signed_in, wear_out
from tests.catalog.notifications.conftest import reader
from tests.factories import make_endpoint, make_tool, make_user, make_vendor
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.django_db
with_threads = pytest.mark.django_db(transaction=True)
AN_HOUR = timedelta(hours=1, minutes=1)


def run_enumeration(endpoint: Endpoint) -> Run:
    endpoint.refresh_from_db()
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def let_pass(wait: timedelta) -> None:
    """Move every time back, as if everything had happened that much earlier."""
    Notice.objects.update(at=F("at") - wait, due_at=F("due_at") - wait)
    Notice.objects.exclude(told_at=None).update(
        told_at=F("told_at") - wait, settled_at=F("settled_at") - wait
    )
    Mail.objects.update(next_at=F("next_at") - wait)
    Mail.objects.exclude(sent_at=None).update(sent_at=F("sent_at") - wait)
    Webhook.objects.update(next_at=F("next_at") - wait)


def tick() -> None:
    """The scheduler and the workers it wakes, in this process."""
    while dispatch.settle_due():
        pass
    for pk in Mail.objects.filter(state=SendingState.WAITING).values_list("pk", flat=True):
        mail.send(str(pk))
    for pk in Webhook.objects.values_list("pk", flat=True):
        webhooks.send_waiting(str(pk))


def announced_events() -> list[str]:
    return list(Notice.objects.exclude(told_at=None).order_by("told_at").values_list("event", flat=True))


@pytest.fixture
def broken():
    return make_endpoint(url="http://127.0.0.1:9/", name="Weather", vendor=make_vendor(name="Acme"))


@pytest.fixture
def hook(listener):
    row, secret = webhooks.create(
        actor=make_user(Role.ADMIN), name="On call", url=listener.url, events=list(Event.values)
    )
    row.plain = secret.reveal()
    return row


@with_threads
def test_an_endpoint_that_stays_broken_is_told_by_mail_and_webhook(broken, post_office, listener, hook):
    ada = make_user(Role.VIEWER)
    reader(ada)
    subscriptions.choose(ada, [Event.BROKEN])
    assert run_enumeration(broken).error_code == "CONNECT"
    tick()
    assert (listener.requests, post_office.mails) == ([], [])

    let_pass(timedelta(minutes=3))
    tick()
    let_pass(timedelta(minutes=1))
    tick()
    (mail,) = post_office.mails
    assert mail["To"] == "ada@example.com"
    assert mail["Subject"].strip() == "Pegboard: “Weather” of Acme cannot be synced"
    assert mail.get_content_type() == "text/plain"
    assert f"https://pegboard.example/endpoints/{broken.pk}/" in mail.get_content()
    ((headers, body),) = listener.requests
    event = json.loads(body)
    assert event["type"] == "endpoint.broken"
    assert event["data"]["error"]["code"] == "CONNECT"
    assert event["data"]["endpoint"] == {"id": broken.pk, "name": "Weather", "protocol": "a2t"}
    assert event["data"]["url"] == f"https://pegboard.example/endpoints/{broken.pk}/"
    assert headers["content-type"] == "application/json"


@with_threads
def test_a_delivery_is_signed_as_standard_webhooks_has_it(broken, listener, hook):
    run_enumeration(broken)
    let_pass(timedelta(minutes=3))
    tick()
    ((headers, body),) = listener.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(hook.plain.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert hook.plain not in str(Webhook.objects.values())
    assert hook.plain not in str(AuditEntry.objects.values())


def test_signature_agrees_with_the_published_example():
    """https://github.com/standard-webhooks/standard-webhooks, libraries: the example of every library."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    content = b'{"test": 2432232314}'
    from core.encryption import Secret

    secret = Secret("whsec_" + base64.b64encode(key).decode())
    headers = webhooks.signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", content, now=1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@with_threads
def test_what_works_again_soon_wakes_nobody(broken, listener, hook):
    run_enumeration(broken)
    vendor = Vendor(tools(2))
    with serving(vendor):
        Endpoint.objects.filter(pk=broken.pk).update(url=vendor.url)
        assert run_enumeration(broken).error_code == ""
    let_pass(AN_HOUR)
    tick()
    assert announced_events() == []
    assert listener.requests == []


@with_threads
def test_whoever_heard_of_the_trouble_hears_that_it_is_over(broken, listener, hook):
    run_enumeration(broken)
    let_pass(timedelta(minutes=3))
    tick()
    vendor = Vendor(tools(2))
    with serving(vendor):
        Endpoint.objects.filter(pk=broken.pk).update(url=vendor.url)
        run_enumeration(broken)
        run_enumeration(broken)
    tick()
    assert [json.loads(body)["type"] for _, body in listener.requests] == [
        "endpoint.broken",
        "endpoint.recovered",
    ]


@with_threads
def test_a_flapping_endpoint_gives_one_pair_an_hour(broken, listener, hook):
    vendor = Vendor(tools(2))
    with serving(vendor):
        for _ in range(4):  # every ten minutes
            Endpoint.objects.filter(pk=broken.pk).update(url="http://127.0.0.1:9/")
            run_enumeration(broken)
            let_pass(timedelta(minutes=5))
            tick()
            Endpoint.objects.filter(pk=broken.pk).update(url=vendor.url)
            run_enumeration(broken)
            let_pass(timedelta(minutes=4))
            tick()
    assert announced_events() == ["endpoint.broken", "endpoint.recovered"]


@with_threads
def test_a_slow_worker_is_told_once_and_again_of_what_comes_later(broken, listener, hook):
    run_enumeration(broken)
    let_pass(timedelta(minutes=3))

    for _ in range(5):
        dispatch.tick()
    assert wakes.count_wakes(dispatch.SEND_DELIVERIES, "enumeration") == 1

    tasks.send_deliveries()
    redis_client.client().delete("enumeration")
    dispatch.tick()
    assert (wakes.count_wakes(dispatch.SEND_DELIVERIES, "enumeration"), len(listener.requests)) == (0, 1)

    with transaction.atomic():
        outbox.report_recovery(broken)
    dispatch.tick()
    assert wakes.count_wakes(dispatch.SEND_DELIVERIES, "enumeration") == 1


def test_trouble_that_stays_is_told_after_the_pause(broken, listener, hook):
    with transaction.atomic():
        outbox.report_failure(broken)
    Endpoint.objects.filter(pk=broken.pk).update(failures=1)
    let_pass(timedelta(minutes=3))
    tick()
    with transaction.atomic():
        outbox.report_recovery(broken)
    tick()
    with transaction.atomic():
        outbox.report_failure(broken)
    let_pass(timedelta(minutes=10))
    tick()
    assert announced_events() == ["endpoint.broken", "endpoint.recovered"]
    let_pass(AN_HOUR)
    tick()
    assert announced_events() == ["endpoint.broken", "endpoint.recovered", "endpoint.broken"]


def test_fifty_failures_are_one_mail(post_office):
    ada = make_user(Role.VIEWER)
    reader(ada)
    subscriptions.choose(ada, [Event.BROKEN])
    vendor = make_vendor(name="Acme")
    for number in range(50):
        endpoint = make_endpoint(vendor=vendor, name=f"Endpoint {number}", failures=1, error_message="Away.")
        with transaction.atomic():
            outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    tick()
    let_pass(timedelta(minutes=1))
    tick()
    tick()
    (mail,) = post_office.mails
    assert mail["Subject"].strip() == "Pegboard: 50 times an endpoint cannot be synced"
    assert sum(line.endswith("cannot be synced") for line in mail.get_content().splitlines()) == 50
    assert Mail.objects.get().attempts == 1


def test_the_next_mail_waits_for_the_pause_a_person_chose(post_office):
    ada = make_user(Role.VIEWER)
    reader(ada, pause_minutes=60)
    subscriptions.choose(ada, [Event.HELD])
    for minute in (0, 10):
        endpoint = make_endpoint()
        endpoint.held_run = Run.objects.create(endpoint=endpoint, status="failed")
        endpoint.save()
        with transaction.atomic():
            outbox.report_held_run(endpoint)
        tick()
        let_pass(timedelta(minutes=minute + 1))
        tick()
    assert len(post_office.mails) == 1
    let_pass(timedelta(minutes=60))
    tick()
    assert len(post_office.mails) == 2


@with_threads
def test_a_held_reading_is_told_once(listener, hook):
    vendor = Vendor(tools(10))
    with serving(vendor):
        endpoint = make_endpoint(url=vendor.url)
        run_enumeration(endpoint)
        vendor.listed = []
        run = run_enumeration(endpoint)
        run_enumeration(endpoint)
    tick()
    let_pass(AN_HOUR)
    tick()
    assert announced_events() == ["endpoint.held"]
    body = json.loads(listener.requests[0][1])
    assert body["data"]["run"] == Endpoint.objects.get().held_run_id
    assert run.error_code == body["data"]["error"]["code"] == "EMPTY_HELD"


def test_review_is_told_with_how_much_waits(listener, hook):
    tool = make_tool()
    for number in range(3):
        Finding.objects.create(
            endpoint=tool.endpoint, tool=tool, code="X", severity="high", subject=str(number), message="Odd."
        )
        with transaction.atomic():
            outbox.report_waiting_review(tool.endpoint_id)
    let_pass(timedelta(minutes=1))
    tick()
    ((_, body),) = listener.requests
    assert json.loads(body)["data"]["waiting"] == 3
    Finding.objects.update(state="accepted")
    with transaction.atomic():
        outbox.report_waiting_review(tool.endpoint_id)
    let_pass(AN_HOUR)
    tick()
    assert announced_events() == ["review.waiting"]


@with_threads
def test_findings_of_a_real_reading_are_told(listener, hook):
    vendor = Vendor(tools(2))
    with serving(vendor):
        endpoint = make_endpoint(url=vendor.url)
        run_enumeration(endpoint)
        vendor.listed[0]["description"] = "Quite another thing."
        run_enumeration(endpoint)
    assert Finding.objects.filter(state="open").exists()
    let_pass(timedelta(minutes=1))
    tick()
    assert "review.waiting" in announced_events()


@with_threads
def test_a_sign_in_that_is_over_is_told(listener, hook):
    with AuthorizationServer() as server:
        credential = signed_in(server)
        server.families[0].is_revoked = True
        wear_out(credential)
        for _ in range(2):
            with pytest.raises(NeedsSignInError):
                tokens.token_for(credential)
    tick()
    ((_, body),) = listener.requests
    event = json.loads(body)
    assert event["type"] == "credential.sign_in"
    assert event["data"]["credential"]["id"] == str(credential.pk)
    assert "It needs a sign-in since" in event["data"]["says"]


NASTY = "Evil\r\nBcc: all@example.com\x1b[2J<script>alert(1)</script>\u202egnp.exe"


def test_what_a_vendor_wrote_is_bounded_and_visible_in_mail(post_office, listener, hook):
    ada = make_user(Role.VIEWER)
    reader(ada)
    subscriptions.choose(ada, [Event.BROKEN])
    endpoint = make_endpoint(name=NASTY[:100], failures=1, error_message=NASTY * 200)
    with transaction.atomic():
        outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    tick()
    let_pass(timedelta(minutes=1))
    tick()
    (mail,) = post_office.mails
    text = mail.get_content()
    assert mail["Bcc"] is None
    assert len(post_office.receivers) == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[2J" in text
    assert len(text) < 2_000
    data = json.loads(listener.requests[0][1])["data"]
    assert data["says"].isprintable()


def test_a_mail_is_in_the_language_of_its_reader(broken, post_office):
    ada = make_user(Role.VIEWER, language="de")
    reader(ada)
    subscriptions.choose(ada, [Event.BROKEN])
    broken.failures, broken.error_message = 1, "The name api.acme.example could not be found."
    broken.save()
    with transaction.atomic():
        outbox.report_failure(broken)
    let_pass(timedelta(minutes=3))
    tick()
    let_pass(timedelta(minutes=1))
    tick()

    (mail,) = post_office.mails
    notice = Notice.objects.get()
    with override("de"):
        title, message = translate_sentence(notice.title), translate_sentence(notice.says)
        assert mail["Subject"].strip() == f"Pegboard: {title}"
        assert message in mail.get_content()
    assert message != notice.says == broken.error_message


def test_nothing_goes_to_an_address_that_nobody_confirmed(post_office):
    ada = make_user(Role.VIEWER)
    subscriptions.set_address(ada, "somebody@else.example", 5)
    subscriptions.choose(ada, [Event.BROKEN])
    endpoint = make_endpoint(failures=1)
    with transaction.atomic():
        outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    tick()
    let_pass(timedelta(minutes=3))
    tick()
    assert post_office.mails == []


def test_a_mail_that_is_not_taken_is_sent_again_with_the_same_id(post_office):
    ada = make_user(Role.VIEWER)
    reader(ada)
    row = Mail.objects.create(user=ada)
    post_office.is_broken = True
    mail.send(str(row.pk))
    row.refresh_from_db()
    assert (row.state, row.attempts, post_office.mails) == ("waiting", 1, [])
    assert "did not accept the mail" in row.error
    mail.send(str(row.pk))
    assert Mail.objects.get().attempts == 1, "not before its time"
    post_office.is_broken = False
    let_pass(AN_HOUR)
    mail.send(str(row.pk))
    (waiting_mail,) = post_office.mails
    assert str(row.pk) in waiting_mail["Message-ID"]
    mail.send(str(row.pk))
    assert len(post_office.mails) == 1


def test_a_webhook_that_fails_is_tried_later_in_order_and_then_paused(listener, hook):
    for number in range(3):
        endpoint = make_endpoint(name=f"Endpoint {number}", failures=1)
        with transaction.atomic():
            outbox.report_failure(endpoint)
    listener.answer = lambda number: (500, {})
    let_pass(timedelta(minutes=3))
    tick()
    tick()
    assert len(listener.requests) == 1, "the next attempt waits"
    for _ in range(2):
        Webhook.objects.update(next_at=F("next_at") - timedelta(hours=5))
        tick()
    assert len(set(listener.ids)) == 1, "the same delivery under the same id"
    assert len({body for _, body in listener.requests}) == 1
    for _ in range(6):
        let_pass(timedelta(hours=5))
        tick()
    hook.refresh_from_db()
    assert hook.is_paused
    assert "9 attempts in a row failed" in hook.paused_why
    assert AuditEntry.objects.filter(action="pause", actor=None).count() == 1
    let_pass(timedelta(hours=5))
    request_count = len(listener.requests)
    tick()
    assert len(listener.requests) == request_count, "nothing is sent while it is paused"
    assert "webhook.paused" in announced_events()

    listener.answer = lambda number: (204, {})
    webhooks.resume(hook, actor=make_user(Role.ADMIN))
    tick()
    assert Delivery.objects.filter(state="waiting").count() == 0
    hook.refresh_from_db()
    assert (hook.state, hook.failures) == ("active", 0)


def test_a_receiver_that_is_gone_or_asks_to_wait_is_believed(listener, hook):
    endpoint = make_endpoint(failures=1)
    with transaction.atomic():
        outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    listener.answer = lambda number: (429, {"Retry-After": "7200"})
    tick()
    hook.refresh_from_db()
    assert hook.next_at > timezone.now() + timedelta(minutes=100)
    listener.answer = lambda number: (410, {})
    let_pass(timedelta(hours=3))
    tick()
    hook.refresh_from_db()
    assert hook.is_paused
    assert "410" in hook.paused_why


def test_a_webhook_leads_to_no_private_network(settings):
    settings.OUTBOUND_ALLOW = ""
    row, _ = webhooks.create(
        actor=make_user(Role.ADMIN), name="Inner", url="https://127.0.0.1/hook", events=[Event.BROKEN]
    )
    delivery = webhooks.send_test(row, actor=make_user(Role.ADMIN))
    assert delivery.state == "failed"
    assert delivery.error


SEND = {
    "mail-sent": (
        "import django, sys; django.setup(); from catalog.notifications import mail; mail.send(sys.argv[1])"
    ),
    "webhook-sent": (
        "import django, sys; django.setup(); "
        "from catalog.notifications import webhooks; webhooks.send_waiting(sys.argv[1])"
    ),
}


def die(point: str, argument: str, environment: dict[str, str]) -> int:
    crash = {"CRASHPOINT": point, "DEBUG_CRASH": "1"}
    return forked_python.run("-c", SEND[point], argument, env=environment | crash).returncode


@with_threads
@pytest.mark.faults
def test_a_sender_killed_after_sending_sends_again_with_the_same_id(
    post_office, listener, hook, process_environment
):
    ada = make_user(Role.VIEWER)
    reader(ada)
    subscriptions.choose(ada, [Event.BROKEN])
    endpoint = make_endpoint(failures=1, error_message="Away.")
    with transaction.atomic():
        outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    dispatch.settle_due()
    let_pass(timedelta(minutes=1))
    environment = {**process_environment, "PEGBOARD_MAIL_URL": post_office.url}
    assert die("mail-sent", str(Mail.objects.get().pk), environment) == -signal.SIGKILL
    assert die("webhook-sent", str(hook.pk), environment) == -signal.SIGKILL
    assert (len(post_office.mails), len(listener.requests)) == (1, 1)

    tick()
    assert (len(post_office.mails), len(listener.requests)) == (1, 1), "another may still be at work"
    let_pass(timedelta(minutes=3))
    tick()
    assert [mail["Message-ID"] for mail in post_office.mails] == [post_office.mails[0]["Message-ID"]] * 2
    assert len(listener.ids) == 2
    assert len(set(listener.ids)) == 1
    tick()
    assert (len(post_office.mails), len(listener.requests)) == (2, 2)


@with_threads
def test_a_notice_goes_with_the_change_that_causes_it(broken):
    with transaction.atomic():
        outbox.report_failure(broken)
        transaction.set_rollback(True)
    assert not Notice.objects.exists()
    with pytest.raises(RuntimeError, match="transaction of its change"):
        outbox.report_failure(broken)


@with_threads
def test_many_dispatchers_settle_a_notice_once(hook, process_environment):
    endpoint = make_endpoint(failures=1)
    with transaction.atomic():
        outbox.report_failure(endpoint)
    let_pass(timedelta(minutes=3))
    code = "import django; django.setup(); from catalog.notifications import dispatch; dispatch.settle_due()"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=process_environment, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.communicate()[1] for process in processes] == [b""] * 2
    assert Delivery.objects.count() == 1


def test_a_notice_that_cannot_be_told_holds_up_no_other(hook):
    broken = make_endpoint(failures=1)
    Notice.objects.create(event="no.such.event", subject="1", due_at=timezone.now() - AN_HOUR)
    with transaction.atomic():
        outbox.report_failure(broken)
    let_pass(timedelta(minutes=3))
    dispatch.settle_due()
    assert announced_events() == ["endpoint.broken"]
    assert Notice.objects.get(event="no.such.event").settled_at is None
    assert dispatch.settle_due() == 0, "it is tried again later"


def test_old_notices_go_and_the_last_word_on_each_thing_stays(hook):
    endpoint = make_endpoint(failures=1)
    for _ in range(2):
        with transaction.atomic():
            outbox.report_failure(endpoint)
        let_pass(AN_HOUR)
        dispatch.settle_due()
    let_pass(timedelta(days=40))
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=40))
    dispatch.forget_old()
    assert (Notice.objects.count(), Delivery.objects.count()) == (1, 0)


def test_a_person_who_left_hears_nothing(post_office):
    ada = make_user(Role.VIEWER, is_active=False)
    reader(ada)
    MailAddress.objects.get()
    row = Mail.objects.create(user=ada)
    mail.send(str(row.pk))
    assert post_office.mails == []
    assert Mail.objects.get().state == "failed"
    assert os.environ.get("CRASHPOINT") is None
