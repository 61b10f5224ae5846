"""Access tokens of a sign-in, renewed by one process at a time.

A process acquires a lease on the row, sends the request outside of any transaction and in less time than the
lease, and stores the reply only if the row still has the same generation. Two rows hold tokens in this way:
the grant of a credential (renewal.py), and the grant of an end user (execution/user_grants/tokens.py).
docs/decisions/0013-oauth.md has the reasons.
"""

import logging
import random
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from catalog.credentials.oauth import grant_requests, token_request
from catalog.credentials.oauth.errors import BusyError, NeedsSignInError
from catalog.credentials.oauth.token_replies import OAuthError, Tokens
from catalog.credentials.oauth.token_request import REQUESTS
from catalog.models import Grant
from catalog.models.oauth import TokenColumns
from core.encryption import Secret
from core.failpoints import failpoint
from core.oauth.client import Form
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.postgresql.base import give_back

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=40)  # longer than http.SECONDS
MAX_WAIT = 35.0  # seconds that a process waits for another's renewal
# A lost reply is requested again once, within one lease: only if it was lost after at most QUICKLY seconds.
QUICKLY, AGAIN_AFTER = 5.0, 1.0
EARLY_SHARE, EARLY_SECONDS = 0.2, 60.0
MIN_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS = 30.0, 3_600.0
# The limit for `Retry-After`. A year would end the sign-in unnoticed.
MAX_WAIT_SECONDS = 86_400.0
# Together within the lease, so that no other process renews meanwhile.
STORE_AGAIN_AFTER = (0.5, 1.0, 2.0, 3.0)
LOOK_EVERY = 35.0  # seconds; the scheduler checks a little more often
NOT_TAKEN_CODE = "TOKEN_NOT_TAKEN"
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
NO_LEASE: dict[str, Any] = {"lease": None, "lease_until": None}
NO_FAILURE: dict[str, Any] = {
    "failures": 0,
    "retry_at": None,
    "failed_at": None,
    "error_code": "",
    "error_message": "",
    "refused_at": None,
}

TokenRow = TypeVar("TokenRow", bound=TokenColumns)


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


def back_off(
    failures: int, requested_seconds: float | None, chance: Callable[[], float] = random.random
) -> float:
    """Return the seconds until the next attempt: 30, doubled with each failure, at most an hour; +-20 %.

    A longer `Retry-After` of the server is respected, up to a day.
    """
    pause: float = min(MIN_BACK_OFF_SECONDS * 2 ** min(failures - 1, 10), MAX_BACK_OFF_SECONDS) * (
        0.8 + 0.4 * chance()
    )
    return min(max(pause, requested_seconds or 0.0), MAX_WAIT_SECONDS)


