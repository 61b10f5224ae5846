from celery import shared_task

from catalog.notifications import callbacks, dispatch, mail, webhooks


@shared_task
def send_mail(mail_id: str) -> None:
    mail.send(mail_id)


@shared_task
def send_deliveries(webhook_id: str) -> None:
    webhooks.send_waiting(webhook_id)


@shared_task
def send_callback(callback_id: str) -> None:
    callbacks.send(callback_id)


@shared_task
def forget_old() -> None:
    dispatch.forget_old()
    webhooks.encrypt_addresses()
