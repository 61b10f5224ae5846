"""Reads the members of a token endpoint's reply from JSON or a form, at any status of success. Pure.

RFC 6749 section 5.1 wants 200 and JSON. Some servers answer 201, or with a form as they did before that RFC;
the token is as good. What the members mean is for the caller to decide.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply

FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 100


@dataclass(frozen=True, slots=True)
class TokenReply:
    """`notes` are sentences without a subject about what is odd in the frame: “answered 201, not 200”."""

    members: dict[str, Any]
    notes: list[str]


def read_token_reply(reply: Reply) -> TokenReply:
    """Raises ProtocolViolationError for a reply that is neither a JSON object nor a form."""
    content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    notes = [] if reply.status in (200, *range(300, 600)) else [f"answered {reply.status}, not 200"]
    is_object = reply.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if content_type == FORM and not is_object:
        return TokenReply(_read_form(reply), [*notes, "sent a form and not JSON"])
    if is_object:
        is_json = content_type == "application/json" or content_type.endswith("+json")
        if not is_json:
            notes.append(f"called its JSON “{printable(content_type, 60)}”")
        # A number or text that cannot be stored costs the member that it is in, not the token.
        members = strict_json.loads(reply.body, allow_unstorable=True)
    else:
        members = strict_json.require_json(reply)
    if not isinstance(members, dict):
        raise _violation("TOKEN_SHAPE", reply, f"sent {kind_of(members)} where an object was expected")
    return TokenReply(members, notes)


def is_success(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def kind_of(value: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number" if isinstance(value, int | float) else "an object"
    )


def _read_form(reply: Reply) -> dict[str, Any]:
    try:
        text = reply.body.decode().strip()
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, max_num_fields=MAX_FORM_FIELDS, errors="strict"
        )
    except ValueError:
        raise _violation("TOKEN_SHAPE", reply, "sent a form that cannot be read") from None
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _violation("TOKEN_SHAPE", reply, "sent a form that repeats a name")
    return members


def _violation(code: str, reply: Reply, problem: str) -> ProtocolViolationError:
    return ProtocolViolationError(code, f"{urlsplit(reply.url).netloc} {problem}.")
