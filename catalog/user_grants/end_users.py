"""Users of agents, for whom runtimes call tools. Who they are, only the runtime and the vendor know.

A call knows its user by a keyed digest of agent and name. The name itself is kept encrypted for as long as
the user is not forgotten, because a call may be made later, or go on by itself.
"""

from dataclasses import dataclass

from catalog.models import EndUser
from core import encryption
from core.encryption import Secret

MAX_LENGTH = 200
FIELD = "catalog.enduser.sealed"


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
    if not EndUser.objects.filter(agent=agent, digest=digest).exists():
        row = EndUser(agent=agent, digest=digest)
        row.sealed = encryption.encrypt(Secret(name), row=row.pk, field=FIELD)
        EndUser.objects.bulk_create([row], ignore_conflicts=True)
    return digest


def name_of(user: EndUser) -> str:
    """Raises UndecryptableError."""
    return encryption.decrypt(user.sealed, row=user.pk, field=FIELD, name=str(user)).reveal()
