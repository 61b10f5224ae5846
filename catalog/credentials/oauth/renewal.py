"""Renewal of access tokens, by one process at a time.

A process acquires a lease on the grant's row and sends the request outside of any transaction, in less time
than
the lease. It stores the reply only if the grant still has the same generation. docs/decisions/0013-oauth.md
has the
reasons.
"""

import logging
import random
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from catalog.credentials.oauth import grant_requests, token_request
from catalog.credentials.oauth.errors import NeedsSignInError, moment, sign_in_again
from catalog.credentials.oauth.token_replies import OAuthError, Tokens
from catalog.credentials.oauth.token_request import REQUESTS
from catalog.models import Grant
from catalog.models.vendors import OAuthKind
from catalog.notifications import outbox
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from core.failpoints import failpoint
from core.oauth.client import Form
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from people import audit

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=40)  # longer than http.SECONDS
# A reply that is lost as soon as this is asked for again at once, within one lease.
QUICKLY, AGAIN_AFTER = 5.0, 1.0
EARLY_SHARE, EARLY_SECONDS = 0.2, 60.0
MIN_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS = 30.0, 3_600.0
# The limit for `Retry-After`. A year would end the sign-in unnoticed.
MAX_WAIT_SECONDS = 86_400.0
# Together within the lease, so that no other process renews meanwhile.
STORE_AGAIN_AFTER = (0.5, 1.0, 2.0, 3.0)
# An unused token is renewed on demand only.
USED_LATELY = timedelta(days=1)
LOOK_EVERY = 35.0  # seconds; the scheduler checks a little more often
MAX_AT_ONCE = 200
# The request was not sent, so it had no effect.
_NEVER_SENT = {
    f"TOKEN_{code}"
    for code in (
        "DNS",
        "CONNECT",
        "CONNECT_TIMEOUT",
        "PROXY",
        "PROXY_REFUSED",
        "ADDRESS",
        "URL",
        "TLS",
        "PATH",
    )
}
# It was sent, and its reply was lost, perhaps with a new refresh token.
_LOST = {f"TOKEN_{code}" for code in ("DEADLINE", "IDLE", "RESET", "NO_REPLY", "BODY_TRUNCATED")}
NO_TOKENS: dict[str, Any] = {"access_token": "", "refresh_token": "", "expires_at": None, "renew_at": None}
NO_ERROR: dict[str, Any] = {
    "failures": 0,
    "retry_at": None,
    "failed_at": None,
    "error_code": "",
    "error_message": "",
    "ended_at": None,
    "refused_at": None,
}
NO_LEASE: dict[str, Any] = {"lease": None, "lease_until": None}


@dataclass(frozen=True, slots=True)
class Token:
    """An access token. Its generation increases with each new token.

    good_for: the seconds until it must be renewed. None: until it is refused.
    was_refused: the vendor refused it in the last request.
    """

    generation: int
    secret: Secret
    good_for: float | None = None
    was_refused: bool = False


def early(seconds: float, chance: Callable[[], float] = random.random) -> float:
    """Return how many seconds before its expiry a token of this lifetime is renewed."""
    # At 80 % of its lifetime, but a minute before its expiry and not in the first half. Up to a tenth
    # earlier, so that simultaneous renewals spread.
    margin = max(seconds * EARLY_SHARE, EARLY_SECONDS) * (1 + chance() / 10)
    return min(margin, seconds / 2)


def early_for_callers(early: float) -> float:
    """Return how many seconds before its expiry a caller renews a token that the scheduler renews `early`."""
    # The scheduler has had the time to do it before, so that no caller waits for a token.
    return max(early - LOOK_EVERY, early / 2)


def back_off(failures: int, asked: float | None, chance: Callable[[], float] = random.random) -> float:
    """Return the seconds until the next attempt: 30, doubled with each failure, at most an hour; +-20 %.

    A longer `Retry-After` of the server is respected, up to a day.
    """
    pause: float = min(MIN_BACK_OFF_SECONDS * 2 ** min(failures - 1, 10), MAX_BACK_OFF_SECONDS) * (
        0.8 + 0.4 * chance()
    )
    return min(max(pause, asked or 0.0), MAX_WAIT_SECONDS)


def renew(grant: Grant) -> Token | None:
    """Renew the token and store the reply. None: another process does or did it.

    Raises the error after storing it in the row.
    """
    sent_secrets: list[Secret] = []
    if grant.credential.kind == OAuthKind.CLIENT:
        fields = grant_requests.client_fields(grant)
    else:
        sent_secrets = [token_request.decrypted(grant, "refresh_token")]
        fields = grant_requests.refresh_fields(grant, *sent_secrets)
    secret = token_request.client_secret(grant.credential, grant)
    # A signed statement counts once, so that each request has a form of its own.
    form = partial(grant_requests.token_form, grant, secret, fields)
    lease = _claim(grant)
    if lease is None:
        return None
    failpoint("token-claimed")
    began = time.monotonic()
    try:
        tokens = _request_renewal(grant, lease, form, [*sent_secrets, *([secret] if secret else [])])
    except ProtocolError as error:
        raise _note_failure(grant, lease, error) from None
    failpoint("token-received")
    token = _store(grant, tokens, time.monotonic() - began)
    failpoint("token-stored")
    return token


