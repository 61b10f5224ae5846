"""Which requests may send a body: at the addresses for programs, those whose API key exists.

A request without a credential may send one to a view that needs none. A request that may not is answered
from its head alone.
"""

from django.db import DatabaseError, connection
from django.urls import Resolver404, resolve
from rest_framework.permissions import AllowAny

from designer.access_tokens import ROOT
from pegboard.web.request_buffer import RequestHead
from people.models import ApiKey

API = "/api/"
# What is sent without any credential: a form to sign in, and nothing larger.
MAX_ANONYMOUS_BODY_BYTES = 1024**2


def is_without_credential(head: RequestHead) -> bool:
    """Return True if the answer is the same without the body, because no credential came with it."""
    names = head.headers.keys()
    if "authorization" in names or any(name.endswith("api-key") for name in names):
        return False
    if head.path.startswith(ROOT):
        return True
    if "cookie" in names:
        return False
    is_too_large = (head.body_length or 0) > MAX_ANONYMOUS_BODY_BYTES
    return is_too_large or (head.path.startswith(API) and not _is_open_to_anyone(head.path))


def has_key_to_check(head: RequestHead) -> bool:
    return head.path.startswith((ROOT, API)) and _key_of(head).startswith("pgb_")


def is_key_known(head: RequestHead) -> bool:
    """Ask the database. Return True if it does not answer: the view reports that."""
    try:
        return ApiKey.objects.filter(digest=ApiKey.digest_of(_key_of(head))).exists()
    except DatabaseError:
        return True
    finally:
        connection.close()


def _is_open_to_anyone(path: str) -> bool:
    try:
        view = resolve(path).func
    except Resolver404:
        return False
    return AllowAny in getattr(getattr(view, "cls", None), "permission_classes", ())


def _key_of(head: RequestHead) -> str:
    scheme, _, key = head.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
