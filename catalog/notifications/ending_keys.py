"""Notices about API keys that expire: one 14 days before and one 3 days before."""

from django.db import transaction
from django.utils import timezone

from catalog.notifications import outbox
from people import api_keys
from people.models import ApiKey


def announce() -> None:
    """Write the notices that are due. Two processes may run it at once."""
    now = timezone.now()
    for pk in api_keys.find_ending(now).values_list("pk", flat=True):
        with transaction.atomic():
            # The lock serializes two processes. The second one finds the notice of the first.
            key = ApiKey.objects.select_for_update(of=("self",), no_key=True).filter(pk=pk).first()
            if key and not key.revoked_at and (days := api_keys.notice_days(key, now)):
                outbox.report_ending_key(key.pk, days)
