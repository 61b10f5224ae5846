"""Requests to authorization servers, with smaller limits than for vendors and without retries.

A token request may have succeeded although its reply was lost, so no request is repeated. For the same
reason the time limit is long: a client that gives up too early loses a rotated refresh token.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from core.oauth.client import Form
from core.outbound.limits import DEFAULT_LIMITS, KIB, Limits
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.reply import Reply
from core.outbound.session import HttpSession

SECONDS = 30.0  # shorter than the lease under which a token is renewed
LIMITS = replace(
    DEFAULT_LIMITS,
    request=SECONDS,
    session=SECONDS,
    body=256 * KIB,
    session_bytes=512 * KIB,
    backoff=(),
)
# For published metadata: a person waits, and several addresses are tried in turn.
METADATA_LIMITS = replace(LIMITS, request=10.0)
# Statuses with a token or an error of RFC 6749 section 5 in the body. Tokens come with any 2xx.
TOKEN_STATUSES = (*range(200, 300), 400, 401, 403)


def post_form(
    address: str, form: Form, *, accept: Sequence[int] = TOKEN_STATUSES, seconds: float | None = None
) -> Reply:
    """Send a form to a token endpoint and return the reply."""
    limits = LIMITS if seconds is None else replace(LIMITS, session=seconds)
    return _send_request(address, "POST", accept, form.headers, form.body, limits)


def post_json(address: str, document: Mapping[str, object], *, accept: Sequence[int]) -> Reply:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return _send_request(address, "POST", accept, headers, json.dumps(document).encode(), LIMITS)


def get(address: str, accept: Sequence[int], *, seconds: float) -> Reply:
    return _send_request(address, "GET", accept, {}, None, replace(METADATA_LIMITS, session=seconds))


def _send_request(
    address: str,
    method: str,
    accept: Sequence[int],
    headers: Mapping[str, str],
    body: bytes | None,
    limits: Limits,
) -> Reply:
    # The session has the origin as its root, because a trailing slash makes a different address here.
    parts = urlsplit(address)
    root = f"{parts.scheme}://{parts.netloc}"
    # Administrators choose the vendors that name these servers; the deployment names its identity provider.
    policy = policy_for(Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR)
    with HttpSession(root, policy=policy, limits=limits) as session:
        return session.request(
            method, parts.path, query=parts.query, content=body, headers=headers, accept=accept
        )
