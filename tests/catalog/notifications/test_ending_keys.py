"""Owners and administrators are notified before an API key ends, and operators see it."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from catalog.notifications import dispatch, subscriptions, webhooks
from catalog.notifications.models import Delivery, Event, Mail, Notice
from catalog.notifications.tasks import announce_ending_keys
from people import api_keys
from people.models import ApiKey, KeyScope, Role
from tests.catalog.notifications.conftest import reader
from tests.factories import make_user
from tests.pages import text_of
from tests.pegboard.ops import test_doctor
from tests.pegboard.ops.test_doctor import local
from tests.pegboard.ops.test_metrics import value

__all__ = ["local"]
pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def make_key(owner, days=90, name="Nightly"):
    ends = timezone.now() + timedelta(days=days)
    return api_keys.issue(owner, actor=owner, name=name, scopes=[KeyScope.READ], expires_at=ends)[0]


def announced():
    announce_ending_keys()
    dispatch.settle_due()
    return list(Notice.objects.exclude(told_at=None).order_by("at").values_list("subject", flat=True))


def test_owner_and_administrators_are_notified_twice_and_once_each(settings):
    settings.MAIL_IS_SET_UP = True
    owner, admin, other, _deaf = (
        reader(make_user(role)).user for role in (Role.DESIGNER, Role.ADMIN, Role.DESIGNER, Role.ADMIN)
    )
    for user in (admin, other):
        subscriptions.choose(user, [Event.KEY_ENDING])
    hook, _ = webhooks.create(
        actor=admin, name="On call", url="https://hooks.example/in", events=[Event.KEY_ENDING]
    )
    key = make_key(owner)
    notice_counts = []
    for days in (60, 15, 13.9, 13, 8, 3.1, 2.9, 1, 0.1, -1):
        with time_machine.travel(key.expires_at - timedelta(days=days)):
            notice_counts += [len(announced()), len(announced())]
    assert notice_counts == [0, 0, 0, 0, *[1] * 8, *[2] * 8]
    first, second = Notice.objects.order_by("at")
    assert (first.subject, second.subject) == (f"{key.pk}:14", f"{key.pk}:3")
    assert first.facts["key"] == {
        "id": key.pk,
        "name": "Nightly",
        "prefix": key.prefix,
        "owner": owner.username,
        "expires_at": key.expires_at.isoformat(timespec="seconds"),
    }
    assert set(first.readers.all()) == {owner, admin}
    assert set(Mail.objects.values_list("user", flat=True)) == {owner.pk, admin.pk}
    assert set(Delivery.objects.values_list("webhook", flat=True)) == {hook.pk}
    assert Delivery.objects.count() == 2


def test_the_owner_reads_it_on_the_page(client):
    owner = make_user(Role.DESIGNER)
    key = make_key(owner)
    with time_machine.travel(key.expires_at - DAY):
        announced()
        client.force_login(owner)
        assert "The API key “Nightly” ends" in text_of(client.get("/notifications/"))


def test_a_key_for_few_days_is_announced_when_it_has_lasted_longer_than_that():
    owner = make_user(Role.DESIGNER)
    make_key(owner, days=2, name="Try")
    week = make_key(owner, days=7, name="Week")
    assert announced() == []
    with time_machine.travel(week.expires_at - DAY):
        assert announced() == [f"{week.pk}:3"]


def test_after_a_pause_of_the_scheduler_the_nearer_notice_is_enough():
    key = make_key(make_user(Role.DESIGNER))
    with time_machine.travel(key.expires_at - 2 * DAY):
        assert announced() == [f"{key.pk}:3"]


@pytest.mark.parametrize("end", ["revoked", "owner left", "of signed in"])
def test_keys_that_end_otherwise_are_left_out(end):
    owner = make_user(Role.DESIGNER)
    key = make_key(owner)
    match end:
        case "revoked":
            api_keys.revoke(key, actor=owner)
        case "owner left":
            owner.is_active = False
            owner.save()
        case "of signed in":
            ApiKey.objects.filter(pk=key.pk).update(digest=f"{ApiKey.SIGNED_IN}x")
    with time_machine.travel(key.expires_at - DAY):
        assert announced() == []


def test_operators_see_keys_that_end(admin_api, settings):
    key = make_key(make_user(Role.DESIGNER), days=13)
    make_key(make_user(Role.DESIGNER), days=15)
    assert test_doctor.failed_checks("--skip", "statement_timeout") == ["api_keys"]
    assert value(admin_api.get("/metrics").content.decode(), "pegboard_api_keys_ending") == 1
    api_keys.revoke(key, actor=key.user)
    assert test_doctor.failed_checks("--skip", "statement_timeout") == []