class TokenHolder(ABC, Generic[TokenRow]):
    """The row of a sign-in, read with its time (`timed()`), and the OAuth client that renews its tokens.

    A subclass defines the parts that differ between models: the token request, the columns that a reply
    changes, the audit entry, and the end of a sign-in.
    """

    name: str  # for messages and the log
    expires_at: datetime | None
    renews_with_refresh_token: bool

    def __init__(self, row: TokenRow, client: Grant) -> None:
        self.row = row
        self.client = client

    @abstractmethod
    def decrypted(self, column: str) -> Secret:
        """Decrypt a column of the row. Raises UndecryptableError."""

    @abstractmethod
    def request_fields(self) -> tuple[Mapping[str, str], list[Secret]]:
        """Return the fields of a renewal request, and the secrets among them."""

    @abstractmethod
    def token_columns(self, tokens: Tokens, elapsed_seconds: float) -> dict[str, Any]:
        """Return the columns that a reply changes. elapsed_seconds: since its request."""

    @abstractmethod
    def end(self, code: str, reason: str, since: datetime | None) -> NeedsSignInError:
        """End the sign-in, if the row has not changed, and return the error for callers that request a token.

        since: the time of the renewal whose result is unknown, if the end may come from it.
        """

    @abstractmethod
    def raise_if_over(self, refused_generation: int | None) -> None:
        """Raise NeedsSignInError or RefusedError if a renewal is pointless: only a person can help."""

    def record_renewal(self, columns: Mapping[str, Any]) -> None:
        """Record a renewal, within the transaction that stores it."""

    def record_failure(self, error: ProtocolError, columns: Mapping[str, Any]) -> None:
        """Record a failure that differs from the last one, within the transaction that stores it."""

    def handle_outdated(self, tokens: Tokens) -> None:
        """Handle tokens that were received for a row that has changed meanwhile."""

    def unchanged_row(self) -> QuerySet[TokenRow]:
        return type(self.row)._default_manager.filter(pk=self.row.pk, generation=self.row.generation)

    def may_renew(self) -> bool:
        """Return whether no other process renews the token, and the pause after a failure is over."""
        row = self.row
        is_free = row.lease_until is None or row.lease_until <= row.now
        return is_free and (row.retry_at is None or row.retry_at <= row.now)

    def stored_token(self, refused_generation: int | None) -> Token | None:
        """Return the stored token unless it has expired or is of the `refused_generation`."""
        row = self.row
        if not row.access_token or row.generation == refused_generation:
            return None
        good_for = None
        if self.expires_at:
            if self.expires_at <= row.now:
                return None
            good_for = (self.expires_at - row.now).total_seconds()
            if row.renew_at:
                good_for -= early_for_callers((self.expires_at - row.renew_at).total_seconds())
        secret = self.decrypted("access_token")
        return Token(row.generation, secret, good_for, was_refused=row.error_code == NOT_TAKEN_CODE)

    def renew(self) -> Token | None:
        """Renew the token and store the reply. None: another process does or did it.

        Raises the error after storing it in the row.
        """
        fields, sent_secrets = self.request_fields()
        client_secret = token_request.client_secret(self.client.credential, self.client)
        if client_secret:
            sent_secrets.append(client_secret)
        # A signed statement counts once, so that each request has a form of its own.
        form = partial(grant_requests.token_form, self.client, client_secret, fields)
        # The lease is committed before anything is sent, if no other process has one.
        lease = uuid.uuid4()
        free = Q(lease_until=None) | Q(lease_until__lte=Now())
        ready = Q(retry_at=None) | Q(retry_at__lte=Now())
        with transaction.atomic(durable=True):
            claimable = self.unchanged_row().filter(free, ready)
            started_at = Coalesce("started_at", Now())
            if not claimable.update(lease=lease, lease_until=Now() + LEASE, started_at=started_at):
                return None
        failpoint("token-claimed")
        began = time.monotonic()
        try:
            tokens = self._request_tokens(lease, form, sent_secrets)
        except ProtocolError as error:
            raise self._note_failure(lease, error) from None
        failpoint("token-received")
        token = self._store_tokens(tokens, time.monotonic() - began)
        failpoint("token-stored")
        return token

    def _request_tokens(self, lease: uuid.UUID, form: Callable[[], Form], sent: list[Secret]) -> Tokens:
        # Sends the same refresh token once more when its reply was lost. Servers that rotate refresh tokens
        # accept the old one for some seconds or not at all (docs/decisions/0013-oauth.md).
        began = time.monotonic()
        try:
            return token_request.request(self.client, form(), sent)
        except UnavailableError as error:
            if not self._is_lost(error) or time.monotonic() - began > QUICKLY:
                raise
            REQUESTS.add(error.code)
            logger.warning("%s: the reply to a renewal was lost (%s)", self.name, error.code)
            self.row.started_at = self.row.started_at or timezone.now()
            time.sleep(AGAIN_AFTER)
            if not self.unchanged_row().filter(lease=lease).update(lease_until=Now() + LEASE):
                raise
        return token_request.request(self.client, form(), sent)

    def _is_lost(self, error: ProtocolError) -> bool:
        # True if a lost reply may have contained a new refresh token.
        return self.renews_with_refresh_token and error.code in _LOST

    def _store_tokens(self, tokens: Tokens, elapsed_seconds: float) -> Token | None:
        # The reply is the next generation before anything uses it. An unavailable database is retried,
        # because the server has forgotten the old refresh token.
        columns = self.token_columns(tokens, elapsed_seconds) | {"generation": self.row.generation + 1}
        for pause in (*STORE_AGAIN_AFTER, None):
            try:
                with transaction.atomic(durable=True):
                    stored = self.unchanged_row().update(**columns)
                    if stored:
                        self.record_renewal(columns)
                break
            except (OperationalError, InterfaceError):
                if pause is None:
                    raise
                connection.close()
                time.sleep(pause)
        if not stored:
            logger.warning("%s changed while its token was renewed", self.name)
            self.handle_outdated(tokens)
            return None
        REQUESTS.add("ok")
        logger.info("%s has a new token", self.name)
        lifetime = tokens.seconds
        good_for = lifetime - elapsed_seconds - early_for_callers(early(lifetime)) if lifetime else None
        return Token(self.row.generation + 1, tokens.access, good_for)

    def _note_failure(self, lease: uuid.UUID, error: ProtocolError) -> ProtocolError:
        """Return the error to raise. Store it only if the lease is valid and the row has not changed."""
        row = self.row
        REQUESTS.add(error.code)
        is_over = isinstance(error, OAuthError) and error.error == "invalid_grant"
        if is_over and self.renews_with_refresh_token:
            return self.end(error.code, error.message.removesuffix("."), row.started_at)
        pause = back_off(row.failures + 1, error.retry_after)
        if self._is_lost(error) and not row.failures:
            pause = AGAIN_AFTER  # by the next caller, while the server may still accept the old one
        columns: dict[str, Any] = {
            **NO_LEASE,
            "failures": row.failures + 1,
            "retry_at": Now() + timedelta(seconds=pause),
            "failed_at": Now(),
            "error_code": error.code[:40],
            "error_message": error.message[:1000],
        }
        if isinstance(error, OAuthError) or error.code in _NEVER_SENT:
            columns["started_at"] = row.started_at  # this attempt is not in doubt; an earlier one may be
        if isinstance(error, RefusedError):
            columns["refused_at"] = Coalesce("refused_at", Now())
        is_news = row.error_code != columns["error_code"] or ("refused_at" in columns and not row.refused_at)
        with transaction.atomic(durable=True):
            if self.unchanged_row().filter(lease=lease).update(**columns) and is_news:
                self.record_failure(error, columns)
        logger.warning("%s: no new token (%s)", self.name, error.code)
        return error


