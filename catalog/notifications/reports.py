"""Reports of leaked API keys. A caller who has a key revokes it by sending it here.

Having the key is the only proof required, because its holder could do greater harm than revoke it.
"""

from django.db import transaction
from django.utils import timezone

from catalog.notifications import outbox
from core.outbound.errors import printable
from people import api_keys
from people.models import KEY_SHAPE, ApiKey

MAX_PLACE_LENGTH = 300


def report(plain: str, *, place: str = "") -> None:
    """Revoke the key if it is valid. `place`: where it was found."""
    if not ApiKey.is_well_formed(plain):
        return
    with transaction.atomic():
        rows = ApiKey.objects.select_for_update(of=("self",)).select_related("user")
        key = rows.filter(digest=ApiKey.digest_of(plain), revoked_at=None).first()
        if key is None:
            return
        location = printable(KEY_SHAPE.sub("pgb_…", place.strip()), MAX_PLACE_LENGTH)
        location_sentence = f" It was found at {location}" if location else ""
        api_keys.revoke(
            key, actor=None, why=f"Reported as leaked, by a caller who had the key itself.{location_sentence}"
        )
        ApiKey.objects.filter(pk=key.pk).update(reported_at=timezone.now())
        outbox.report_leaked_key(key.pk)
