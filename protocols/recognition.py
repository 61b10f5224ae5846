"""Recognises the protocol at an address by harmless requests and a pure rule over each reply.

Each protocol declares one `Recognition`. Its rule sees a reply to one of its own probes and returns what it
found there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from core import strict_json
from core.outbound.errors import ProtocolError, printable
from core.outbound.reply import Reply
from core.outbound.request import IsEnough

MAX_NAME_LENGTH = 80


class Certainty(IntEnum):
    """The certainty that an address speaks a protocol.

    POSSIBLE: the server refuses to answer without a credential. LIKELY: a detail of the refusal or the
    address supports it. SURE: the reply has the form of the protocol.
    """

    POSSIBLE = 1
    LIKELY = 2
    SURE = 3


@dataclass(frozen=True, slots=True)
class Probe:
    """One harmless request. address: that of the endpoint, if the reply is recognised. path: below it.

    is_guess: the address is a usual place below the entered one, where a refusal proves nothing.
    session_header: names a session that the reply opened, and that DELETE ends.
    """

    address: str
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    json: object = None
    is_enough: IsEnough | None = field(default=None, compare=False)
    session_header: str = ""
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class RecognizedServer:
    """A server whose protocol was recognised.

    name: the server's own name, "" if unknown. address: another address of the endpoint, stated by a
    document.
    """

    certainty: Certainty
    name: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Recognition:
    """The recognition of one protocol.

    probes: the requests for an address, the likeliest first. match: the rule for one reply.

    noun: the name of the recognised server or document, such as “MCP server”. match_document: the rule for a
    pasted document, which `document_setting` of the endpoint then contains.
    """

    probes: Callable[[str], Sequence[Probe]]
    match: Callable[[Probe, Reply], RecognizedServer | None]
    noun: str = "server"
    document_setting: str = ""
    match_document: Callable[[str], RecognizedServer | None] | None = None


def address_below(address: str, path: str) -> str:
    """Return the address of `path` below an address, without its query."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, "", ""))


def at_origin(address: str, path: str) -> str:
    """Return the address of `path` at the origin of an address."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def path_of(address: str) -> str:
    return urlsplit(address).path.rstrip("/")


def rest_of_path(address: str, path: str) -> str:
    """Return the path to request below an address, which may be entered with `path` or without it."""
    return "" if path_of(address).endswith(path) else path


def wants_credential(reply: Reply) -> bool:
    """Return whether the server refuses an unknown caller. A bare 403 has many other reasons."""
    return reply.status == 401 or (reply.status == 403 and "www-authenticate" in reply.headers)


def name_in(value: Any, *members: str) -> str:
    """Return the text at a path of members, shortened for people; "" if there is none."""
    for member in members:
        value = value.get(member) if isinstance(value, dict) else None
    return printable(value.strip(), MAX_NAME_LENGTH) if isinstance(value, str) else ""


def json_in(reply: Reply) -> Any:
    """Return the JSON of a reply, or None if it is not JSON."""
    try:
        return strict_json.require_list(reply).value
    except ProtocolError:
        return None


def entries_in(document: Any, *members: str) -> list[dict[str, Any]] | None:
    """Return the objects of a list, which may be under one of these members; None if there is no list."""
    if isinstance(document, dict):
        document = next((document[name] for name in members if isinstance(document.get(name), list)), None)
    if not isinstance(document, list):
        return None
    return [entry for entry in document if isinstance(entry, dict)]
