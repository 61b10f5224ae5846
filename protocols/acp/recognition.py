"""How ACP is recognised: a search for agents that returns agents."""

from collections.abc import Sequence
from typing import Any

from core.outbound.reply import Reply
from protocols.acp import wire
from protocols.recognition import Certainty, Match, Probe, Recognition, entries_in, json_in, wants_credential


def probes(address: str) -> Sequence[Probe]:
    return [Probe(address, wire.path(wire.AGENTS, wire.SEARCH), json={"limit": 10, "offset": 0})]


def match(probe: Probe, reply: Reply) -> Match | None:
    if wants_credential(reply):
        return Match(Certainty.POSSIBLE)
    entries = entries_in(json_in(reply)) if reply.status == 200 else None
    if entries is None:
        return None
    return Match(Certainty.SURE if any(map(_is_agent, entries)) else Certainty.LIKELY)


def _is_agent(entry: dict[str, Any]) -> bool:
    return "agent_id" in entry or isinstance(entry.get("metadata"), dict)


RECOGNITION = Recognition(probes, match)
