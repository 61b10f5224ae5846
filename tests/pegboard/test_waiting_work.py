"""Work that waits longer than it may is stated wherever the state of the product is."""

from datetime import timedelta

import pytest
from django.utils import timezone

from catalog import search, waiting_work
from catalog.models import Call, Run, ToolChange, UserGrant
from catalog.models.user_grants import EndUser
from catalog.notifications.models import Callback, Delivery, Mail, Notice, Webhook
from pegboard.ops.doctor import work
from pegboard.ops.doctor.frame import DoctorLimits
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_tool, make_user
from tests.pages import text_of

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def make_call(**fields) -> Call:
    version = make_tool().current
    gives_up_at = timezone.now() + DAY
    return Call.objects.create(tool=version.tool, version=version, gives_up_at=gives_up_at, **fields)


def make_grant(since) -> None:
    user = EndUser.objects.create(agent=make_agent().pk, digest="0" * 64)
    UserGrant.objects.create(end_user=user, endpoint=make_endpoint(), provider="mail", next_check_at=since)


def make_delivery(since) -> None:
    notice = Notice.objects.create(event="test", subject="", settled_at=since)
    delivery = Delivery.objects.create(webhook=Webhook.objects.create(name="Hook", events=[]), notice=notice)
    Webhook.objects.update(next_at=since)
    Delivery.objects.filter(pk=delivery.pk).update(created_at=since)


def make_callback(since) -> None:
    call = make_call(status="finished", outcome="ok", finished_at=since)
    Callback.objects.create(call=call, next_at=since)


def make_change(since) -> None:
    """The index exists, and did not read a change."""
    search.index_pending()
    make_tool()
    ToolChange.objects.update(changed_at=since)


WORK = [
    ("calls", lambda since: make_call(queued_at=since)),
    ("runs", lambda since: Run.objects.create(endpoint=make_endpoint(), queued_at=since)),
    ("slow_runs", lambda since: Run.objects.create(endpoint=make_endpoint(), queued_at=since, in_parts=True)),
    (
        "inspection",
        lambda since: Run.objects.create(
            endpoint=make_endpoint(), status="succeeded", added=1, finished_at=since
        ),
    ),
    ("index", lambda since: make_change(since)),
    ("notifications", lambda since: Notice.objects.create(event="test", subject="", due_at=since)),
    ("notifications", lambda since: Mail.objects.create(user=make_user(), next_at=since)),
    ("notifications", make_delivery),
    ("notifications", make_callback),
    ("grants", make_grant),
]


@pytest.mark.parametrize(("kind", "make"), WORK)
def test_what_waits_too_long_is_stated_everywhere(kind, make, client, settings):
    settings.MAIL_IS_SET_UP = True
    make_endpoint(next_due_at=timezone.now() + DAY)
    make(timezone.now() - DAY)

    state = client.get("/readyz").json()
    assert (state["queue"], state["late"]) == ("late", [kind])
    assert state["waiting_seconds"][kind] >= DAY.total_seconds()

    client.force_login(make_user(Role.ADMIN))
    metrics = client.get("/metrics").content.decode()
    assert f'pegboard_waiting_oldest_seconds{{kind="{kind}"}} 864' in metrics
    page = client.get("/")
    assert [late.kind.name for late in page.context["late_work"]] == [kind]
    assert "1,440 minutes" in text_of(page)
    client.force_login(make_user(Role.VIEWER))
    assert "late_work" not in client.get("/").context


@pytest.mark.parametrize(("kind", "make"), WORK)
def test_work_that_waits_within_its_bound_is_no_trouble(kind, make, client, settings):
    settings.MAIL_IS_SET_UP = True
    may_wait = next(waiting_kind.may_wait for waiting_kind in waiting_work.KINDS if waiting_kind.name == kind)
    make(timezone.now() - timedelta(seconds=may_wait / 2))

    state = client.get("/readyz").json()
    assert (state["queue"], state["late"]) == ("ok", [])
    assert state["waiting_seconds"][kind] >= may_wait / 2


CHECKS = {
    "calls": work.calls,
    "runs": work.queue,
    "slow_runs": work.queue,
    "inspection": work.inspection,
    "index": work.index,
    "notifications": work.notices,
    "grants": work.grants,
}


@pytest.mark.parametrize(("kind", "make"), WORK)
def test_doctor_finds_what_waits_too_long(kind, make, settings):
    settings.MAIL_IS_SET_UP = True
    assert list(CHECKS[kind](DoctorLimits())) == []
    make(timezone.now() - DAY)
    assert len(list(CHECKS[kind](DoctorLimits()))) == 1
