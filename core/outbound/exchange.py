"""Records of requests and replies as they were on the wire, without secrets."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from urllib3.response import BaseHTTPResponse

from core.outbound.errors import ProtocolError
from core.outbound.limits import Budget
from core.outbound.request import Request
from core.outbound.response import converted_errors, plain_headers, read_body
from core.outbound.secret_echo import STRUCK_OUT, SecretScanner

# Users read it in the record of a call.
MAX_RECORDED_BYTES = 64 * 1024
# The reply is refused already; its first bytes are only for the record.
GLIMPSE_SECONDS = 2.0
_MIN_CUT_LENGTH = 4  # a shorter prefix of a secret may be at the end by chance


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its reply as they were on the wire, without the parts of the credential.

    status: 0 without a reply. body, reply: truncated at MAX_RECORDED_BYTES.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int = 0
    reply_headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""
    duration_ms: int = 0


def record_exchange(
    request: Request,
    url: str,
    response: BaseHTTPResponse | None,
    parts: Sequence[bytes],
    began: float,
    secrets: SecretScanner,
) -> Exchange:
    """Return the record of a request. `parts`: of the reply's body. `began`: on the monotonic clock."""
    reply_headers = plain_headers(response) if response else {}
    # Replace values that contain a secret, and remove names that do.
    return Exchange(
        method=request.method,
        url=secrets.struck_out(url),
        headers={name: secrets.struck_out(value) for name, value in request.headers.items()},
        body=_start_of([request.content or b"" if request.shown is None else request.shown], secrets),
        status=response.status if response else 0,
        reply_headers={
            name: STRUCK_OUT if secrets.holds(value.encode(errors="replace")) else value
            for name, value in reply_headers.items()
            if not secrets.holds(name.encode(errors="replace"))
        },
        reply=_start_of(parts, secrets),
        duration_ms=round((time.monotonic() - began) * 1000),
    )


def record_late_exchange(exchange: Exchange, body: bytes, began: float, secrets: SecretScanner) -> Exchange:
    """Return the record of a request whose answer arrived in an earlier reply that had stayed open."""
    duration_ms = round((time.monotonic() - began) * 1000)
    return replace(exchange, reply=_start_of([body], secrets), duration_ms=exchange.duration_ms + duration_ms)


def strike_out(exchange: Exchange, secrets: SecretScanner) -> Exchange:
    """Return a record without secrets that a vendor may repeat in its replies."""
    return replace(
        exchange,
        url=secrets.struck_out(exchange.url),
        body=secrets.struck_out(exchange.body),
        reply=secrets.struck_out(exchange.reply),
        headers={name: secrets.struck_out(value) for name, value in exchange.headers.items()},
        reply_headers={name: secrets.struck_out(value) for name, value in exchange.reply_headers.items()},
    )


def _start_of(parts: Sequence[bytes], secrets: SecretScanner) -> str:
    """Return the start of a body without secrets, including escaped and truncated ones."""
    content = b""
    for part in parts:
        content += part[: MAX_RECORDED_BYTES + secrets.max_length - len(content)]
    more = " …" if sum(map(len, parts)) > MAX_RECORDED_BYTES else ""
    decoded = content.decode(errors="replace")
    text = secrets.struck_out(decoded)[:MAX_RECORDED_BYTES]
    if text == decoded[:MAX_RECORDED_BYTES] and secrets.holds(content):
        return STRUCK_OUT
    while secrets.begins_at_the_end_of(text, _MIN_CUT_LENGTH):
        text = text[:-_MIN_CUT_LENGTH]
    return text + more


def glimpse(response: BaseHTTPResponse, budget: Budget, parts: list[bytes]) -> None:
    """Read the start of a reply with a refused status into `parts`, for the record."""
    budget.ends = min(budget.ends, time.monotonic() + GLIMPSE_SECONDS)
    size = 0
    with suppress(ProtocolError), converted_errors(budget):
        for part in read_body(response, budget):
            parts.append(part)
            size += len(part)
            if size >= MAX_RECORDED_BYTES:
                break
