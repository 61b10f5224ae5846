"""Recognises MCP: any message of JSON-RPC in reply to the request that opens a session."""

from collections.abc import Sequence

from core.outbound.errors import ProtocolError
from core.outbound.reply import Reply
from protocols import events
from protocols.mcp import wire
from protocols.mcp.rpc import BOTH_FORMS
from protocols.recognition import (
    Certainty,
    Probe,
    Recognition,
    RecognizedServer,
    address_below,
    name_in,
    path_of,
    wants_credential,
)

_PLACE = "/mcp"
_NUMBER = 1


def probes(address: str) -> Sequence[Probe]:
    probe = _build_probe(address, is_guess=False)
    is_usual = path_of(address).endswith(_PLACE)
    return [probe] if is_usual else [probe, _build_probe(address_below(address, _PLACE), is_guess=True)]


def _build_probe(address: str, *, is_guess: bool) -> Probe:
    def is_answered(body: bytes) -> bool:
        try:
            return any(wire.is_last(event, _NUMBER) for event in events.parse(body))
        except ProtocolError:
            return True

    params = {
        "protocolVersion": wire.HANDSHAKE[0],
        "capabilities": {},
        "clientInfo": {"name": "Pegboard", "version": "1"},
    }
    return Probe(
        address,
        headers={"Accept": BOTH_FORMS},
        json=wire.request(_NUMBER, "initialize", params),
        is_enough=is_answered,
        session_header=wire.SESSION_HEADER,
        is_guess=is_guess,
    )


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    if wants_credential(reply):
        names_server = "resource_metadata" in reply.headers.get("www-authenticate", "")
        if names_server or (path_of(probe.address).endswith(_PLACE) and not probe.is_guess):
            return RecognizedServer(Certainty.LIKELY)
        return None if probe.is_guess else RecognizedServer(Certainty.POSSIBLE)
    try:
        messages = [message for message, _ in wire.read_messages(reply) if isinstance(message, dict)]
    except ProtocolError:
        return None
    answer = next((message for message in messages if message.get("jsonrpc") == "2.0"), None)
    if answer is None:
        return None
    info = ("result", "serverInfo")
    return RecognizedServer(Certainty.SURE, name_in(answer, *info, "title") or name_in(answer, *info, "name"))


RECOGNITION = Recognition(probes, match)