def acquire(read_holder: Callable[[], TokenHolder[Any]], *, refused_generation: int | None = None) -> Token:
    """Return a token. It is renewed if it is due, or if it is of the `refused_generation`.

    read_holder: reads the row again for each attempt. May wait for the authorization server or for another
    process, up to 35 s each; never call it in a transaction. Raises NeedsSignInError, BusyError, other
    ProtocolErrors, DomainError, and the errors of read_holder.
    """
    ends = time.monotonic() + MAX_WAIT
    while True:
        holder = read_holder()
        row = holder.row
        token = holder.stored_token(refused_generation)
        if token and (token.good_for is None or token.good_for > 0):
            return token
        holder.raise_if_over(refused_generation)
        if renewed := _renew_if_allowed(holder, token):
            return renewed
        if token:
            # It should be renewed and cannot be now. Try again soon.
            good_for = MIN_BACK_OFF_SECONDS
            if holder.expires_at:
                good_for = min(good_for, (holder.expires_at - row.now).total_seconds())
            return replace(token, good_for=good_for)
        if row.retry_at and row.now < row.retry_at:
            # The error of the last attempt, until the next one is allowed.
            kind = RefusedError if row.refused_at else UnavailableError
            seconds = (row.retry_at - row.now).total_seconds()
            raise kind(row.error_code, row.error_message, retry_after=seconds)
        if time.monotonic() >= ends:
            raise BusyError(holder.name)
        give_back()
        time.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - spreads those who wait


def _renew_if_allowed(holder: TokenHolder[Any], token: Token | None) -> Token | None:
    # One renewal, if the row allows it. While a `token` is valid, only the end of a sign-in is an error.
    if not holder.may_renew():
        return None
    try:
        return holder.renew()
    except NeedsSignInError:
        raise
    except ProtocolError:
        if token is None:
            raise
        return None
