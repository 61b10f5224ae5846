"""What a vendor asks for when it refuses: the WWW-Authenticate header. Pure.

RFC 9110 section 11.6.1 (challenges), RFC 6750 section 3 (Bearer), RFC 9728 section 5.1 (resource_metadata).
"""

import re

MAX_VALUE_LENGTH = 2_048
_PARAMETER = re.compile(
    r"""(?:^|[\s,])(?P<name>[a-z_]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))""",
    re.IGNORECASE,
)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749 section 3.3


def challenged(challenge: str, name: str) -> str:
    """A parameter of the Bearer challenge in a WWW-Authenticate header; "" when there is none."""
    start = re.search(r"(?:^|,\s*)bearer(?:\s+|$)", challenge, re.IGNORECASE)
    if start is None:
        return ""
    for found in _PARAMETER.finditer(challenge, start.end() - 1):
        if found["name"].lower() == name:
            text = found["plain"] or re.sub(r"\\(.)", r"\1", found["quoted"] or "")
            return text if text.isprintable() and len(text) <= MAX_VALUE_LENGTH else ""
    return ""


def scope_asked(challenge: str) -> str:
    """The scope that a token shall have; "" for none, and for what is no list of scopes."""
    scope = " ".join(challenged(challenge, "scope").split())
    return scope if _SCOPE.fullmatch(scope) else ""


def wants_more_scope(challenge: str) -> bool:
    """The token is good, and does not suffice for this request: RFC 6750 section 3.1."""
    return challenged(challenge, "error") == "insufficient_scope"
