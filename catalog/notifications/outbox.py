"""The first half of telling: a row in the transaction of the change. Nothing is sent from here.

A notice waits for a moment, so that a failure that mends itself is not told, and for an hour after the last
one of its kind about the same thing, so that what flaps is told once an hour. Meanwhile there is one row at
most.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import DateTimeField, Value
from django.db.models.functions import Greatest, Now

from catalog.models import Endpoint
from catalog.notifications.models import Event, Notice, Webhook

# The second attempt at an endpoint comes after half a minute: a failure that is over by then is none.
GRACE = timedelta(seconds=90)
GATHER = timedelta(seconds=20)
AT_ONCE = timedelta(0)
# What goes on and off all day is told once an hour at most.
PAUSE = timedelta(hours=1)


def broke(endpoint: Endpoint) -> None:
    put(Event.BROKEN, endpoint.pk, GRACE)


def recovered(endpoint: Endpoint) -> None:
    """Takes back what was not told yet; otherwise those who heard of the failure hear that it is over."""
    subject = str(endpoint.pk)
    if Notice.objects.filter(event=Event.BROKEN, subject=subject, settled_at=None).delete()[0]:
        return
    told = Notice.objects.filter(subject=subject, event__in=(Event.BROKEN, Event.RECOVERED))
    last = told.exclude(told_at=None).order_by("-told_at").first()
    if last and last.event == Event.BROKEN:
        put(Event.RECOVERED, endpoint.pk, AT_ONCE)


def held(endpoint: Endpoint) -> None:
    put(Event.HELD, endpoint.pk, AT_ONCE)


def review_waits(endpoint_id: int) -> None:
    put(Event.REVIEW, endpoint_id, GATHER)


def needs_sign_in(credential_id: UUID) -> None:
    put(Event.SIGN_IN, credential_id, AT_ONCE)


def webhook_paused(webhook: Webhook) -> None:
    put(Event.WEBHOOK_PAUSED, webhook.pk, AT_ONCE)


def key_reported(key_id: int) -> None:
    put(Event.KEY_REPORTED, key_id, AT_ONCE)


def key_ending(key_id: int, days: int) -> None:
    """Tell once that the key ends within so many days."""
    subject = f"{key_id}:{days}"
    if not Notice.objects.filter(event=Event.KEY_ENDING, subject=subject).exists():
        put(Event.KEY_ENDING, subject, AT_ONCE)


def vendor_requested(request_id: int) -> None:
    put(Event.VENDOR_REQUESTED, request_id, AT_ONCE)


def vendor_answered(request_id: int) -> None:
    put(Event.VENDOR_ANSWERED, request_id, AT_ONCE)


def tools_changed(subject: object) -> None:
    """However many they are: one notice. `subject` is a run, or as `events.tell_changed` takes it."""
    put(Event.TOOLS_CHANGED, subject, GATHER)


def tools_withdrawn(subject: object) -> None:
    """`subject` as `events.tell_withdrawn` takes it."""
    put(Event.TOOLS_WITHDRAWN, subject, GATHER)


def put(event: str, subject: object, wait: timedelta = AT_ONCE) -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("a notice belongs into the transaction of its change")
    notice = Notice(event=event, subject=str(subject))
    earliest = Now() + wait
    told = Notice.objects.filter(event=event, subject=notice.subject).exclude(told_at=None)
    if last := told.order_by("-told_at").values_list("told_at", flat=True).first():
        after_last = Value(last + PAUSE, output_field=DateTimeField())
        notice.due_at = Greatest(earliest, after_last)
    else:
        notice.due_at = earliest
    # One that waits already tells this as well.
    Notice.objects.bulk_create([notice], ignore_conflicts=True)


def put_each(event: str, subjects: str, values: dict[str, Any], wait: timedelta = AT_ONCE) -> None:
    """As `put` for many subjects, in one statement: `subjects` is a query of their texts."""
    facts = {**values, "event": event, "wait": wait, "pause": PAUSE}
    with connection.cursor() as cursor:
        cursor.execute(_PUT_EACH.format(subjects), facts)


_PUT_EACH = """
INSERT INTO notifications_notice (id, event, subject, at, due_at, title, says, path, facts)
SELECT gen_random_uuid(), %(event)s, subject, now(), greatest(now() + %(wait)s, (
    SELECT max(told_at) + %(pause)s FROM notifications_notice told
    WHERE told.event = %(event)s AND told.subject = about.subject AND told_at IS NOT NULL)),
    '', '', '', '{{}}'
FROM ({}) about (subject)
ON CONFLICT DO NOTHING
"""
