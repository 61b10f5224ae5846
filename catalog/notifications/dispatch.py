"""Dispatch of notices: due notices become mails and deliveries, and senders are woken.

The scheduler runs `tick`, which needs no broker. Workers send. Both may run twice at once or stop anywhere:
the next tick continues after the last commit.
"""

import logging
import time
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.notifications import callbacks, kinds, mail, webhooks
from catalog.notifications.models import (
    Callback,
    Delivery,
    Mail,
    MailAddress,
    Notice,
    SendingState,
    Subscription,
    Webhook,
)
from core import portions, wakes
from people.models import User

logger = logging.getLogger(__name__)

PER_TICK = 200
# A tick starts no further batch after this many seconds. The next tick continues.
TICK_SECONDS = 20.0
# Notices within this time go into one mail.
GATHER = timedelta(seconds=45)
RETENTION = timedelta(days=30)
RETRY_AFTER = timedelta(hours=1)
SEND_MAIL = "catalog.notifications.tasks.send_mail"
SEND_DELIVERIES = "catalog.notifications.tasks.send_deliveries"


def tick() -> None:
    """Settle due notices, and wake the senders if mails or webhooks wait."""
    ends = time.monotonic() + TICK_SECONDS
    while settle_due() == PER_TICK and time.monotonic() < ends:
        pass
    if settings.MAIL_IS_SET_UP:
        _wake_workers(SEND_MAIL, mail.due())
    _wake_workers(SEND_DELIVERIES, webhooks.due())
    _wake_workers(callbacks.TASK, callbacks.due())


def _wake_workers(task: str, due: QuerySet[Any]) -> None:
    wakes.send_missing(task, map(str, due.values_list("pk", flat=True)[: wakes.MAX_WAKES]))


def settle_due() -> int:
    """Settle a batch of due notices and return its size. A failing notice does not stop the others."""
    due = Notice.objects.filter(settled_at=None, due_at__lte=Now()).order_by("due_at", "pk")
    waiting = list(due.values_list("pk", flat=True)[:PER_TICK])
    for pk in waiting:
        try:
            with transaction.atomic():
                if notice := due.filter(pk=pk).select_for_update(skip_locked=True).first():
                    _describe_notice(notice)
        except DatabaseError:
            raise
        except Exception:
            logger.exception("notice %s cannot be dispatched; it will be retried in an hour", pk)
            Notice.objects.filter(pk=pk).update(due_at=Now() + RETRY_AFTER)
    return len(waiting)


def _describe_notice(notice: Notice) -> None:
    now, kind = timezone.now(), kinds.KINDS[notice.event]
    notice.settled_at = now
    if text := kind.tell(notice.subject):
        notice.told_at = now
        notice.title, notice.says = text.title[:300], text.says
        notice.path, notice.facts, notice.agent = text.path, text.facts, text.agent
    notice.save(update_fields=["settled_at", "told_at", "title", "says", "path", "facts", "agent"])
    if not text:
        return
    receivers = kind.receivers(notice.subject) if kind.receivers else Q(owner=None, is_narrowed=False)
    hooks = Webhook.objects.filter(receivers, removed_at=None, events__contains=[notice.event])
    Delivery.objects.bulk_create(
        [Delivery(webhook=webhook, notice=notice) for webhook in hooks], ignore_conflicts=True
    )
    subscribers = Subscription.objects.filter(event=notice.event).values("user")
    active = User.objects.filter(is_active=True)
    readers_of_event = kind.readers(notice.subject) if kind.readers else active.filter(pk__in=subscribers)
    readers = set(active.filter(pk__in=readers_of_event.values("pk")).values_list("pk", flat=True))
    notice.readers.set(readers)
    if settings.MAIL_IS_SET_UP:
        confirmed = MailAddress.objects.filter(user__in=readers, confirmed_at__isnull=False)
        if not kind.mails_all:
            confirmed = confirmed.filter(user__in=subscribers)
        for address in confirmed.order_by("user"):
            open_mail(address).notices.add(notice)


def open_mail(address: MailAddress) -> Mail:
    """Lock and return the user's mail that no sender has claimed. A new one is due after the user's pause."""
    unsent = Mail.objects.filter(user=address.user_id, state=SendingState.WAITING, attempts=0, confirms="")
    find = partial(unsent.select_for_update(no_key=True).first)
    if row := find():
        return row
    next_at = timezone.now() + GATHER
    last_sent_at = Mail.objects.filter(user=address.user_id, confirms="").aggregate(last=Max("sent_at"))[
        "last"
    ]
    if last_sent_at:
        next_at = max(next_at, last_sent_at + timedelta(minutes=address.pause_minutes))
    try:
        with transaction.atomic():
            return Mail.objects.create(user_id=address.user_id, next_at=next_at)
    except IntegrityError:  # another dispatcher created it first
        if row := find():
            return row
        raise


def forget_old() -> bool:
    """Delete a batch of old notices, mails, deliveries and callbacks. Return whether more are left.

    The newest notice about each subject stays, because the next one depends on it.
    """
    cutoff = timezone.now() - RETENTION
    old = Notice.objects.filter(settled_at__lt=cutoff)
    once = [kind.name for kind in kinds.KINDS.values() if kind.happens_once]
    newest = Notice.objects.exclude(told_at=None).order_by("event", "subject", "-told_at")
    return portions.delete(
        Mail.objects.filter(created_at__lt=cutoff),
        Delivery.objects.filter(created_at__lt=cutoff),
        Callback.objects.filter(created_at__lt=cutoff),
        old.filter(event__in=once),
        old.exclude(pk__in=newest.distinct("event", "subject").values("pk")),
    )
