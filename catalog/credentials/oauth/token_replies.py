"""Replies of token endpoints, and redirects after a sign-in. Pure.

Token, type and error have one meaning or are refused with a code, because they are stored encrypted and used
for weeks. All other members are optional: an invalid one counts as missing, with a note. RFC 6749 sections
4.1.2 and 5, RFC 9207.
"""

import base64
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import quote, quote_plus, urlsplit

from core.encryption import Secret
from core.oauth.token_reply import is_success, kind_of, read_token_reply
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from core.outbound.secret_echo import STRUCK_OUT, SecretScanner

# It is sent in a header, and many servers accept at most 8 or 16 kB.
MAX_TOKEN_LENGTH = 16_000
MAX_SCOPE_LENGTH = 4_000
MAX_CODE_LENGTH = 4_000
MAX_LIFE_SECONDS = 10 * 366 * 86_400  # seconds; who grants more means for ever
# Anything shorter may occur in a text by chance.
MIN_STRUCK_OUT_LENGTH = 6
_TOKEN = re.compile(
    r"[\x21-\x7e]+"
)  # RFC 6749 appendix A.12, without the space, which ends a token in a header
_SCOPE = re.compile(r"[\x20-\x7e]*")
_SECONDS = re.compile(r"([0-9]{1,4000})(?:\.[0-9]*)?", re.ASCII)
MAX_NOTE_LENGTH = 300
_PASSING = {"temporarily_unavailable", "server_error", "slow_down"}


class OAuthError(RefusedError):
    """The server answered with an error of OAuth; `error` is its word for it."""

    def __init__(self, code: str, message: str, error: str) -> None:
        super().__init__(code, message)
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.message, self.error))


@dataclass(frozen=True, slots=True)
class Tokens:
    """A token reply. `seconds` and `scope`: None if missing or invalid. `note`: describes invalid members,
    or ""."""

    access: Secret
    refresh: Secret | None
    seconds: int | None
    scope: str | None
    note: str = ""


# Messages for the errors of RFC 6749 section 5.2 and RFC 8707 section 2.
SENTENCES = {
    "invalid_client": "does not accept this client id and secret. Look at both and at how they are sent",
    "invalid_grant": "does not accept this sign-in any more",
    "unauthorized_client": "does not let this client ask in this way. Have it allowed there",
    "unsupported_grant_type": "does not know this way of asking. Choose another kind of credential",
    "invalid_scope": "does not grant this scope. Correct the scope",
    "invalid_target": "does not know this resource. Correct the resource",
    "invalid_request": "did not understand the request. Look at the settings of this credential",
    "access_denied": "says that access was denied",
    "consent_required": "wants a person to agree first",
}


def read_tokens(reply: Reply, sent: Collection[Secret]) -> Tokens:
    """Parse a token reply. `sent`: the secrets of the request, which no message may contain.

    Raises ProtocolViolationError for an invalid reply, OAuthError for an OAuth error, UnavailableError for a
    temporary one.
    """
    host = urlsplit(reply.url).netloc
    if not is_success(reply):
        raise _refusal_error(reply, host, sent)
    token_reply = read_token_reply(reply)
    members = token_reply.members
    if members.get("error") not in (None, ""):
        raise _error_of(members, host, sent)
    # RFC 6749 section 7.1: a client must not use a token of an unknown type.
    kind = members.get("token_type")
    if kind is None:
        raise _odd_reply_error("TOKEN_TYPE", host, "does not say of which type the token is")
    if not isinstance(kind, str) or kind.strip().lower() != "bearer":
        type_text = printable(kind, 40) if isinstance(kind, str) else kind_of(kind)
        raise _odd_reply_error(
            "TOKEN_TYPE", host, f"sent a token of the type “{type_text}”, where only Bearer can be used"
        )
    name = "access_token"
    value = members.get(name)
    if value is None:
        raise _odd_reply_error("TOKEN_MISSING", host, f"sent a reply without “{name}”")
    if not _is_token(value):
        raise _odd_reply_error("TOKEN_TEXT", host, f"sent a “{name}” that cannot be one")
    access = Secret(str(value))
    notes = [*token_reply.notes]
    stated_refresh = members.get("refresh_token")
    if stated_refresh in (None, ""):  # some servers write "" where they mean none
        refresh = None
    elif not _is_token(stated_refresh):
        notes.append("sent a “refresh_token” that cannot be one, so there is nothing to renew the token with")
        refresh = None
    else:
        refresh = Secret(str(stated_refresh))
    seconds = _read_lifetime(members, notes)
    scope = _read_scope(members, notes)
    note = f"{host} {', '.join(notes)}."[:MAX_NOTE_LENGTH] if notes else ""
    return Tokens(access=access, refresh=refresh, seconds=seconds, scope=scope, note=note)


def _refusal_error(reply: Reply, host: str, sent: Collection[Secret]) -> ProtocolError:
    try:
        members = read_token_reply(reply).members
    except ProtocolViolationError:
        members = {}
    if members.get("error") is not None:
        return _error_of(members, host, sent)
    return OAuthError(
        "TOKEN_REFUSED", f"{host} refused the token request ({reply.status}) and gave no reason.", ""
    )


def _error_of(document: Mapping[str, Any], host: str, sent: Collection[Secret]) -> ProtocolError:
    error = document["error"]
    if not isinstance(error, str) or not error:
        return _odd_reply_error("TOKEN_SHAPE", host, "sent an error that is no text")
    words = document.get("error_description")
    description = words if isinstance(words, str) else ""
    return in_words(host, struck_out(error, sent), struck_out(description, sent))


