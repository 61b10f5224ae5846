"""API keys: `pgb_`, a public id, `_`, a secret and a checksum, to distinguish a typo from an unknown key."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from core import display_names, unique_violations
from core.errors import DomainError
from people import audit
from people.models import (
    CALLS_AT_ONCE,
    KEY_ALPHABET,
    KEY_PREFIX,
    MAX_CALLS_AT_ONCE,
    RUNTIME_SCOPES,
    ApiKey,
    KeyScope,
    User,
    key_checksum,
)

DEFAULT_LIFE = timedelta(days=90)
# A year, and a day for leap years.
MAX_LIFE = timedelta(days=366)


# Days before its end at which the owner of a key is notified.
NOTICE_DAYS = (3, 14)


def generate() -> str:
    body = f"{KEY_PREFIX}{_random_characters(22)}_{_random_characters(32)}"
    return body + key_checksum(body)


def visible_to(user: User) -> QuerySet[ApiKey]:
    """Return the keys that `user` may see: the user's own, or all for an administrator."""
    rows = ApiKey.objects.select_related("user")
    return rows if user.can_administer else rows.filter(user=user)


def find_ending(now: datetime) -> QuerySet[ApiKey]:
    """Return the usable keys that end within 14 days, the next one first.

    The keys of clients that their owner signs in end with each access token, and are left out.
    """
    rows = ApiKey.objects.filter(
        expires_at__gt=now,
        expires_at__lte=now + timedelta(days=max(NOTICE_DAYS)),
        revoked_at=None,
        user__is_active=True,
    )
    return rows.exclude(digest__startswith=ApiKey.SIGNED_IN).order_by("expires_at", "pk")


def notice_days(key: ApiKey, now: datetime) -> int | None:
    """Return which of the notices before its end is due for the key, in days; None for none.

    A key that was made for less time than that needs no notice.
    """
    if key.expires_at is None:
        return None
    remaining, life = key.expires_at - now, key.expires_at - key.created_at
    for days in NOTICE_DAYS:
        if timedelta(0) < remaining <= timedelta(days=days):
            return days if life > timedelta(days=days) else None
    return None


def issue(
    user: User,
    *,
    actor: User | None,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    is_narrowed: bool = False,
    calls_at_once: int = CALLS_AT_ONCE,
    environment: str = "",
) -> tuple[ApiKey, str]:
    """Create an API key. Return its row and the key itself, which is stored nowhere.

    expires_at: 90 days from now by default.
    is_narrowed: the key reaches only the agents that designer/agents/agent_keys.py names for it. That module
    also checks that these agents have the `environment`.
    Raises DomainError.
    """
    now = timezone.now()
    expires_at = expires_at or now + DEFAULT_LIFE
    unique_scopes = list(dict.fromkeys(scopes))
    _check_new_key(name, unique_scopes, expires_at, now, is_narrowed=is_narrowed)
    _check_limit(calls_at_once)
    plain = generate()
    with transaction.atomic():
        key = ApiKey.objects.create(
            user=user,
            name=name.strip(),
            # Enough of the public id to distinguish keys in a list.
            prefix=plain[:12],
            digest=ApiKey.digest_of(plain),
            scopes=unique_scopes,
            expires_at=expires_at,
            is_narrowed=is_narrowed,
            calls_at_once=calls_at_once,
            environment=environment,
        )
        after = {"owner": user.username, **_facts(key)}
        reason = "" if actor else "From the command line."
        audit.record(actor, "issue key", key, after=after, why=reason)
    return key, plain


@transaction.atomic
def admit(user: User, *, name: str, digest: str) -> ApiKey | None:
    """Create a narrowed key without a secret for clients that `user` signs in. None if one exists."""
    row = ApiKey(
        user=user,
        name=name,
        prefix="signed in",
        digest=digest,
        scopes=sorted(RUNTIME_SCOPES),
        is_narrowed=True,
    )
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        return None
    after = {"owner": user.username, **_facts(row)}
    audit.record(user, "issue key", row, after=after, why="A client was signed in for the first time.")
    return row


