"""Limits how often a designer may request a run of an endpoint. Administrators have no limit."""

from datetime import datetime, timedelta
from math import ceil

from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.credentials import circuit_breaker
from catalog.enumeration import runs
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, Trigger
from core.errors import DomainError
from people.models import User

# A list that was read a moment ago has hardly changed, and a button is pressed more than once.
MIN_PAUSE = timedelta(seconds=15)
# Runs that designers request use at most this part of the endpoint's request limit.
ONE_PART_OF = 10


class TooSoonError(DomainError):
    def __init__(self, message: str, wait: timedelta) -> None:
        super().__init__("too_soon", message, status=429)
        self.retry_after = max(1, ceil(wait.total_seconds()))


def pause_after(pages: int, *, requests_per_second: int, interval_minutes: int) -> timedelta:
    """Return the pause after a run of so many pages: a moment at least, and no longer than the schedule
    waits.
    """
    spread = timedelta(seconds=ONE_PART_OF * pages / requests_per_second)
    return min(max(MIN_PAUSE, spread), timedelta(minutes=interval_minutes))


def possible_from(endpoint: Endpoint) -> datetime | None:
    """Return when a designer may request a run. None: now, or a run is active already."""
    if endpoint.runs.filter(status__in=ACTIVE).exists():
        return None
    moments = [circuit_breaker.unavailable_until(endpoint)]
    if last := endpoint.runs.of_lists().exclude(finished_at=None).order_by("-finished_at").first():
        pause = pause_after(
            last.pages,
            requests_per_second=endpoint.requests_per_second,
            interval_minutes=endpoint.interval_minutes,
        )
        moments.append(last.finished_at + pause if last.finished_at else None)
    latest = max(filter(None, moments), default=None)
    return latest if latest and latest > timezone.now() else None


def request_run(endpoint: Endpoint, *, actor: User) -> Run:
    """Request a run like `runs.request_run`. Raises TooSoonError if a designer must wait."""
    moment = None if actor.can_administer else possible_from(endpoint)
    if moment:
        raise TooSoonError(describe_moment(moment), moment - timezone.now())
    return runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def describe_moment(moment: datetime) -> str:
    time_text = (
        f"{moment:%H:%M:%S} UTC" if moment.date() == timezone.now().date() else f"{moment:%d %b, %H:%M} UTC"
    )
    return _(
        "You can sync it again from {time}, at the interval of this endpoint. An administrator can sync it "
        "immediately."
    ).format(time=time_text)
