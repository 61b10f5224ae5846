"""What went over the wire, recorded without secrets."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from urllib3.response import BaseHTTPResponse

from core.outbound.errors import ProtocolError
from core.outbound.limits import Budget
from core.outbound.request import Request
from core.outbound.response import in_our_words, plain_headers, read_body
from core.outbound.secret_echo import STRUCK_OUT, SecretScanner

# A person reads it, in the record of a call.
MAX_RECORDED_BYTES = 64 * 1024
# The reply is refused already; why it was is worth a moment and no more.
GLIMPSE_SECONDS = 2.0
_MIN_CUT_LENGTH = 4  # of a secret's beginning, less may stand at an end by chance


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply as they went over the wire, without what the credential added.

    `status` is 0 when no reply came. Bodies are cut at `MAX_RECORDED_BYTES` bytes.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int = 0
    reply_headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""
    duration_ms: int = 0


def recorded(
    request: Request,
    url: str,
    response: BaseHTTPResponse | None,
    parts: Sequence[bytes],
    began: float,
    secrets: SecretScanner,
) -> Exchange:
    """`parts` are those of the reply's body, and `began` is on the monotonic clock."""
    replied = plain_headers(response) if response else {}
    return Exchange(
        method=request.method,
        url=secrets.struck_out(url),
        headers={name: secrets.struck_out(value) for name, value in request.headers.items()},
        body=_start_of([request.content or b"" if request.shown is None else request.shown], secrets),
        status=response.status if response else 0,
        reply_headers=_without_secrets(replied, secrets),
        reply=_start_of(parts, secrets),
        duration_ms=round((time.monotonic() - began) * 1000),
    )


def with_rest(exchange: Exchange, body: bytes, began: float, secrets: SecretScanner) -> Exchange:
    """The exchange whose request was answered by what came over an earlier reply, that was kept open."""
    took = round((time.monotonic() - began) * 1000)
    return replace(exchange, reply=_start_of([body], secrets), duration_ms=exchange.duration_ms + took)


def _without_secrets(headers: Mapping[str, str], secrets: SecretScanner) -> dict[str, str]:
    # Nothing is kept of a value that holds a secret, and no name that does.
    return {
        name: STRUCK_OUT if secrets.holds(value.encode(errors="replace")) else value
        for name, value in headers.items()
        if not secrets.holds(name.encode(errors="replace"))
    }


def _start_of(parts: Sequence[bytes], secrets: SecretScanner) -> str:
    # How a body begins. No secret is in it, none that was escaped and none that a cut went through.
    content = b""
    for part in parts:
        content += part[: MAX_RECORDED_BYTES + secrets.longest - len(content)]
    more = " …" if sum(map(len, parts)) > MAX_RECORDED_BYTES else ""
    told = content.decode(errors="replace")
    text = secrets.struck_out(told)[:MAX_RECORDED_BYTES]
    if text == told[:MAX_RECORDED_BYTES] and secrets.holds(content):
        return STRUCK_OUT
    while secrets.begins_at_the_end_of(text, _MIN_CUT_LENGTH):
        text = text[:-_MIN_CUT_LENGTH]
    return text + more


def glimpse(response: BaseHTTPResponse, budget: Budget, parts: list[bytes]) -> None:
    """How a reply begins that is refused for its status, for the recorded exchange."""
    budget.ends = min(budget.ends, time.monotonic() + GLIMPSE_SECONDS)
    size = 0
    with suppress(ProtocolError), in_our_words(budget):
        for part in read_body(response, budget):
            parts.append(part)
            size += len(part)
            if size >= MAX_RECORDED_BYTES:
                break
