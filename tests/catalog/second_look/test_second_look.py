"""The time and the client of an endpoint's second looks, and the end of looks that are disturbed."""

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from celery import current_app
from django.db import connection
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Circuit, Credential, Endpoint, Finding, Run, SecondLook
from catalog.models.runs import Trigger
from catalog.second_look import runs as second_look
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_user
from tests.pages import signed_in, text_of
from tests.vendor import Vendor, tool

pytestmark = pytest.mark.django_db
OTHER = "curl/8.5.0"
PAST, FUTURE = timedelta(seconds=-5), timedelta(minutes=4)


@pytest.fixture(autouse=True)
def sent_pks(monkeypatch) -> list[int]:
    messages: list[int] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: messages.append(*args))
    return messages


@pytest.fixture
def endpoint(vendor: Vendor) -> Endpoint:
    """Read once, and so far never looked at."""
    vendor.listed = vendor.listed[:3]
    endpoint = make_endpoint(url=vendor.url)
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    endpoint.refresh_from_db()
    vendor.requests.clear()
    return endpoint


def known_endpoint(**fields) -> Endpoint:
    return make_endpoint(last_success_at=timezone.now(), **fields)


def due(endpoint: Endpoint, **fields) -> SecondLook:
    facts = {"is_on": True, "other_name": OTHER, "due_at": timezone.now() + PAST}
    return SecondLook.objects.create(endpoint=endpoint, **facts | fields)


def turned_on(endpoint: Endpoint, **how) -> SecondLook:
    return second_look.switch(
        endpoint, actor=make_user(Role.ADMIN), is_on=True, **{"other_name": OTHER} | how
    )


def is_good_for_others(vendor: Vendor) -> None:
    """Answer other clients with another list, and Pegboard with the known one."""
    listed_tools = vendor.listed

    def script(page, body):
        asks = vendor.headers[-1]["user-agent"]
        body["items"] = (
            listed_tools if asks == "Pegboard" else [tool(1, description="Another."), *listed_tools[1:]]
        )

    vendor.script = script


def test_no_endpoint_is_looked_at_before_an_administrator_turns_it_on(sent_pks):
    endpoint = known_endpoint()
    second_look.tick()
    assert (sent_pks, SecondLook.objects.exists()) == ([], False)
    turned_on(endpoint)
    second_look.tick()
    assert sent_pks == [endpoint.pk]


def test_off_ends_a_look_that_is_under_way(endpoint, vendor, monkeypatch):
    is_good_for_others(vendor)
    due(endpoint)

    def meanwhile(passed):
        if passed == "looked":
            second_look.switch(endpoint, actor=make_user(Role.ADMIN), is_on=False)

    monkeypatch.setattr(second_look, "failpoint", meanwhile)
    second_look.perform(endpoint.pk)
    look = SecondLook.objects.get()
    assert (look.result, look.lease_until, look.is_under_way, look.planned_at) == ("", None, False, None)
    assert not Finding.objects.filter(code="CLOAKING").exists()


def test_only_what_is_due_and_well_is_looked_at_unasked(sent_pks):
    due_look = due(known_endpoint())
    due(known_endpoint(), due_at=timezone.now() + FUTURE)
    due(known_endpoint(), is_on=False)
    due(make_endpoint())
    due(known_endpoint(is_paused=True))
    due(known_endpoint(failures=1))
    due(known_endpoint(removed_at=timezone.now()))
    due(known_endpoint(), lease_until=timezone.now() + FUTURE)
    shut = due(known_endpoint())
    Circuit.objects.create(endpoint=shut.endpoint, open_until=timezone.now() + FUTURE)
    read_now = due(known_endpoint())
    Run.objects.create(endpoint=read_now.endpoint)
    second_look.tick()
    assert sent_pks == [due_look.pk]


def test_a_few_at_a_time(sent_pks):
    for _ in range(5):
        due(known_endpoint())
    second_look.tick()
    assert len(sent_pks) == second_look.AT_ONCE
    SecondLook.objects.filter(pk__in=sent_pks).update(lease_until=timezone.now() + FUTURE)
    second_look.tick()
    assert len(sent_pks) == second_look.AT_ONCE