def in_words(host: str, error: str, words: str) -> ProtocolError:
    """Format an error of OAuth for a person: Pegboard's sentence, then the server's text."""
    sentence = SENTENCES.get(error, f"answered with the error {printable(error, 60)}")
    quote = f" It says: “{printable(words.strip(), 200)}”" if words.strip() else ""
    message = f"{host} {sentence}.{quote}"
    if error in _PASSING:
        return UnavailableError("TOKEN_LATER", f"{host} cannot answer now ({error}).{quote}")
    code = f"TOKEN_{error.upper()}" if error in SENTENCES else "TOKEN_ERROR"
    return OAuthError(code, message, error)


def _is_token(value: object) -> bool:
    return isinstance(value, str) and bool(_TOKEN.fullmatch(value)) and len(value) <= MAX_TOKEN_LENGTH


def _read_lifetime(members: Mapping[str, Any], notes: list[str]) -> int | None:
    """Return the whole seconds that the token lives; None where the server states no readable number.

    RFC 6749 section 5.1 only recommends the member, so an odd one is a note and no reason to refuse.
    """
    value = members.get("expires_in")
    if value is None:
        return None
    match = _SECONDS.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = int(match[1]) if match else int(value) if is_number(value) else 0
    if seconds <= 0:
        notes.append("states no lifetime in “expires_in” that a token can have, so it counts as unknown")
        return None
    if (isinstance(value, str) and not value.isdigit()) or seconds != (
        value if is_number(value) else seconds
    ):
        notes.append(f"writes the lifetime oddly; it is read as {min(seconds, MAX_LIFE_SECONDS):,} s")
    return min(seconds, MAX_LIFE_SECONDS)


def is_number(value: object) -> TypeGuard[int | float]:
    # A finite one; of whole numbers every one is, and not every one is a float.
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _read_scope(members: Mapping[str, Any], notes: list[str]) -> str | None:
    value = members.get("scope")
    if value is None:
        return None
    is_list = isinstance(value, list) and all(isinstance(word, str) for word in value)
    text = " ".join(value) if is_list else value
    if not isinstance(text, str) or not _SCOPE.fullmatch(text) or len(text) > MAX_SCOPE_LENGTH:
        notes.append("sent a “scope” that is no list of words, so what it granted is not known")
        return None
    if is_list:
        notes.append("sent the “scope” as a list")
    return text


def words_of(scope: str) -> list[str]:
    """Return the words of a scope, each once. Some servers put commas between them."""
    return list(dict.fromkeys(re.split(r"[ ,]+", scope.strip(" ,")))) if scope.strip(" ,") else []


# OpenID Connect Core 5.4 and 11: about the user and the session. Servers leave them out of what they grant,
# or name them otherwise.
_OF_SIGN_IN = frozenset({"openid", "profile", "email", "address", "phone", "offline_access"})


def granted_scopes(
    required_scopes: Sequence[str], requested_scopes: Collection[str], scope_text: str | None
) -> list[str]:
    """Return those of the `required_scopes` that the server granted (RFC 6749 section 5.1).

    All of them if the reply has no scope, or has a scope that was not requested: the server then uses names
    of its own.
    """
    words = set(words_of(scope_text or ""))
    if not words or words - {*requested_scopes, *required_scopes} - _OF_SIGN_IN:
        return [*required_scopes]
    return [scope for scope in required_scopes if scope in words or scope in _OF_SIGN_IN]


def scope_names(scopes: Sequence[str]) -> str:
    """Return the first scopes for a message."""
    names = ", ".join(f"“{printable(scope, 100)}”" for scope in scopes[:2])
    return f"{names} and {len(scopes) - 2} more" if len(scopes) > 2 else names


def _odd_reply_error(code: str, host: str, description: str) -> ProtocolViolationError:
    return ProtocolViolationError(code, f"{host} {description}.")


def struck_out(text: str, sent: Collection[Secret]) -> str:
    for secret in sent:
        # All forms in which a reply may repeat a secret.
        raw = secret.reveal()
        encoded = base64.b64encode(raw.encode()).decode()
        forms = [raw, quote(raw, safe=""), quote_plus(raw), encoded, encoded.rstrip("=")]
        for form in dict.fromkeys(forms):
            if len(form) >= MIN_STRUCK_OUT_LENGTH:
                text = text.replace(form, STRUCK_OUT)
    return SecretScanner([secret.reveal() for secret in sent]).struck_out(text)


def remove_secrets(error: ProtocolError, sent: Collection[Secret]) -> ProtocolError:
    """Remove the sent secrets from the message of the error, and return the error."""
    error.message = struck_out(error.message, sent)
    error.args = (error.message,)
    return error


@dataclass(frozen=True, slots=True)
class RedirectParameters:
    """The parameters of a redirect, "" for missing ones."""

    state: str
    code: str
    issuer: str
    error: str
    words: str


def read_answer(query: Mapping[str, Sequence[str]]) -> RedirectParameters | None:
    """Parse a redirect. None if a parameter is repeated (RFC 6749 section 3.1) or too long."""
    fields = {"state": "", "code": "", "iss": "", "error": "", "error_description": ""}
    for name in fields:
        values = query.get(name) or [""]
        if len(values) != 1 or len(values[0]) > MAX_CODE_LENGTH:
            return None
        fields[name] = values[0]
    return RedirectParameters(
        fields["state"], fields["code"], fields["iss"], fields["error"], fields["error_description"]
    )
