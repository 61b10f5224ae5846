"""Bearer tokens: `pgb_`, a public id, `_`, a secret and a checksum that tells a typo from a revoked token."""

import re
import secrets
import string
import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from people import audit, names
from people.errors import DomainError
from people.models import RUNTIME_SCOPES, ApiToken, Scope, User

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
SHAPE = re.compile(r"pgb_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")
DEFAULT_LIFE = timedelta(days=90)
LONGEST_LIFE = timedelta(days=366)


def generate() -> str:
    body = f"pgb_{_random(22)}_{_random(32)}"
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    return SHAPE.fullmatch(token) is not None and _checksum(token[:-6]) == token[-6:]


def visible_to(user: User) -> QuerySet[ApiToken]:
    """Everybody sees their own; an administrator sees all."""
    rows = ApiToken.objects.select_related("user")
    return rows if user.can_administer else rows.filter(user=user)


def issue(
    user: User,
    *,
    actor: User | None,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    is_narrowed: bool = False,
) -> tuple[ApiToken, str]:
    """The row and the token itself, which is not kept anywhere. Without a date it lives 90 days.

    A narrowed one reaches the agents that are named for it: designer/keys.py makes those.
    """
    now = timezone.now()
    expires_at = expires_at or now + DEFAULT_LIFE
    wanted = list(dict.fromkeys(scopes))
    _check(name, wanted, expires_at, now, is_narrowed=is_narrowed)
    plain = generate()
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            name=name.strip(),
            prefix=plain[:12],
            digest=ApiToken.digest_of(plain),
            scopes=wanted,
            expires_at=expires_at,
            is_narrowed=is_narrowed,
        )
        after = {"owner": user.username, **_facts(token)}
        why = "" if actor else "From the command line."
        audit.record(actor, "issue key", token, after=after, why=why)
    return token, plain


def revoke(token: ApiToken, *, actor: User | None, why: str = "") -> None:
    """Safe to call twice; the second call changes nothing."""
    now = timezone.now()
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            before, after = {"state": token.state}, {"state": "revoked"}
            audit.record(actor, "revoke key", token, before=before, after=after, why=why)
            token.revoked_at = now


def _check(name: str, scopes: list[str], expires_at: datetime, now: datetime, *, is_narrowed: bool) -> None:
    fields = {}
    if why := names.why_not(name.strip(), 100):
        fields["name"] = why
    if not scopes or not set(scopes) <= set(Scope.values):
        fields["scopes"] = f"Choose at least one of {', '.join(Scope.values)}."
    elif is_narrowed and not set(scopes) <= RUNTIME_SCOPES:
        fields["agents"] = "Only a key with no other scopes than runtime and invoke can name agents."
    elif Scope.INVOKE in scopes and not is_narrowed:
        fields["agents"] = "A key that runs tools names the agents whose tools it runs."
    if not now < expires_at <= now + LONGEST_LIFE:
        fields["expires_at"] = "Choose a time within the next 366 days."
    if fields:
        raise DomainError("invalid", "The key could not be made.", fields=fields)


def _facts(token: ApiToken) -> dict[str, object]:
    expires_at = token.expires_at.isoformat("T", "seconds") if token.expires_at else None
    facts: dict[str, object] = {"name": token.name, "scopes": token.scopes, "expires_at": expires_at}
    return {**facts, "only_named_agents": True} if token.is_narrowed else facts


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, remainder = divmod(number, len(ALPHABET))
        digits = ALPHABET[remainder] + digits
    return digits