def restore(key: ApiKey, *, actor: User) -> None:
    """Reactivate a revoked key of signed-in clients. Raises DomainError for a key with a secret."""
    if not key.is_of_signed_in:
        message = _("A key that was revoked may be known to others. Make another one.")
        raise DomainError("key_revoked", message, status=409)
    with transaction.atomic():
        rows = ApiKey.objects.filter(pk=key.pk).exclude(revoked_at=None)
        if rows.update(revoked_at=None):
            audit.record(actor, "restore key", key, before={"state": "revoked"}, after={"state": "active"})
    key.revoked_at = None


def limit_calls(key: ApiKey, *, actor: User, calls_at_once: int) -> None:
    """Set how many tool calls may run at once with the key. Applies from the next call on."""
    _check_limit(calls_at_once)
    with transaction.atomic():
        rows = ApiKey.objects.select_for_update(no_key=True)
        before = rows.values_list("calls_at_once", flat=True).get(pk=key.pk)
        if before != calls_at_once:
            rows.filter(pk=key.pk).update(calls_at_once=calls_at_once)
            after = {"calls_at_once": calls_at_once}
            audit.record(actor, "change key", key, before={"calls_at_once": before}, after=after)
    key.calls_at_once = calls_at_once


def _check_limit(calls_at_once: int) -> None:
    if not 1 <= calls_at_once <= MAX_CALLS_AT_ONCE:
        message = _("Choose a number from 1 to {maximum}.").format(maximum=MAX_CALLS_AT_ONCE)
        raise DomainError("invalid", _("The key cannot have this limit."), fields={"calls_at_once": message})


def revoke(key: ApiKey, *, actor: User | None, why: str = "") -> None:
    """Revoke the key. A second call changes nothing."""
    now = timezone.now()
    with transaction.atomic():
        # If two requests revoke at once, one of them changes the row and writes the audit entry.
        if ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            before, after = {"state": key.state}, {"state": "revoked"}
            audit.record(actor, "revoke key", key, before=before, after=after, why=why)
            key.revoked_at = now


def _check_new_key(
    name: str, scopes: list[str], expires_at: datetime, now: datetime, *, is_narrowed: bool
) -> None:
    fields = {}
    if fault := display_names.name_problem(name.strip(), 100):
        fields["name"] = fault
    if not scopes or not set(scopes) <= set(KeyScope.values):
        fields["scopes"] = _("Choose at least one of {scopes}.").format(scopes=", ".join(KeyScope.values))
    elif is_narrowed and not set(scopes) <= RUNTIME_SCOPES:
        fields["agents"] = _("Only a key with no other scopes than runtime and invoke can name agents.")
    elif KeyScope.INVOKE in scopes and not is_narrowed:
        fields["agents"] = _("A key that runs tools names the agents whose tools it runs.")
    if not now < expires_at <= now + MAX_LIFE:
        fields["expires_at"] = _("Choose a time within the next 366 days.")
    if fields:
        raise DomainError("invalid", _("The key was not created."), fields=fields)


def _facts(key: ApiKey) -> dict[str, object]:
    expires_at = key.expires_at.isoformat("T", "seconds") if key.expires_at else None
    facts: dict[str, object] = {"name": key.name, "scopes": key.scopes, "expires_at": expires_at}
    # The default is left out, as in entries that are older than the limit.
    if key.calls_at_once != CALLS_AT_ONCE:
        facts["calls_at_once"] = key.calls_at_once
    if key.environment:
        facts["environment"] = key.environment
    return {**facts, "only_named_agents": True} if key.is_narrowed else facts


def _random_characters(length: int) -> str:
    return "".join(secrets.choice(KEY_ALPHABET) for _ in range(length))
