"""Users of agents, for whom runtimes call tools. Who they are, only the runtime and the vendor know.

A call knows its user by a keyed digest of agent and name. The name itself is kept encrypted for as long as
the user is not forgotten, because a call may be made later, or go on by itself.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from catalog.models import EndUser, UserGrant
from catalog.models.user_grants import GrantState
from core import encryption
from core.encryption import Secret

FIELD = "catalog.enduser.sealed"
NOTE_EVERY = timedelta(days=1)
# Far longer than a call may take, so that none under way loses its user.
KEPT_IDLE = timedelta(days=30)
AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class OnBehalfOf:
    """`name` is the runtime's own for its user. With `resumes`, a call that stops for an authorization goes
    on by itself once it is there."""

    name: str
    resumes: bool = False


def digest_of(agent: int, name: str) -> str:
    return encryption.keyed_digest(f"{agent}\0{name}", field=FIELD)


def remember(agent: int, name: str) -> str:
    """The digest of a user whose name is kept from now on. Raises DomainError where there is no key."""
    digest = digest_of(agent, name)
    rows = EndUser.objects.filter(agent=agent, digest=digest)
    seen = rows.values_list("last_seen_at", flat=True).first()
    if seen and timezone.now() - seen < NOTE_EVERY:
        return digest
    if not rows.update(last_seen_at=Now()):
        row = EndUser(agent=agent, digest=digest)
        row.sealed = encryption.encrypt(Secret(name), row=row.pk, field=FIELD)
        row.last_seen_at = timezone.now()
        EndUser.objects.bulk_create([row], ignore_conflicts=True)
    return digest


def forget_idle() -> bool:
    """Delete users for whom no call was made for long and who have authorized nothing, with their requests.

    Delete one portion of them and return whether there may be more. Safe to run twice.
    """
    wanted = UserGrant.objects.filter(
        end_user=OuterRef("pk"), state__in=[GrantState.PENDING, GrantState.COMPLETED]
    )
    idle = EndUser.objects.annotate(seen_at=Coalesce("last_seen_at", "first_seen_at"))
    idle = idle.filter(~Exists(wanted), seen_at__lt=Now() - KEPT_IDLE).order_by("pk")
    with transaction.atomic():
        rows = list(idle.select_for_update(of=("self",), skip_locked=True)[:AT_ONCE])
        EndUser.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows) == AT_ONCE


def name_of(user: EndUser) -> str:
    """Raises UndecryptableError."""
    return encryption.decrypt(user.sealed, row=user.pk, field=FIELD, name=str(user)).reveal()
