"""Recognises ACP: a search for agents that returns agents."""

from collections.abc import Sequence

from core.outbound.reply import Reply
from protocols.acp import wire
from protocols.recognition import (
    Certainty,
    Probe,
    Recognition,
    RecognizedServer,
    entries_in,
    json_in,
    wants_credential,
)


def probes(address: str) -> Sequence[Probe]:
    return [Probe(address, wire.path(wire.AGENTS, wire.SEARCH), json={"limit": 10, "offset": 0})]


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    if wants_credential(reply):
        return RecognizedServer(Certainty.POSSIBLE)
    entries = entries_in(json_in(reply)) if reply.status == 200 else None
    if entries is None:
        return None
    is_agent = any("agent_id" in entry or isinstance(entry.get("metadata"), dict) for entry in entries)
    return RecognizedServer(Certainty.SURE if is_agent else Certainty.LIKELY)


RECOGNITION = Recognition(probes, match)
