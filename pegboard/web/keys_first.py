"""Decides which requests may send a body: at the addresses for programs, those whose API key exists.

A request without a credential may send one to a view that needs none. A request that may not is answered
from its head alone. A key that was found is believed for a minute, because most clients send head and body
apart, and each of their requests would cost a thread and a look into the database. The view judges the key
of each request all the same.
"""

import time

from django.db import DatabaseError, connection
from django.urls import Resolver404, resolve
from rest_framework.permissions import AllowAny

from designer.agents.access_tokens import ROOT
from pegboard.web.request_buffer import RequestHead
from people.models import ApiKey

API = "/api/"
# The largest body without a credential: a form to sign in.
MAX_ANONYMOUS_BODY_BYTES = 1024**2
BELIEVED_SECONDS, MAX_BELIEVED_KEYS = 60.0, 10_000
_found_at: dict[str, float] = {}  # by the digest of a key, on the monotonic clock


def is_without_credential(head: RequestHead) -> bool:
    """Return True if the answer is the same without the body, because no credential came with it."""
    names = head.headers.keys()
    if "authorization" in names or any(name.endswith("api-key") for name in names):
        return False
    if head.path.startswith(ROOT):
        return True
    if "cookie" in names:
        return False
    if (head.body_length or 0) > MAX_ANONYMOUS_BODY_BYTES:
        return True
    if not head.path.startswith(API):
        return False
    try:
        view = resolve(head.path).func
    except Resolver404:
        return True
    return AllowAny not in getattr(getattr(view, "cls", None), "permission_classes", ())


def has_key_to_check(head: RequestHead) -> bool:
    """Return True for an API key that was not found within the last minute."""
    key = _key_of(head)
    if not key.startswith("pgb_") or not head.path.startswith((ROOT, API)):
        return False
    return _found_at.get(ApiKey.digest_of(key), -BELIEVED_SECONDS) < time.monotonic() - BELIEVED_SECONDS


def is_key_known(head: RequestHead) -> bool:
    """Look the key up. Return True if the database does not respond: the view reports that."""
    digest = ApiKey.digest_of(_key_of(head))
    try:
        is_known = ApiKey.objects.filter(digest=digest).exists()
    except DatabaseError:
        return True
    finally:
        connection.close()
    if is_known:
        if len(_found_at) >= MAX_BELIEVED_KEYS:
            _found_at.clear()
        _found_at[digest] = time.monotonic()
    return is_known


def _key_of(head: RequestHead) -> str:
    scheme, _, key = head.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