def test_a_message_that_comes_twice_looks_once(endpoint, vendor):
    due(endpoint)
    second_look.perform(endpoint.pk)
    second_look.perform(endpoint.pk)
    assert len(vendor.requests) == 1
    assert vendor.headers[-1]["user-agent"] == OTHER
    look = SecondLook.objects.get()
    assert (look.result, look.tries, look.lease_until) == ("same", 0, None)
    assert look.says == (
        "Another client than Pegboard is shown 3 of the 3 tools that we are shown, all of them the same."
    )
    days = (look.due_at - timezone.now()) / timedelta(days=1)
    assert 6 < days < 8
    assert not AuditEntry.objects.filter(action="look again").exists()


@pytest.mark.django_db(transaction=True)
def test_four_workers_look_once(endpoint, vendor):
    due(endpoint)
    together = threading.Barrier(4)

    def work():
        together.wait()
        try:
            second_look.perform(endpoint.pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(vendor.requests), SecondLook.objects.get().attempt) == (1, 1)


def test_a_look_whose_worker_died_is_taken_up_and_ends_once(endpoint, vendor, sent_pks):
    is_good_for_others(vendor)
    due(endpoint, attempt=1, tries=1, lease_until=timezone.now() + PAST)
    second_look.tick()
    assert sent_pks == [endpoint.pk]
    second_look.perform(endpoint.pk)
    look = SecondLook.objects.get()
    assert (look.result, look.attempt) == ("other", 2)
    assert Finding.objects.filter(code="CLOAKING").count() == 1


@pytest.mark.parametrize("point", ["look-claimed", "looked", "look-recorded"])
def test_whoever_wakes_up_late_writes_nothing(endpoint, vendor, monkeypatch, point):
    """A kill at that point has the same result: only the worker that claimed the look reports it."""
    is_good_for_others(vendor)
    due(endpoint)

    def meanwhile(passed):
        if passed == point and point != "look-recorded":
            SecondLook.objects.update(attempt=7)
        elif passed == point:
            raise KeyboardInterrupt

    monkeypatch.setattr(second_look, "failpoint", meanwhile)
    if point == "look-recorded":
        with pytest.raises(KeyboardInterrupt):
            second_look.perform(endpoint.pk)
    else:
        second_look.perform(endpoint.pk)
    assert not Finding.objects.filter(code="CLOAKING").exists()
    assert SecondLook.objects.get().result == ""
    assert not AuditEntry.objects.filter(action="look again").exists()


def test_a_look_that_ends_its_worker_again_and_again_is_given_up(endpoint, sent_pks):
    due(endpoint, attempt=3, tries=3, lease_until=timezone.now() + PAST)
    second_look.tick()
    look = SecondLook.objects.get()
    assert sent_pks == []
    assert (
        look.says
        == "The worker stopped 3 times during the check, so it was given up for now. Check the worker's log."
    )
    assert (look.result, look.tries, look.due_at > timezone.now() + timedelta(days=6)) == ("failed", 0, True)


def test_it_makes_way_for_a_reading(endpoint, vendor, monkeypatch):
    due(endpoint)
    run = Run.objects.create(endpoint=endpoint)
    second_look.perform(endpoint.pk)
    assert vendor.requests == []
    run.delete()

    is_good_for_others(vendor)
    usual = second_look.sessions.open_as_other_client

    def opened(*arguments, **how):
        if len(vendor.requests) == 1:
            Run.objects.create(endpoint=endpoint)
        return usual(*arguments, **how)

    monkeypatch.setattr(second_look.sessions, "open_as_other_client", opened)
    second_look.perform(endpoint.pk)
    assert len(vendor.requests) == 2
    look = SecondLook.objects.get()
    assert (look.result, look.tries, look.lease_until) == ("", 0, None)
    assert timezone.now() < look.due_at < timezone.now() + timedelta(minutes=2)
    assert not Finding.objects.filter(code="CLOAKING").exists()


