"""Recognises A2T: a list of tools with its members, at the address or below it."""

from collections.abc import Sequence

from core.outbound.reply import Reply
from protocols.a2t import wire
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

_IDS = ("toolId", "toolID", "tool_id")


def probes(address: str) -> Sequence[Probe]:
    return [Probe(address, rest_of_path(address, wire.TOOLS), params={wire.PAGE_LIMIT: "10"})]


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    if wants_credential(reply):
        return RecognizedServer(Certainty.POSSIBLE)
    document = json_in(reply) if reply.status == 200 else None
    entries = entries_in(document, "items")
    if entries is None:
        return None
    if any(
        isinstance(entry.get(wire.INPUTS), list)
        or isinstance(entry.get(wire.OUTPUTS), list)
        or ("version" in entry and any(name in entry for name in _IDS))
        for entry in entries
    ):
        return RecognizedServer(Certainty.SURE)
    # An empty list of its form; other protocols have one of the same form.
    return RecognizedServer(Certainty.LIKELY) if not entries and isinstance(document, dict) else None


RECOGNITION = Recognition(probes, match)
