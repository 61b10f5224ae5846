"""A key that leaked: a caller who has it ends it, by sending it here.

To have the key is all the proof that is asked for, as a caller who has it could do worse than end it.
"""

from django.db import transaction
from django.utils import timezone

from catalog.notifications import outbox
from core.outbound.errors import printable
from people import api_keys
from people.models import ApiKey

MAX_PLACE_LENGTH = 300


def report(plain: str, *, place: str = "") -> None:
    """Revokes the key, if there is one that still works. `place` is where it was found."""
    if not api_keys.is_well_formed(plain):
        return
    with transaction.atomic():
        rows = ApiKey.objects.select_for_update(of=("self",)).select_related("user")
        key = rows.filter(digest=ApiKey.digest_of(plain), revoked_at=None).first()
        if key is None:
            return
        found = printable(api_keys.SHAPE.sub("pgb_…", place.strip()), MAX_PLACE_LENGTH)
        where = f" It was found at {found}" if found else ""
        api_keys.revoke(
            key, actor=None, why=f"Reported as leaked, by a caller who had the key itself.{where}"
        )
        ApiKey.objects.filter(pk=key.pk).update(reported_at=timezone.now())
        outbox.key_reported(key.pk)
