"""Parse the header WWW-Authenticate. Pure.

RFC 9110 section 11.6.1 (challenges), RFC 6750 section 3 (Bearer), RFC 9728 section 5.1 (resource_metadata).
"""

import re

MAX_VALUE_LENGTH = 2_048
_PARAMETER = re.compile(
    r"""(?:^|[\s,])(?P<name>[a-z_]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))""",
    re.IGNORECASE,
)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749 section 3.3


def challenge_parameter(challenge: str, name: str) -> str:
    """Return a parameter of the Bearer challenge in a WWW-Authenticate header, or ""."""
    start = re.search(r"(?:^|,\s*)bearer(?:\s+|$)", challenge, re.IGNORECASE)
    if start is None:
        return ""
    for match in _PARAMETER.finditer(challenge, start.end() - 1):
        if match["name"].lower() == name:
            text = match["plain"] or re.sub(r"\\(.)", r"\1", match["quoted"] or "")
            return text if text.isprintable() and len(text) <= MAX_VALUE_LENGTH else ""
    return ""


def scope_asked(challenge: str) -> str:
    """Return the required scopes, or "" for none and for an invalid list."""
    scope = " ".join(challenge_parameter(challenge, "scope").split())
    return scope if _SCOPE.fullmatch(scope) else ""


def wants_more_scope(challenge: str) -> bool:
    """Return whether a valid token lacks scopes for this request: RFC 6750 section 3.1."""
    return challenge_parameter(challenge, "error") == "insufficient_scope"
