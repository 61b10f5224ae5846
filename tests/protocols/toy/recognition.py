from collections.abc import Sequence

from core.outbound.reply import Reply
from protocols.recognition import (
    Certainty,
    Probe,
    Recognition,
    RecognizedServer,
    entries_in,
    json_in,
    wants_credential,
)
from tests.protocols.toy import wire


def probes(address: str) -> Sequence[Probe]:
    return [Probe(address, wire.LIST)]


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    if wants_credential(reply):
        return RecognizedServer(Certainty.POSSIBLE)
    entries = entries_in(json_in(reply), "tools") if reply.status == 200 else None
    return RecognizedServer(Certainty.SURE) if entries and all("asks" in entry for entry in entries) else None


RECOGNITION = Recognition(probes, match)
