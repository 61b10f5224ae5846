"""Users of agents, for whom runtimes call tools. Only the runtime and the vendor know their identity.

A call identifies its user by a keyed digest of agent and name. The name is stored encrypted until the user is
deleted, because a call may be sent later or continue by itself.
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
# Far longer than any call, so that no running call loses its user.
KEPT_IDLE = timedelta(days=30)
AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class OnBehalfOf:
    """The user for whom a runtime calls.

    name: the runtime's name for the user. resumes: a call that stops for an authorization continues by itself
    after it.
    """

    name: str
    resumes: bool = False


def digest_of(agent: int, name: str) -> str:
    return encryption.keyed_digest(f"{agent}\0{name}", field=FIELD)


def remember(agent: int, name: str) -> str:
    """Store the name of a user and return the digest. Raises DomainError without an encryption key."""
    digest = digest_of(agent, name)
    rows = EndUser.objects.filter(agent=agent, digest=digest)
    last_seen_at = rows.values_list("last_seen_at", flat=True).first()
    if last_seen_at and timezone.now() - last_seen_at < NOTE_EVERY:
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
    referenced = UserGrant.objects.filter(
        end_user=OuterRef("pk"), state__in=[GrantState.PENDING, GrantState.COMPLETED]
    )
    idle = EndUser.objects.annotate(seen_at=Coalesce("last_seen_at", "first_seen_at"))
    idle = idle.filter(~Exists(referenced), seen_at__lt=Now() - KEPT_IDLE).order_by("pk")
    with transaction.atomic():
        rows = list(idle.select_for_update(of=("self",), skip_locked=True)[:AT_ONCE])
        EndUser.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows) == AT_ONCE


def name_of(user: EndUser) -> str:
    """Return the name of an end user. Raises UndecryptableError."""
    return encryption.decrypt(user.sealed, row=user.pk, field=FIELD, name=str(user)).reveal()
