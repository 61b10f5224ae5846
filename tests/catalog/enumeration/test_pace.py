"""The time after which a designer may have an endpoint read again."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from catalog.enumeration import pace
from catalog.models import Run
from catalog.models.circuit import Circuit
from catalog.models.runs import RunStatus, Trigger
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_user


@pytest.fixture
def endpoint(db):
    return make_endpoint(requests_per_second=1, interval_minutes=60)


def ended(endpoint, *, ago: timedelta, pages: int = 1) -> Run:
    started_at = timezone.now() - ago
    return Run.objects.create(
        endpoint=endpoint,
        trigger=Trigger.SCHEDULE,
        status=RunStatus.SUCCEEDED,
        pages=pages,
        started_at=started_at,
        finished_at=started_at,
    )


def request_enumeration(api, endpoint):
    return api.post(f"/api/v1/endpoints/{endpoint.pk}/enumerate/")


def test_a_designer_has_an_endpoint_read(designer_api, endpoint):
    reply = request_enumeration(designer_api, endpoint)
    assert reply.status_code == 202
    run = Run.objects.get(pk=reply.json()["run"])
    assert run.requested_by.role == Role.DESIGNER
    assert AuditEntry.objects.get(action="enumerate").actor == run.requested_by
    # Another request during an active run gets the same run.
    assert request_enumeration(designer_api, endpoint).json() == reply.json()


def test_a_designer_waits_for_the_pace_and_an_administrator_does_not(designer_api, admin_api, endpoint):
    ended(endpoint, ago=timedelta(seconds=5))
    refused = request_enumeration(designer_api, endpoint)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_soon")
    assert 1 <= int(refused.headers["Retry-After"]) <= 10
    assert "An administrator can sync it immediately." in refused.json()["message"]
    assert not endpoint.runs.exclude(status=RunStatus.SUCCEEDED).exists()
    assert request_enumeration(admin_api, endpoint).status_code == 202


def test_a_long_list_is_read_less_often(designer_api, endpoint):
    ended(endpoint, ago=timedelta(minutes=8), pages=60)
    assert request_enumeration(designer_api, endpoint).status_code == 429
    endpoint.runs.update(finished_at=timezone.now() - timedelta(minutes=10))
    assert request_enumeration(designer_api, endpoint).status_code == 202


def test_a_vendor_that_asked_to_wait_is_not_asked(designer_api, endpoint):
    Circuit.objects.create(endpoint=endpoint, open_until=timezone.now() + timedelta(minutes=5))
    assert request_enumeration(designer_api, endpoint).status_code == 429


def test_the_page_says_when(client, endpoint):
    client.force_login(make_user(Role.DESIGNER))
    url, here = reverse("endpoint-read", args=[endpoint.pk]), reverse("endpoint", args=[endpoint.pk])
    ended(endpoint, ago=timedelta(0))
    page = client.get(here).content.decode()
    assert "You can sync it again from" in page

    response = client.post(url, follow=True)
    assert response.redirect_chain[-1][0] == here
    assert "You can sync it again from" in str(*response.context["messages"])

    endpoint.runs.update(finished_at=timezone.now() - timedelta(hours=1))
    assert "You can sync it again from" not in client.get(here).content.decode()
    reading_response = client.post(url)
    assert reading_response.url == reverse("run", args=[endpoint.runs.first().pk])


@given(st.integers(0, 10**6), st.integers(1, 1_000), st.integers(1, 10_080))
def test_designers_take_a_tenth_of_the_pace_within_bounds(pages, per_second, interval):
    pause = pace.pause_after(pages, requests_per_second=per_second, interval_minutes=interval)
    assert pace.MIN_PAUSE <= pause <= timedelta(minutes=interval)
    within = pause < timedelta(minutes=interval)
    assert not within or pages <= pause.total_seconds() * per_second / 10 + 1e-3
