"""The door to authorization servers: the same as to vendors, with smaller limits and no second try.

A token request may have been obeyed although its reply was lost, so nothing here is sent twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from catalog.networks import outbound_policy
from catalog.oauth.asking import Form
from catalog.outbound import Session
from catalog.protocols.base import Reply
from catalog.wire import DEFAULT_LIMITS, KIB

SECONDS = 20.0  # in all; shorter than the lease under which a token is renewed
LIMITS = replace(
    DEFAULT_LIMITS,
    request=SECONDS,
    session=SECONDS,
    body=256 * KIB,
    session_bytes=512 * KIB,
    backoff=(),
)
# What a token endpoint answers in JSON: RFC 6749 section 5.
TOKEN_STATUSES = (200, 400, 401, 403)


def post_form(
    address: str, form: Form, *, accept: Sequence[int] = TOKEN_STATUSES, seconds: float = SECONDS
) -> Reply:
    """The reply of a token endpoint, or of another that takes its forms."""
    return _asked(address, "POST", accept, form.headers, form.body, seconds)


def post_json(address: str, document: Mapping[str, object], *, accept: Sequence[int]) -> Reply:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return _asked(address, "POST", accept, headers, json.dumps(document).encode())


def get(address: str, accept: Sequence[int], *, seconds: float) -> Reply:
    """Within so many seconds."""
    return _asked(address, "GET", accept, {}, None, seconds)


def _asked(
    address: str,
    method: str,
    accept: Sequence[int],
    headers: Mapping[str, str],
    body: bytes | None,
    seconds: float = SECONDS,
) -> Reply:
    """Asked at the origin, because a path that ends with a slash is another address here."""
    parts = urlsplit(address)
    root = f"{parts.scheme}://{parts.netloc}"
    with Session(
        root, policy=outbound_policy(), limits=replace(LIMITS, session=min(seconds, SECONDS))
    ) as session:
        return session.request(
            method, parts.path, query=parts.query, content=body, headers=headers, accept=accept
        )
