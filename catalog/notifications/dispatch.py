"""The second half: notices that are due become mails and deliveries, and senders are told.

`tick` runs in the scheduler's own process and needs no broker; the sending is workers' work. Both may run
twice and die anywhere: what was committed is taken up by the next tick.
"""

import logging
import time
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Max, Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog.notifications import callbacks, kinds
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
from core import task_dispatch
from people.models import User

logger = logging.getLogger(__name__)

PER_TICK = 200
# What comes together goes into one mail.
GATHER = timedelta(seconds=45)
KEPT = timedelta(days=30)
AGAIN = timedelta(hours=1)
MESSAGE_LIVES = 30.0  # seconds
SEND_MAIL = "catalog.notifications.tasks.send_mail"
SEND_DELIVERIES = "catalog.notifications.tasks.send_deliveries"
# What this process has sent a message about, and when. Another scheduler may send one more.
_woken: dict[tuple[UUID, datetime], float] = {}


def tick() -> None:
    """Settle what is due, and wake senders for what waits. Cheap when nothing does."""
    while settle_due() == PER_TICK:
        pass
    mails = Mail.objects.filter(state=SendingState.WAITING, next_at__lte=Now())
    if settings.MAIL_IS_SET_UP:
        for mail in mails.values_list("pk", "next_at")[:PER_TICK]:
            _wake(SEND_MAIL, *mail)
    ready = Webhook.objects.filter(removed_at=None, is_paused=False, next_at__lte=Now())
    waiting = ready.filter(deliveries__state=SendingState.WAITING).order_by().distinct()
    for webhook in waiting.values_list("pk", "next_at")[:PER_TICK]:
        _wake(SEND_DELIVERIES, *webhook)
    for callback in callbacks.due().values_list("pk", "next_at")[:PER_TICK]:
        _wake(callbacks.TASK, *callback)


def _wake(task: str, pk: UUID, due: datetime) -> None:
    """Once for as long as the message lives: a worker that is slow shall not find thousands of them.

    The process that takes it up moves `due`, so what comes after that is told at once.
    """
    now = time.monotonic()
    for old in [each for each, woken in _woken.items() if now - woken >= MESSAGE_LIVES]:
        del _woken[old]
    if (pk, due) in _woken:
        return
    send = partial(current_app.send_task, task, args=[str(pk)], expires=MESSAGE_LIVES)
    if task_dispatch.give(send, "a notification"):
        _woken[pk, due] = now


def settle_due() -> int:
    """How many notices were looked at. One that cannot be told holds up no other."""
    due = Notice.objects.filter(settled_at=None, due_at__lte=Now()).order_by("due_at", "pk")
    waiting = list(due.values_list("pk", flat=True)[:PER_TICK])
    for pk in waiting:
        try:
            with transaction.atomic():
                if notice := due.filter(pk=pk).select_for_update(skip_locked=True).first():
                    _settle(notice)
        except DatabaseError:
            raise
        except Exception:
            logger.exception("notice %s cannot be told; it is tried again in an hour", pk)
            Notice.objects.filter(pk=pk).update(due_at=Now() + AGAIN)
    return len(waiting)


def _settle(notice: Notice) -> None:
    now, kind = timezone.now(), kinds.KINDS[notice.event]
    notice.settled_at = now
    if told := kind.tell(notice.subject):
        notice.told_at = now
        notice.title, notice.says = told.title[:300], told.says
        notice.path, notice.facts, notice.agent = told.path, told.facts, told.agent
    notice.save(update_fields=["settled_at", "told_at", "title", "says", "path", "facts", "agent"])
    if not told:
        return
    receivers = kind.receivers(notice.subject) if kind.receivers else Q(owner=None, is_narrowed=False)
    webhooks = Webhook.objects.filter(receivers, removed_at=None, events__contains=[notice.event])
    Delivery.objects.bulk_create(
        [Delivery(webhook=webhook, notice=notice) for webhook in webhooks], ignore_conflicts=True
    )
    asked = Subscription.objects.filter(event=notice.event).values("user")
    active = User.objects.filter(is_active=True)
    hear = kind.readers(notice.subject) if kind.readers else active.filter(pk__in=asked)
    readers = set(active.filter(pk__in=hear.values("pk")).values_list("pk", flat=True))
    notice.readers.set(readers)
    if settings.MAIL_IS_SET_UP:
        confirmed = MailAddress.objects.filter(user__in=readers, confirmed_at__isnull=False)
        if not kind.mails_all:
            confirmed = confirmed.filter(user__in=asked)
        for address in confirmed.order_by("user"):
            open_mail(address).notices.add(notice)


def open_mail(address: MailAddress) -> Mail:
    """The person's mail that no sender has taken yet, locked; a new one comes after the pause they chose."""
    unsent = Mail.objects.filter(user=address.user_id, state=SendingState.WAITING, attempts=0, confirms="")
    find = partial(unsent.select_for_update(no_key=True).first)
    if mail := find():
        return mail
    next_at = timezone.now() + GATHER
    sent = Mail.objects.filter(user=address.user_id, confirms="").aggregate(last=Max("sent_at"))["last"]
    if sent:
        next_at = max(next_at, sent + timedelta(minutes=address.pause_minutes))
    try:
        with transaction.atomic():
            return Mail.objects.create(user_id=address.user_id, next_at=next_at)
    except IntegrityError:  # another dispatcher was quicker
        if mail := find():
            return mail
        raise


def forget_old() -> None:
    """After a month. The newest told one about each thing stays, as it says whether people know of it."""
    before = timezone.now() - KEPT
    Mail.objects.filter(created_at__lt=before).delete()
    Delivery.objects.filter(created_at__lt=before).delete()
    Callback.objects.filter(created_at__lt=before).delete()
    old = Notice.objects.filter(settled_at__lt=before)
    once = [kind.name for kind in kinds.KINDS.values() if kind.happens_once]
    old.filter(event__in=once).delete()
    newest = Notice.objects.exclude(told_at=None).order_by("event", "subject", "-told_at")
    old.exclude(pk__in=newest.distinct("event", "subject").values("pk")).delete()
