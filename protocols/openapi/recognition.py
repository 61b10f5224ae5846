"""Recognises OpenAPI: a document with `openapi` or `swagger` at its top, in a usual place."""

from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from core.outbound.errors import ProtocolError
from core.outbound.reply import Reply
from protocols.openapi import document as openapi_document
from protocols.recognition import (
    Certainty,
    Probe,
    Recognition,
    RecognizedServer,
    address_below,
    at_origin,
    name_in,
    path_of,
    wants_credential,
)

ACCEPT = "application/json, application/yaml;q=0.9, text/yaml;q=0.9, */*;q=0.5"
_ENDINGS = (".json", ".yaml", ".yml")
# The usual places of servers that write their document themselves.
_PLACES = ("/openapi.json", "/v3/api-docs", "/swagger.json", "/openapi.yaml")


def probes(address: str) -> Sequence[Probe]:
    headers = {"Accept": ACCEPT}
    probe = Probe(address, headers=headers)
    if path_of(address).endswith(_ENDINGS):
        return [probe]
    guesses = [*(address_below(address, place) for place in _PLACES), at_origin(address, _PLACES[0])]
    return [probe, *(Probe(each, headers=headers, is_guess=True) for each in dict.fromkeys(guesses))]


def match(probe: Probe, reply: Reply) -> RecognizedServer | None:
    if wants_credential(reply):
        is_likely = path_of(probe.address).endswith(_ENDINGS) and not probe.is_guess
        return RecognizedServer(Certainty.LIKELY) if is_likely else None
    return _match_body(reply.body, is_pasted=False) if reply.status == 200 else None


def match_document(text: str) -> RecognizedServer | None:
    return _match_body(text.encode(), is_pasted=True)


def _match_body(body: bytes, *, is_pasted: bool) -> RecognizedServer | None:
    try:
        root = openapi_document.parse(body).root
    except ProtocolError as error:
        # An older document is one, too. The preview states why it cannot be read.
        return RecognizedServer(Certainty.SURE) if error.code == "OLD_OPENAPI" else None
    address = ""
    if is_pasted:
        servers = root.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else None
        url = first.get("url") if isinstance(first, dict) else ""
        if isinstance(url, str) and "{" not in url:
            with suppress(ValueError):
                is_web_address = urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname
                address = url if is_web_address else ""
    return RecognizedServer(Certainty.SURE, name_in(root, "info", "title"), address)


RECOGNITION = Recognition(
    probes, match, noun="document", document_setting="document", match_document=match_document
)
