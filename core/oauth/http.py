"""Requests to authorization servers: sent as to vendors, with smaller limits and without a retry.

A token request may have succeeded although its reply was lost, so nothing here is sent twice. For the same
reason the time limit is as long as such servers take: a client that gives up loses a rotated refresh token.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from core.oauth.client import Form
from core.outbound.limits import DEFAULT_LIMITS, KIB, Limits
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.reply import Reply
from core.outbound.session import Session

SECONDS = 30.0  # shorter than the lease under which a token is renewed
LIMITS = replace(
    DEFAULT_LIMITS,
    request=SECONDS,
    session=SECONDS,
    body=256 * KIB,
    session_bytes=512 * KIB,
    backoff=(),
)
# For what a server publishes: a person waits, and several addresses are asked in turn.
LOOK = replace(LIMITS, request=10.0)
# Statuses with a token or an error of RFC 6749 section 5 in the body. Tokens come with any 2xx.
TOKEN_STATUSES = (*range(200, 300), 400, 401, 403)


def post_form(
    address: str, form: Form, *, accept: Sequence[int] = TOKEN_STATUSES, seconds: float | None = None
) -> Reply:
    """The reply of a token endpoint, or of another that takes its forms."""
    limits = LIMITS if seconds is None else replace(LIMITS, session=seconds)
    return _asked(address, "POST", accept, form.headers, form.body, limits)


def post_json(address: str, document: Mapping[str, object], *, accept: Sequence[int]) -> Reply:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return _asked(address, "POST", accept, headers, json.dumps(document).encode(), LIMITS)


def get(address: str, accept: Sequence[int], *, seconds: float) -> Reply:
    return _asked(address, "GET", accept, {}, None, replace(LOOK, session=seconds))


def _asked(
    address: str,
    method: str,
    accept: Sequence[int],
    headers: Mapping[str, str],
    body: bytes | None,
    limits: Limits,
) -> Reply:
    # Asked at the origin, because a path that ends with a slash is another address here.
    parts = urlsplit(address)
    root = f"{parts.scheme}://{parts.netloc}"
    # Administrators choose the vendors that name these servers, and the deployment its identity provider.
    policy = policy_for(Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR)
    with Session(root, policy=policy, limits=limits) as session:
        return session.request(
            method, parts.path, query=parts.query, content=body, headers=headers, accept=accept
        )