def test_it_makes_way_for_a_reading_that_began_while_it_compared(endpoint, vendor, monkeypatch):
    """Both lock tools, and a run locks them in another order: each might wait for the other."""
    is_good_for_others(vendor)
    due(endpoint)

    def meanwhile(passed):
        if passed == "looked":
            Run.objects.create(endpoint=endpoint)

    monkeypatch.setattr(second_look, "failpoint", meanwhile)
    second_look.perform(endpoint.pk)
    look = SecondLook.objects.get()
    assert (look.result, look.tries, look.lease_until) == ("", 0, None)
    assert not Finding.objects.filter(code="CLOAKING").exists()


def test_it_makes_way_although_somebody_asked_anew_meanwhile(endpoint, vendor, monkeypatch):
    is_good_for_others(vendor)
    due(endpoint)

    def meanwhile(passed):
        if passed == "looked":
            SecondLook.objects.update(tries=0)
            Run.objects.create(endpoint=endpoint)

    monkeypatch.setattr(second_look, "failpoint", meanwhile)
    second_look.perform(endpoint.pk)
    assert SecondLook.objects.values_list("tries", "lease_until").get() == (0, None)


def test_a_slow_vendor_is_not_asked_for_longer_than_a_worker_has(endpoint, vendor, monkeypatch):
    """A list of one page has no next page at which to look at the clock."""
    is_good_for_others(vendor)
    due(endpoint)
    clock = SimpleNamespace(monotonic=lambda: 50.0 * len(vendor.requests))
    monkeypatch.setattr(second_look, "time", clock)
    second_look.perform(endpoint.pk)
    assert len(vendor.requests) == 5
    assert SecondLook.objects.get().result == "other"


def test_nothing_is_told_of_an_endpoint_that_was_removed_meanwhile(endpoint, vendor, monkeypatch):
    is_good_for_others(vendor)
    due(endpoint)

    def meanwhile(passed):
        if passed == "looked":
            Endpoint.objects.update(removed_at=timezone.now())

    monkeypatch.setattr(second_look, "failpoint", meanwhile)
    second_look.perform(endpoint.pk)
    assert not Finding.objects.filter(code="CLOAKING").exists()


def test_an_administrator_turns_it_on_asks_for_it_and_turns_it_off(
    endpoint, vendor, sent_pks, admin_api, django_capture_on_commit_callbacks
):
    url = f"/api/v1/endpoints/{endpoint.pk}/second-look/"
    nothing = {"result": "", "says": "", "looked_at": None, "due_at": None, "is_on": False, "other_name": ""}
    assert nothing.items() <= admin_api.get(url).json().items()
    refused = admin_api.post(url)
    assert (refused.status_code, refused.json()["code"]) == (409, "second_look_off")
    look = admin_api.patch(url, {"is_on": True, "other_name": OTHER}, format="json").json()
    assert (look["is_on"], look["other_name"], look["due_at"] is None, look["is_under_way"]) == (
        True,
        OTHER,
        False,
        False,
    )
    with django_capture_on_commit_callbacks(execute=True):
        first, second = admin_api.post(url), admin_api.post(url)
    assert (first.status_code, first.json()["is_under_way"]) == (202, True)
    assert second.json() == first.json()
    assert sent_pks == [endpoint.pk]
    assert AuditEntry.objects.filter(action="ask for a second look").count() == 1

    second_look.perform(endpoint.pk)
    assert admin_api.get(url).json()["result"] == "same"

    assert admin_api.patch(url, {"is_on": False}, format="json").json()["due_at"] is None
    SecondLook.objects.update(due_at=timezone.now() + PAST)
    second_look.tick()
    second_look.perform(endpoint.pk)
    assert (sent_pks, len(vendor.requests)) == ([endpoint.pk], 1)
    assert admin_api.post(url).status_code == 409
    edits = AuditEntry.objects.filter(action="edit").order_by("pk")
    assert [(edit.before, edit.after) for edit in edits] == [
        ({"second_look": False, "second_look_name": ""}, {"second_look": True, "second_look_name": OTHER}),
        ({"second_look": True}, {"second_look": False}),
    ]


