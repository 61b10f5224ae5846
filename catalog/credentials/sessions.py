"""Sessions with vendors: the only place that attaches secrets to requests. core/encryption.py stores them."""

import copy
import hashlib
import logging
import time
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from catalog import bounds
from catalog.credentials import kinds, rate_limit
from catalog.credentials.kinds.base import Kind
from catalog.credentials.oauth import clients, tokens
from catalog.credentials.oauth.token_holder import Token
from catalog.models import Credential, Endpoint
from core import encryption, open_replies
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.outbound.addresses import Policy
from core.outbound.challenges import scope_asked, wants_more_scope
from core.outbound.connection_pool import KeptFor
from core.outbound.exchange import Exchange
from core.outbound.limits import Limits
from core.outbound.policy import AddressSource, Door, origin_of, policy_for
from core.outbound.request import AppliedCredential, apply_headers
from core.outbound.session import Follower, HttpSession
from people import audit

logger = logging.getLogger(__name__)

# Not with each request: every call of a tool would be one more write.
NOTE_USE_EVERY = timedelta(minutes=10)
FIELD = "catalog.credential.sealed"


def facts(credential: Credential) -> dict[str, Any]:
    """Return the facts of a credential that pages and the audit trail may show."""
    details = dict(map(_shown_detail, credential.details.items()))
    if clients.uses_oauth(credential):
        details |= clients.facts(credential.grant)
    return {
        "name": credential.name,
        "kind": credential.kind,
        "origin": credential.origin,
        **{name: value for name, value in details.items() if value},
        "fingerprint": credential.fingerprint,
    }


def _shown_detail(detail: tuple[str, Any]) -> tuple[str, Any]:
    # A long detail is shown by its digest, so that a change of it is visible.
    name, value = detail
    is_long = name in kinds.DETAILS and kinds.DETAILS[name].is_long
    return name, f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}" if is_long else value


def labelled_details(credential: Credential) -> list[tuple[str, Any]]:
    """Return the label and the value of each detail, as pages show them."""
    values = dict(map(_shown_detail, credential.details.items()))
    return [(str(detail.label), values[name]) for name, detail in kinds.DETAILS.items() if values.get(name)]


def encrypt(credential: Credential, secret: Secret) -> None:
    """Put `secret` into the row (not saved). Raises DomainError when the installation has no key."""
    credential.sealed = encryption.encrypt(secret, row=credential.pk, field=FIELD)
    credential.fingerprint = encryption.fingerprint(secret)


def decrypt(credential: Credential) -> Secret:
    """Decrypt a secret. Raises UndecryptableError; never returns ciphertext."""
    return encryption.decrypt(credential.sealed, row=credential.pk, field=FIELD, name=credential.name)


def open_kind(credential: Credential) -> Kind:
    """Return the credential decrypted, for one conversation. With OAuth see `_OAuthCredential`."""
    kind = kinds.KINDS.get(credential.kind)
    if kind is None:
        raise UndecryptableError(
            credential.name, (f"has a kind that Pegboard does not know: {credential.kind}.")
        )
    return kind(credential.details, decrypt(credential).reveal())


class _OAuthCredential:
    """The access token of a session, renewed when it expires or is refused.

    One 401 is answered with one new token, until another request succeeds. Renewal uses a database connection
    of its own, because an enumeration run occupies its own.
    """

    certificate = None

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._may_renew = True
        self._token: Token
        self._use_token(tokens.token_for(credential))

    def current(self) -> AppliedCredential:
        if self._worn_out_at is not None and time.monotonic() >= self._worn_out_at:
            self._use_token(tokens.run_on_own_connection(partial(tokens.token_for, self._credential)))
        return self._carried

    def answered(self, status: int, challenge: str) -> bool:
        """Return whether there is another token after a 401.

        A refusal for a missing scope is recorded, because only a user can obtain it.
        """
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._may_renew = True
            if self._token.was_refused:
                tokens.run_on_own_connection(
                    partial(tokens.note_acceptance, self._credential, self._token.generation)
                )
                self._token = replace(self._token, was_refused=False)
        if self._credential._state.adding:
            return False
        generation = self._token.generation
        if status == HTTPStatus.FORBIDDEN and wants_more_scope(challenge):
            scope = scope_asked(challenge)
            tokens.run_on_own_connection(
                partial(tokens.note_wanted_scope, self._credential, generation, scope)
            )
        if status != HTTPStatus.UNAUTHORIZED:
            return False
        if not self._may_renew:
            tokens.run_on_own_connection(partial(tokens.note_refusal, self._credential, generation))
            return False
        self._may_renew = False
        self._use_token(
            tokens.run_on_own_connection(
                partial(tokens.token_for, self._credential, refused_generation=generation)
            )
        )
        return True

    def _use_token(self, token: Token) -> None:
        text = token.secret.reveal()
        self._token = token
        apply = partial(apply_headers, {"Authorization": f"Bearer {text}"})
        self._carried = AppliedCredential(apply, (text, quote(text, safe="")))
        self._worn_out_at = None if token.good_for is None else time.monotonic() + token.good_for


