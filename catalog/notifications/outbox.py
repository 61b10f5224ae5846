"""The outbox: a notice is a row that is written in the transaction of the change. Nothing is sent from here.

A notice waits a moment, so that a failure that ends at once is not reported. It waits up to an hour after the
last one of its kind about the same subject, so that repeated changes are reported once an hour. At most one
notice of a kind waits for each subject.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import DateTimeField, Value
from django.db.models.functions import Greatest, Now

from catalog.models import Endpoint
from catalog.notifications.models import Event, Notice, Webhook

# The second attempt to read an endpoint follows after half a minute. A failure that ends with it is not
# reported.
GRACE = timedelta(seconds=90)
GATHER = timedelta(seconds=20)
AT_ONCE = timedelta(0)
# The minimum time between two notices of a kind about the same subject.
PAUSE = timedelta(hours=1)


def report_failure(endpoint: Endpoint) -> None:
    add_notice(Event.BROKEN, endpoint.pk, GRACE)


def report_recovery(endpoint: Endpoint) -> None:
    """Delete the waiting notice of the failure, or report the recovery if the failure was reported."""
    subject = str(endpoint.pk)
    if Notice.objects.filter(event=Event.BROKEN, subject=subject, settled_at=None).delete()[0]:
        return
    reported = Notice.objects.filter(subject=subject, event__in=(Event.BROKEN, Event.RECOVERED))
    last_notice = reported.exclude(told_at=None).order_by("-told_at").first()
    if last_notice and last_notice.event == Event.BROKEN:
        add_notice(Event.RECOVERED, endpoint.pk, AT_ONCE)


def report_held_run(endpoint: Endpoint) -> None:
    add_notice(Event.HELD, endpoint.pk, AT_ONCE)


def report_waiting_review(endpoint_id: int) -> None:
    add_notice(Event.REVIEW, endpoint_id, GATHER)


def report_needed_sign_in(credential_id: UUID) -> None:
    add_notice(Event.SIGN_IN, credential_id, AT_ONCE)


def report_paused_webhook(webhook: Webhook) -> None:
    add_notice(Event.WEBHOOK_PAUSED, webhook.pk, AT_ONCE)


def report_leaked_key(key_id: int) -> None:
    add_notice(Event.KEY_REPORTED, key_id, AT_ONCE)


def report_ending_key(key_id: int, days: int) -> None:
    """Report once that the key expires within this number of days."""
    subject = f"{key_id}:{days}"
    if not Notice.objects.filter(event=Event.KEY_ENDING, subject=subject).exists():
        add_notice(Event.KEY_ENDING, subject, AT_ONCE)


def report_vendor_request(request_id: int) -> None:
    add_notice(Event.VENDOR_REQUESTED, request_id, AT_ONCE)


def report_vendor_answer(request_id: int) -> None:
    add_notice(Event.VENDOR_ANSWERED, request_id, AT_ONCE)


def report_changed_tools(subject: object) -> None:
    """Report all changed tools in one notice. `subject`: a run, or a subject of `events.describe_changed`."""
    add_notice(Event.TOOLS_CHANGED, subject, GATHER)


def report_withdrawn_tools(subject: object) -> None:
    """Report withdrawn tools. `subject`: see `events.describe_withdrawn`."""
    add_notice(Event.TOOLS_WITHDRAWN, subject, GATHER)


def add_notice(event: str, subject: object, wait: timedelta = AT_ONCE) -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("a notice must be written in the transaction of its change")
    notice = Notice(event=event, subject=str(subject))
    earliest = Now() + wait
    reported = Notice.objects.filter(event=event, subject=notice.subject).exclude(told_at=None)
    if last := reported.order_by("-told_at").values_list("told_at", flat=True).first():
        after_last = Value(last + PAUSE, output_field=DateTimeField())
        notice.due_at = Greatest(earliest, after_last)
    else:
        notice.due_at = earliest
    # A notice that already waits covers this event too.
    Notice.objects.bulk_create([notice], ignore_conflicts=True)


def add_notices(event: str, subjects: str, values: dict[str, Any], wait: timedelta = AT_ONCE) -> None:
    """Add a notice for each of many subjects in one statement. `subjects`: a query that returns them as
    text."""
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