def test_without_another_name_it_asks_in_our_own_without_the_credential(endpoint, vendor):
    endpoint.credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=vendor.url, secret="s3cret-of-ours"
    )
    endpoint.save()
    turned_on(endpoint, other_name="")
    second_look.perform(endpoint.pk)
    assert [(header["user-agent"], "authorization" in header) for header in vendor.headers[1:]] == [
        ("Pegboard", False)
    ]
    assert SecondLook.objects.get().says == (
        "A client without our credential is shown 3 of the 3 tools that we are shown, all of them the same."
    )


def test_where_there_is_no_other_client_it_is_not_turned_on(endpoint, admin_api):
    url = f"/api/v1/endpoints/{endpoint.pk}/second-look/"
    refused = admin_api.patch(url, {"is_on": True}, format="json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["other_name"])
    refused = admin_api.patch(url, {"is_on": True, "other_name": "two\r\nlines"}, format="json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["other_name"])
    assert not SecondLook.objects.exists()
    due(endpoint, other_name="")  # its credential was taken away since
    second_look.perform(endpoint.pk)
    assert SecondLook.objects.get().says == (
        "This endpoint has no credential, so the check needs another client name. Enter one."
    )


def test_what_was_never_read_or_is_gone_is_refused(admin_api):
    new, removed_endpoint = make_endpoint(), make_endpoint(removed_at=timezone.now())
    turned_on(new)
    answer = admin_api.post(f"/api/v1/endpoints/{new.pk}/second-look/")
    assert answer.status_code == 409
    assert answer.json() == {
        "code": "not_read",
        "message": "There is nothing to compare with yet. Sync this endpoint first, then check again.",
    }
    assert admin_api.post(f"/api/v1/endpoints/{removed_endpoint.pk}/second-look/").status_code == 404
    assert SecondLook.objects.get().requested_by is None


def test_the_page_of_an_endpoint_shows_it_and_has_the_button(endpoint):
    admin, path = signed_in(Role.ADMIN), f"/endpoints/{endpoint.pk}/"
    settings_path = f"{path}?tab=settings"
    off = text_of(admin.get(settings_path))
    assert "It is off until you turn it on." in off
    assert "Check now" not in off
    assert "Turn on" not in text_of(signed_in(Role.VIEWER).get(settings_path))
    refused = admin.post(f"{path}second-look/", {"is_on": "1", "other_name": ""}, follow=True)
    assert "the check needs another client name" in text_of(refused)
    admin.post(f"{path}second-look/", {"is_on": "1", "other_name": OTHER})
    assert "Not checked yet." in text_of(admin.get(path))
    assert "Check now" in text_of(admin.get(path))
    admin.post(f"{path}second-look/")
    assert "Checking. This takes a moment." in text_of(admin.get(path))
    assert f'hx-get="{path}" hx-trigger="every 2s"' in admin.get(path).content.decode()
    second_look.perform(endpoint.pk)
    page = admin.get(path)
    assert "Same for other clients" in text_of(page)
    assert "every 2s" not in page.content.decode()
    admin.post(f"{path}second-look/", {"is_on": "0"})
    assert "It is off until you turn it on." in text_of(admin.get(settings_path))
    assert SecondLook.objects.get().other_name == OTHER


def test_without_its_credential_nothing_is_asked(endpoint, vendor):
    """A secret that cannot be decrypted could come back in a reply and not be known again."""
    elsewhere = Credential.objects.create(name="Key", kind="bearer", origin="https://elsewhere.example")
    Endpoint.objects.update(credential=elsewhere)
    due(endpoint)
    second_look.perform(endpoint.pk)
    look = SecondLook.objects.get()
    assert (look.result, vendor.requests) == ("failed", [])
    assert look.says.startswith(
        "“Key” was entered for https://elsewhere.example and is not sent anywhere else."
    )
    assert look.due_at < timezone.now() + timedelta(days=2)


def test_a_list_that_was_entered_by_hand_is_shown_to_nobody(sent_pks):
    document = '{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": {}}'
    endpoint = make_endpoint(protocol="openapi", last_success_at=timezone.now())
    endpoint.take_settings({"document": document})
    endpoint.save()
    endpoint.stored_documents.create(name="document", text=document)
    due(endpoint)
    second_look.perform(endpoint.pk)
    look = SecondLook.objects.get()
    assert look.result == "nothing"
    assert "The list was entered here by hand, so there is no vendor to check." in look.says