def _request_renewal(
    grant: Grant, lease: uuid.UUID, form: Callable[[], Form], sent: Collection[Secret]
) -> Tokens:
    """Sends the same refresh token once more when the reply to it was lost on its way."""
    # Servers that rotate refresh tokens accept the old one for some seconds or not at all. A late attempt
    # never succeeds, so try early (docs/decisions/0035-lost-token-replies.md).
    began = time.monotonic()
    try:
        return token_request.request(grant, form(), sent)
    except UnavailableError as error:
        if not _is_lost(grant, error) or time.monotonic() - began > QUICKLY:
            raise
        REQUESTS.add(error.code)
        logger.warning("credential %s: the reply to a renewal was lost (%s)", grant.credential_id, error.code)
        grant.started_at = grant.started_at or timezone.now()
        time.sleep(AGAIN_AFTER)
        leased_grant = Grant.objects.filter(pk=grant.pk, generation=grant.generation, lease=lease)
        if not leased_grant.update(lease_until=Now() + LEASE):
            raise
    return token_request.request(grant, form(), sent)


def _is_lost(grant: Grant, error: ProtocolError) -> bool:
    # True if a lost reply may have contained a new refresh token.
    return grant.credential.kind == OAuthKind.CODE and error.code in _LOST


def _claim(grant: Grant) -> uuid.UUID | None:
    # The lease, committed before anything is sent, if no other process has one.
    lease = uuid.uuid4()
    free = Q(lease_until=None) | Q(lease_until__lte=Now())
    ready = Q(retry_at=None) | Q(retry_at__lte=Now())
    rows = Grant.objects.filter(free, ready, pk=grant.pk, generation=grant.generation, ended_at=None)
    with transaction.atomic(durable=True):
        claimed = rows.update(
            lease=lease, lease_until=Now() + LEASE, started_at=Coalesce("started_at", Now())
        )
    return lease if claimed else None


def _store(grant: Grant, tokens: Tokens, elapsed: float) -> Token | None:
    """Keeps the reply as the next generation, before anything uses it; None when the grant has moved on."""
    # A database that is away for a moment is waited for: the server has forgotten the old refresh token.
    changes = columns_for(grant, tokens, elapsed)
    changes["generation"] = grant.generation + 1
    for pause in (*STORE_AGAIN_AFTER, None):
        try:
            with transaction.atomic(durable=True):
                stored = Grant.objects.filter(pk=grant.pk, generation=grant.generation).update(**changes)
                if stored:
                    _store_columns(grant, changes)
            break
        except (OperationalError, InterfaceError):
            if pause is None:
                raise
            connection.close()
            time.sleep(pause)
    if not stored:
        logger.warning("credential %s changed while its token was renewed", grant.credential_id)
        return None
    REQUESTS.add("ok")
    logger.info("credential %s has a new token", grant.credential_id)
    usable_seconds = (
        tokens.seconds - elapsed - early_for_callers(early(tokens.seconds)) if tokens.seconds else None
    )
    return Token(grant.generation + 1, tokens.access, usable_seconds)


def _store_columns(grant: Grant, changes: dict[str, Any]) -> None:
    # Writes an audit row if the renewal ends a failure or changes the scope; others change no decision.
    scope = changes.get("granted_scope", grant.granted_scope)
    before = {"error": grant.error_code, "scope": grant.granted_scope}
    after = {"error": "", "scope": scope, "server": _server(grant)}
    was_lost = grant.started_at is not None and grant.credential.kind == OAuthKind.CODE
    if grant.error_code or was_lost:
        reason = "Its token was renewed."
        if was_lost and grant.started_at:
            reason += (
                f" No reply had come to a renewal at {moment(grant.started_at)}; the server took the same "
            )
            reason += "refresh token again."
        audit.record(None, "recover", grant.credential, before=before, after=after, why=reason)
    elif grant.generation and scope != grant.granted_scope:
        reason = "The server granted other scopes when the token was renewed."
        audit.record(None, "renew", grant.credential, before=before, after=after, why=reason)


def _server(grant: Grant) -> str:
    return urlsplit(grant.token_url).netloc


