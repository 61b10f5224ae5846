"""Whether a request may send its body: below the addresses of programs, only with an API key that is known.

Everything else about the key is decided with the request itself, which is answered without its body where the
key is missing or unknown.
"""

from django.db import DatabaseError, connection

from designer.access_tokens import ROOT
from pegboard.web.request_buffer import RequestHead
from people.models import ApiKey

API = "/api/"
# What is sent without any credential: a form to sign in, and nothing larger.
MAX_ANONYMOUS_BODY_BYTES = 1024**2


def is_without_credential(head: RequestHead) -> bool:
    """Whether the body has to be read for nothing: the answer is the same without it."""
    names = head.headers.keys()
    if "authorization" in names or any(name.endswith("api-key") for name in names):
        return False
    if head.path.startswith(ROOT):
        return True
    if "cookie" in names:
        return False
    return head.path.startswith(API) or (head.body_length or 0) > MAX_ANONYMOUS_BODY_BYTES


def has_key_to_check(head: RequestHead) -> bool:
    return head.path.startswith((ROOT, API)) and _key_of(head).startswith("pgb_")


def is_key_known(head: RequestHead) -> bool:
    """Asks the database. True where it does not answer: the request will be told so."""
    try:
        return ApiKey.objects.filter(digest=ApiKey.digest_of(_key_of(head))).exists()
    except DatabaseError:
        return True
    finally:
        connection.close()


def _key_of(head: RequestHead) -> str:
    scheme, _, key = head.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