class _UnrecordedCredential:
    """A credential whose acceptance or refusal by the vendor is not recorded."""

    def __init__(self, applied_credential: AppliedCredential) -> None:
        self.carried = applied_credential

    def current(self) -> AppliedCredential:
        return self.carried

    def answered(self, status: int, challenge: str) -> bool:
        return False


class _FixedCredential:
    """A credential that does not change during a session, and the vendor's reaction to it."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._is_taken: bool | None = None
        self._is_used = False
        kind = open_kind(credential)
        self.certificate = kind.certificate
        self._carried = AppliedCredential(kind.apply, kind.secrets)

    def current(self) -> AppliedCredential:
        return self._carried

    def answered(self, status: int, challenge: str) -> bool:
        # Only 401 means a refusal, and only success means acceptance: RFC 9110 section 15.5.2.
        self._is_used = self._is_used or bool(status)
        if status == HTTPStatus.UNAUTHORIZED:
            self._is_taken = False
        elif HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            self._is_taken = True
        return False

    def note(self) -> None:
        # Nothing about another secret that was entered meanwhile.
        credential, now = self._credential, timezone.now()
        if credential._state.adding or not self._is_used:
            return
        rows = Credential.objects.filter(pk=credential.pk, set_at=credential.set_at)
        if self._is_taken is False:
            self._record_verdict(rows.filter(refused_at=None), "refuse", now)
        elif self._is_taken and credential.refused_at:
            self._record_verdict(rows.filter(refused_at__isnull=False), "accept", None)
        if credential.used_at is None or credential.used_at < now - NOTE_USE_EVERY:
            rows.update(used_at=now)

    def _record_verdict(self, rows: QuerySet[Credential], verdict: str, refused_at: datetime | None) -> None:
        reason = "The vendor answered 401 to it." if refused_at else "The vendor accepts it again."
        with transaction.atomic():
            if rows.update(refused_at=refused_at):
                audit.record(None, verdict, self._credential, why=reason)


def open_session(
    endpoint: Endpoint,
    exchanges: MutableSequence[Exchange] | None = None,
    limits: Limits | None = None,
    reached_addresses: dict[str, str] | None = None,
    carried: Sequence[str] = (),
    *,
    keeps_connection: bool = False,
    mark: str = "",
    follower: Follower | None = None,
    policy: Policy | None = None,
) -> AbstractContextManager[HttpSession]:
    """Open a session with an endpoint, with its address policy, rate limit and credential. There is no other
    way.

    Facts that the protocol learns about the endpoint are stored for the next session, and so is the
    connection with `keeps_connection`. carried: secrets in requests besides the credential, which no reply
    may repeat either.
    policy: replaces the policy for vendors, for an unsaved endpoint.
    """
    carrier, credential = _credential_of(endpoint), endpoint.credential
    kept_for = None
    # A connection that carried a user's token or secret is not used for another user's call.
    if keeps_connection and not carried:
        # All that distinguishes two sessions of an endpoint for the vendor, or the server for Pegboard.
        proves = (credential.pk, credential.set_at, str(credential.details)) if credential else None
        kept_for = KeptFor(endpoint.pk, (endpoint.url, endpoint.authorities, proves))
    session = HttpSession(
        endpoint.url,
        policy=policy or _vendor_policy(),
        secrets=carried,
        authorized_for=credential.origin if credential else None,
        credential=carrier,
        certificate=carrier.certificate if carrier else None,
        memory=copy.deepcopy(endpoint.memory),
        exchanges=exchanges,
        reached_addresses=reached_addresses,
        turns=rate_limit.turns(endpoint),
        limits=limits or bounds.limits_of(endpoint),
        authorities=endpoint.authorities,
        kept_for=kept_for,
        mark=mark,
        follower=follower,
        open_replies=open_replies,
    )
    return _keeping_memory(endpoint, carrier, session)


@contextmanager
def open_address(
    url: str,
    credential: Credential | None,
    exchanges: MutableSequence[Exchange],
    limits: Limits,
    *,
    source: AddressSource,
    mark: str = "",
) -> Iterator[HttpSession]:
    """Open a session with the address of an activity, which belongs to no endpoint.

    `source` is the role of the user who saved it. The credential is sent to no origin but its own.
    """
    carrier = _session_credential(credential, url) if credential else None
    session = HttpSession(
        url,
        policy=policy_for(Door.ACTIVITY, source),
        authorized_for=credential.origin if credential else None,
        credential=carrier,
        certificate=carrier.certificate if carrier else None,
        exchanges=exchanges,
        limits=limits,
        mark=mark,
    )
    with session:
        try:
            yield session
        finally:
            try:
                if isinstance(carrier, _FixedCredential):
                    carrier.note()
            except DatabaseError:
                logger.exception("what was said to credential %s was not kept", credential and credential.pk)


def _vendor_policy() -> Policy:
    return policy_for(Door.VENDOR, AddressSource.ADMINISTRATOR)


def open_as_other_client(endpoint: Endpoint, *, agent: str, with_credential: bool) -> HttpSession:
    """Open a session under another client name, without the credential unless it is requested."""
    # The endpoint and its credential record nothing of this session, because the vendor's refusal of another
    # caller concerns neither. A reply that repeats the secret is still refused.
    carrier = _credential_of(endpoint)
    unnoted = _UnrecordedCredential(carrier.current()) if carrier else None
    return HttpSession(
        endpoint.url,
        policy=_vendor_policy(),
        authorized_for=endpoint.credential.origin if endpoint.credential else None,
        secrets=unnoted.carried.secrets if unnoted else (),
        credential=unnoted if with_credential else None,
        certificate=carrier.certificate if carrier and with_credential else None,
        memory=copy.deepcopy(endpoint.memory),
        turns=rate_limit.turns(endpoint),
        limits=bounds.limits_of(endpoint),
        authorities=endpoint.authorities,
        agent=agent,
    )


@contextmanager
def _keeping_memory(
    endpoint: Endpoint, carrier: "_OAuthCredential | _FixedCredential | None", session: HttpSession
) -> Iterator[HttpSession]:
    with session:
        try:
            yield session
        finally:
            # The vendor's reply matters more than the facts that were learned.
            try:
                if isinstance(carrier, _FixedCredential):
                    carrier.note()
                if session.memory != endpoint.memory:
                    endpoint.memory = session.memory
                    # Facts about one address do not apply to an address that replaced it meanwhile.
                    endpoint_rows = Endpoint.objects.filter(
                        pk=endpoint.pk,
                        url=endpoint.url,
                        settings=endpoint.settings,
                        credential=endpoint.credential,
                    )
                    endpoint_rows.update(memory=session.memory)
            except DatabaseError:
                logger.exception("what was found out about endpoint %s was not kept", endpoint.pk)


def _credential_of(endpoint: Endpoint) -> "_OAuthCredential | _FixedCredential | None":
    return _session_credential(endpoint.credential, endpoint.credential_url) if endpoint.credential else None


def _session_credential(credential: Credential, url: str) -> "_OAuthCredential | _FixedCredential":
    """Raise DomainError if the credential was entered for another address."""
    if credential.removed_at or credential.origin != origin_of(url, may_ask=True):
        raise DomainError(
            "CREDENTIAL_ELSEWHERE",
            f"“{credential}” was entered for {credential.origin} and is not sent anywhere else. "
            "Choose or enter a credential for this address.",
        )
    return _OAuthCredential(credential) if clients.uses_oauth(credential) else _FixedCredential(credential)