def columns_for(grant: Grant, tokens: Tokens, elapsed: float, *, is_sign_in: bool = False) -> dict[str, Any]:
    """Return the columns of a token reply. `elapsed`: the seconds since its request."""
    # A reply without a refresh token keeps the old one. A reply without a scope means the requested one or
    # the previous one (RFC 6749 sections 5.1 and 6).
    is_code = grant.credential.kind == OAuthKind.CODE
    changes: dict[str, Any] = {
        **NO_ERROR,
        **NO_LEASE,
        "started_at": None,
        "access_token": encryption.encrypt(
            tokens.access, row=grant.pk, field=token_request.field_of("access_token")
        ),
        "obtained_at": Now(),
        "expires_at": None,
        "renew_at": None,
        "token_note": tokens.note,
    }
    if is_code and tokens.refresh:
        changes["refresh_token"] = encryption.encrypt(
            tokens.refresh, row=grant.pk, field=token_request.field_of("refresh_token")
        )
    elif is_sign_in:
        changes["refresh_token"] = ""
    if tokens.scope is not None:
        changes["granted_scope"] = tokens.scope
    elif is_sign_in or not is_code:
        changes["granted_scope"] = grant.scope
    if tokens.seconds is not None:
        remaining_seconds = tokens.seconds - elapsed
        changes["expires_at"] = Now() + timedelta(seconds=remaining_seconds)
        if not is_code or tokens.refresh or not is_sign_in:
            changes["renew_at"] = Now() + timedelta(seconds=remaining_seconds - early(tokens.seconds))
    return changes


def may_try(grant: Grant) -> bool:
    is_free = grant.lease_until is None or grant.lease_until <= grant.now
    return is_free and (grant.retry_at is None or grant.retry_at <= grant.now)


def _note_failure(grant: Grant, lease: uuid.UUID, error: ProtocolError) -> ProtocolError:
    # The error to raise. Stored only while the lease is valid and the grant has not changed.
    leased_grant = Grant.objects.filter(pk=grant.pk, generation=grant.generation, lease=lease)
    REQUESTS.add(error.code)
    is_over = isinstance(error, OAuthError) and error.error == "invalid_grant"
    if is_over and grant.credential.kind == OAuthKind.CODE:
        message = sign_in_again(grant.now, error.message.removesuffix("."))
        if grant.started_at:
            reason = (
                "a renewal was interrupted then, and the server does not take the old refresh token any more"
            )
            message = sign_in_again(grant.started_at, reason)
        end_sign_in(grant, leased_grant, error.code, message)
        return NeedsSignInError(message)
    pause = back_off(grant.failures + 1, error.retry_after)
    if _is_lost(grant, error) and not grant.failures:
        pause = AGAIN_AFTER  # by the next caller, while the server may still accept the old one
    changes: dict[str, Any] = {
        **NO_LEASE,
        "failures": grant.failures + 1,
        "retry_at": Now() + timedelta(seconds=pause),
        "failed_at": Now(),
        "error_code": error.code[:40],
        "error_message": error.message[:1000],
    }
    if isinstance(error, OAuthError) or error.code in _NEVER_SENT:
        changes["started_at"] = grant.started_at  # this try left no doubt behind; an earlier one may have
    if isinstance(error, RefusedError):
        changes["refused_at"] = Coalesce("refused_at", Now())
    is_news = grant.error_code != changes["error_code"] or ("refused_at" in changes and not grant.refused_at)
    with transaction.atomic(durable=True):
        if leased_grant.update(**changes) and is_news:
            facts = {"code": error.code, "server": _server(grant)}
            verdict = "refuse" if "refused_at" in changes else "fail"
            audit.record(None, verdict, grant.credential, after=facts, why=error.message)
    logger.warning("credential %s: no new token (%s)", grant.credential_id, error.code)
    return error


def end_sign_in(grant: Grant, rows: QuerySet[Grant], code: str, message: str) -> None:
    """The sign-in is over, if `rows` still finds it as it was."""
    with transaction.atomic(durable=True):
        ended = rows.update(
            **NO_TOKENS,
            **NO_LEASE,
            generation=F("generation") + 1,
            started_at=None,
            retry_at=None,
            ended_at=Now(),
            failed_at=Now(),
            error_code=code,
            error_message=message[:1000],
        )
        if ended:
            outbox.needs_sign_in(grant.credential_id)
            facts = {"code": code, "server": _server(grant)}
            audit.record(None, "end sign-in", grant.credential, after=facts, why=message)


def due() -> list[uuid.UUID]:
    """Return the credentials whose used tokens should be renewed now, before a caller must wait."""
    free = Q(lease_until=None) | Q(lease_until__lte=Now())
    ready = Q(retry_at=None) | Q(retry_at__lte=Now())
    rows = Grant.objects.filter(
        free,
        ready,
        renew_at__lte=Now(),
        used_at__gt=Now() - USED_LATELY,
        ended_at=None,
        refused_at=None,
        credential__removed_at=None,
    )
    return list(rows.order_by("renew_at").values_list("credential_id", flat=True)[:MAX_AT_ONCE])


def renew_early(credential_id: uuid.UUID) -> None:
    """Renew a due token. Errors are stored in its row."""
    rows = Grant.objects.filter(credential_id=credential_id, renew_at__lte=Now())
    grant = rows.select_related("credential").timed().first()
    if grant is None or not grant.access_token or not may_try(grant):
        return
    with suppress(ProtocolError, DomainError):
        renew(grant)
