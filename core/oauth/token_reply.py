"""Read the members of a token endpoint's reply from JSON or a form, at any success status. Pure.

RFC 6749 section 5.1 requires 200 and JSON. Some servers send 201, or a form as before that RFC. An unreadable
member is ignored unless the token depends on it. The caller interprets the members.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from core import json_parts, strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply

FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 100
_FORM_BODY = re.compile(rb"[\w.-]+=[^\s&]*+(?:&[\w.-]+=[^\s&]*+)*+\s*")
# Without these the reply has no meaning.
ESSENTIAL = frozenset({"access_token", "token_type", "refresh_token", "id_token", "error"})


@dataclass(frozen=True, slots=True)
class TokenReply:
    """The members of a token reply. notes: deviations, as predicates without a subject: “answered 201, not
    200”.
    """

    members: dict[str, Any]
    notes: list[str]


def read_token_reply(reply: Reply) -> TokenReply:
    """Read a reply. Raises ProtocolViolationError for one that is neither a JSON object nor a form."""
    content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    notes = [] if reply.status in (200, *range(300, 600)) else [f"answered {reply.status}, not 200"]
    is_object = reply.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if not is_object and (content_type == FORM or _FORM_BODY.fullmatch(reply.body)):
        notes.append("sent a form and not JSON")
        return TokenReply(_read_form(reply, notes), notes)
    if is_object:
        is_json = content_type == "application/json" or content_type.endswith("+json")
        if not is_json:
            notes.append(f"called its JSON “{printable(content_type, 60)}”")
        repeated: list[str] = []
        document = strict_json.loads_parts(reply.body, repeated=repeated.append).value
        members: dict[str, Any] = {}
        for name, value in document.items():
            if name in repeated and name in ESSENTIAL:
                raise ProtocolViolationError("JSON_DUPLICATE", f"The reply repeats “{printable(name, 60)}”.")
            broken = json_parts.find_broken(value)
            if broken and name in ESSENTIAL:
                raise ProtocolViolationError(broken.code, f"The reply contains {broken.reason}.")
            if broken or name in repeated:
                notes.append(_unread_note(name))
            else:
                members[name] = value
    else:
        members = strict_json.require_json(reply)
    if not isinstance(members, dict):
        raise _shape_error(reply, f"sent {kind_of(members)} where an object was expected")
    return TokenReply(members, notes)


def is_success(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def kind_of(value: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number" if isinstance(value, int | float) else "an object"
    )


def _read_form(reply: Reply, notes: list[str]) -> dict[str, Any]:
    text = reply.body.decode(errors="replace").strip()
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        pairs = []
    if "=" not in text or not pairs:
        raise _shape_error(reply, "sent a form that cannot be read")
    counts = Counter(name for name, _ in pairs)
    repeated = {name for name, count in counts.items() if count > 1}
    if repeated & ESSENTIAL:
        raise _shape_error(reply, "sent a form that repeats a name")
    notes += map(_unread_note, sorted(repeated))
    return {name: value for name, value in pairs if name not in repeated}


def _unread_note(name: str) -> str:
    return f"sent a “{printable(name, 60)}” that cannot be read"


def _shape_error(reply: Reply, problem: str) -> ProtocolViolationError:
    return ProtocolViolationError("TOKEN_SHAPE", f"{urlsplit(reply.url).netloc} {problem}.")
