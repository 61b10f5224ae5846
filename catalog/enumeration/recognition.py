"""Detection of the protocol of an address that cannot be read with the configured one.

A wrong protocol looks like other faults: an OpenAPI address that is read as A2T seems to require a
credential. So the other protocols are tried before an administrator sees the error.
"""

from contextlib import suppress
from dataclasses import replace

import protocols
from catalog.credentials import sessions
from catalog.models import Endpoint
from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.limits import DEFAULT_LIMITS
from protocols.base import Protocol
from protocols.list_pages import NoKnownPages

SECONDS_OF_EACH = 4.0
LIMITS = replace(DEFAULT_LIMITS, request=SECONDS_OF_EACH, session=SECONDS_OF_EACH, backoff=())


class WrongProtocolError(RefusedError):
    """The address lists tools in the protocol `spoken`, not in that of the endpoint."""

    def __init__(self, endpoint: Endpoint, spoken: type[Protocol]) -> None:
        configured_label = protocols.get(endpoint.protocol).label
        message = f"This address lists tools in {spoken.label}, and it is read as {configured_label}."
        super().__init__("WRONG_PROTOCOL", message)
        self.spoken = spoken.name


def explain(endpoint: Endpoint, error: ProtocolError, policy: Policy | None = None) -> ProtocolError:
    """Return the error of an unreadable list, or a WrongProtocolError.

    Some addresses are not tried: those that were read before, that do not answer, or that name an
    authorization server as only MCP does.
    """
    is_mcp = isinstance(error, RefusedError) and "resource_metadata" in error.challenge
    if endpoint.last_success_at or isinstance(error, UnavailableError) or is_mcp:
        return error
    for other in protocols.PROTOCOLS:
        if other.name == endpoint.protocol:
            continue
        draft = Endpoint(protocol=other.name, url=endpoint.url, authorities=endpoint.authorities)
        draft.credential = endpoint.credential
        with (
            suppress(ProtocolError),
            sessions.open_session(draft, limits=LIMITS, policy=policy) as session,
        ):
            page = next(iter(draft.build_protocol().enumerate(session, NoKnownPages())), None)
            if page is not None and page.items:
                return WrongProtocolError(endpoint, other)
    return error
