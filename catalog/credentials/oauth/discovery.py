"""Discovery of a vendor's authorization servers. A user reviews the result, which is never applied
automatically.

A vendor may describe itself only at its own origin. It names authorization servers, which describe themselves
at theirs. No other address is requested, and all requests use the policy for vendors.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

import protocols
from catalog.credentials.oauth import clients
from catalog.credentials.oauth import server_metadata as metadata
from catalog.credentials.oauth.server_metadata import ServerMetadata
from core import strict_json
from core.oauth import http
from core.outbound.addresses import check_url
from core.outbound.challenges import challenge_parameter, scope_asked
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.reply import Reply
from core.outbound.session import HttpSession
from protocols.base import Protocol
from protocols.list_pages import NoKnownPages

# A user waits for it, and there are several addresses to try.
SECONDS = 20.0
ANY_STATUS = tuple(status for status in range(200, 600) if not 300 <= status < 400)


@dataclass(frozen=True, slots=True)
class Step:
    """An address, and the result of its request or the reason against it."""

    url: str
    said: str


@dataclass(slots=True)
class Discovery:
    """The authorization server of a vendor, as its documents name it. `scope` is the scope that the vendor
    requires of a token, and `resource` the address that the token is for (RFC 9728).
    """

    resource: str
    name: str = ""
    scope: str = ""
    servers: list[ServerMetadata] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def names_others_than(self, issuer: str) -> bool:
        """Return whether the vendor names authorization servers without `issuer` among them."""
        return bool(self.servers) and issuer not in {server.issuer for server in self.servers}


def discover(url: str, challenge: str = "", protocol: str = "") -> Discovery:
    """Query the vendor at `url` and the authorization servers that it names. Takes about 20 s at most.

    challenge: the WWW-Authenticate header of an earlier 401 or 403. Without it the vendor is requested: by
    GET, then by a request for its tools in `protocol`, or in each protocol until one is answered. Raises
    RefusedError for an invalid address. All other errors are in `steps`.
    """
    check_url(url.partition("?")[0], policy_for(Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR))
    return _ServerDiscovery(url.partition("?")[0], protocol).look(challenge)


def server_as_it_is(issuer: str) -> ServerMetadata:
    """Return the current metadata of an authorization server."""
    return _ServerDiscovery(issuer, "")._describe_server(issuer)


class _ServerDiscovery:
    def __init__(self, url: str, protocol: str) -> None:
        self.url = url
        self.protocols = [protocols.get(protocol)] if protocol else protocols.PROTOCOLS
        self.found = Discovery(resource=url)
        self.ends = time.monotonic() + SECONDS
        self.moved = ""

    def look(self, challenge: str) -> Discovery:
        challenge = challenge or self._request_challenge()
        addresses = metadata.resource_addresses(self.url)
        if metadata_url := challenge_parameter(challenge, "resource_metadata"):
            if metadata.origin(metadata_url) == metadata.origin(self.url):
                addresses = [metadata_url]
            else:
                self._note_step(
                    metadata_url,
                    _("Not requested: Pegboard reads the metadata of a vendor from its own address only."),
                )
        document = self._first_usable(
            addresses, lambda document: metadata.why_not_resource(document, self.url)
        )
        self.found.scope = scope_asked(challenge)
        issuers = []
        if document is not None:
            self.found.resource = str(document["resource"])
            self.found.name = metadata.name_of(document)
            self.found.scope = self.found.scope or " ".join(metadata.scopes(document))
            issuers = metadata.issuers(document)
        # Before RFC 9728 a vendor was taken to be its own authorization server.
        self.found.servers = [
            self._describe_server(issuer) for issuer in issuers or [metadata.origin(self.url)]
        ]
        if not issuers:
            self.found.servers = [server for server in self.found.servers if server.token_url]
        return self.found

    def _request_challenge(self) -> str:
        """Return the vendor's reply to an unauthenticated request."""
        reply = self._send_request(self.url, ANY_STATUS)
        challenge = reply.headers.get("www-authenticate", "") if reply else ""
        if reply:
            if challenge:
                answered = _("Answered {status}. It requires a token.")
            else:
                answered = _("Answered {status}. It does not state how to sign in.")
            self._note_step(self.url, answered.format(status=reply.status))
        # Many answer GET with 404 or 405, and challenge the requests of their protocol alone.
        for protocol in () if challenge else self.protocols:
            seconds_left = self.ends - time.monotonic()
            if seconds_left <= 0:
                break
            with suppress(UnavailableError, ProtocolViolationError):
                challenge, is_listed = _challenge_to_listing(self.url, protocol, seconds_left)
                if challenge:
                    self._note_step(
                        self.url,
                        _("Requested its tools over {protocol}. It requires a token.").format(
                            protocol=protocol.label
                        ),
                    )
                if challenge or is_listed:
                    break
        return challenge

    def _describe_server(self, issuer: str) -> ServerMetadata:
        # An issuer is an address without a query or a fragment: RFC 8414 section 2.
        try:
            check_url(issuer, policy_for(Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR))
            problem = "" if urlsplit(issuer).netloc else _("It is not an address.")
        except RefusedError as error:
            problem = error.message
        if problem:
            self._note_step(issuer, problem)
            return ServerMetadata(issuer, problem=problem)

        def why_not_server(document: object) -> str:
            stated_issuer = document.get("issuer") if isinstance(document, dict) else None
            if isinstance(stated_issuer, str) and stated_issuer and stated_issuer != issuer:
                self.moved = _(
                    "It states the issuer {stated_issuer} now, and the vendor still states {issuer}. If it "
                    "has moved, ask the vendor to publish the new address."
                ).format(stated_issuer=printable(stated_issuer), issuer=printable(issuer))
            return metadata.why_not_server(document, issuer)

        self.moved = ""
        document = self._first_usable(metadata.server_addresses(issuer), why_not_server)
        if document is None:
            return ServerMetadata(
                issuer, problem=self.moved or _("It publishes no metadata at the expected address.")
            )
        server = metadata.server_of(document, issuer)
        # Its addresses are validated like entered ones.
        needed = (
            (_("Its token address cannot be used. {reason}"), server.token_url),
            (_("Its sign-in address cannot be used. {reason}"), server.authorization_url),
        )
        for message, address in needed:
            if address and (reason := clients.why_no_address(address)):
                problem = server.problem or message.format(reason=reason)
                return replace(server, token_url="", authorization_url="", problem=problem)
        extra = [server.registration_url, server.revocation_url]
        registration, revocation = ["" if url and clients.why_no_address(url) else url for url in extra]
        return replace(server, registration_url=registration, revocation_url=revocation)

    def _first_usable(self, addresses: list[str], why_not: Callable[[object], str]) -> dict[str, Any] | None:
        """Return the first of these documents that may be used."""
        for address in addresses:
            reply = self._send_request(address, (200,))
            if reply is None:
                continue
            try:
                document = strict_json.require_json(reply)
            except ProtocolError as error:
                self._note_step(address, error.message)
                continue
            if complaint := why_not(document):
                self._note_step(address, complaint)
                continue
            self._note_step(address, _("Found."))
            return dict(document)
        return None

    def _send_request(self, address: str, accept: tuple[int, ...]) -> Reply | None:
        seconds_left = self.ends - time.monotonic()
        if seconds_left <= 0:
            self._note_step(
                address,
                _("Not requested: the search took longer than {seconds} s.").format(seconds=f"{SECONDS:g}"),
            )
            return None
        try:
            return http.get(address, accept, seconds=seconds_left)
        except ProtocolError as error:
            if error.code == "REDIRECT":
                self.moved = _(
                    "It seems to have moved: {message} Ask the vendor to publish the new address."
                ).format(message=error.message)
            self._note_step(address, error.message)
            return None

    def _note_step(self, address: str, message: str) -> None:
        self.found.steps.append(Step(printable(address, 300), message))


def _challenge_to_listing(url: str, protocol: type[Protocol], seconds: float) -> tuple[str, bool]:
    """Return the challenge to the first request of a listing, and whether it was answered instead."""
    limits = replace(http.METADATA_LIMITS, session=seconds)
    with HttpSession(
        url, policy=policy_for(Door.VENDOR, AddressSource.ADMINISTRATOR), limits=limits
    ) as session:
        try:
            return "", next(protocol().enumerate(session, NoKnownPages()), None) is not None
        except RefusedError as error:
            return error.challenge, False
