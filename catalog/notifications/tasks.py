from celery import shared_task

from catalog.notifications import callbacks, dispatch, ending_keys, mail, webhooks
from core import portions, wakes

# The arguments are only for workers of earlier releases. These workers send everything that is due.


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def send_mail(mail_id: str = "") -> None:
    wakes.perform_due(mail.due, mail.send)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def send_deliveries(webhook_id: str = "") -> None:
    wakes.perform_due(webhooks.due, webhooks.send_waiting)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def send_callback(callback_id: str = "") -> None:
    wakes.perform_due(callbacks.due, callbacks.send)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def announce_ending_keys() -> None:
    ending_keys.announce()


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def forget_old() -> None:
    if dispatch.forget_old():
        wakes.wake_worker(forget_old.name)
    webhooks.encrypt_addresses()
