"""Recognises OXP: a list of tools with ids that contain versions, or its version header."""

from collections.abc import Sequence

from core.outbound.reply import Reply
from protocols.oxp import wire
from protocols.recognition import (
    Certainty,
    Probe,
    Recognition,
    RecognizedServer,
    entries_in,
    json_in,
    rest_of_path,
    wants_credential,
)


def probes(address: str) -> Sequence[Probe]:
    return [Probe(address, rest_of_path(address, wire.TOOLS), headers=wire.VERSION_HEADERS)]


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    states_version = wire.VERSION_HEADER.lower() in reply.headers
    if wants_credential(reply):
        return RecognizedServer(Certainty.LIKELY if states_version else Certainty.POSSIBLE)
    document = json_in(reply) if reply.status == 200 else None
    entries = entries_in(document, "items", "tools")
    if entries is None:
        return None
    states_schema = isinstance(document, dict) and document.get("$schema") == wire.SCHEMA
    has_tool = any(
        "version" in entry and isinstance(entry.get("id"), str) and "input_schema" in entry
        for entry in entries
    )
    return RecognizedServer(Certainty.SURE) if states_version or states_schema or has_tool else None


RECOGNITION = Recognition(probes, match)
