"""Errors of outbound requests.

The class states who has to act: no one (UnavailableError: try again later), a user here (RefusedError:
correct the credential or the address), or the vendor (ProtocolViolationError). `code` is stable and upper
case, as in the table of hostile behaviours in docs/protocols.md; `message` is a sentence for an administrator
and never contains a secret.
"""

from core.invisible_characters import escape_hidden


class ProtocolError(Exception):
    """An outbound request that failed."""

    def __init__(self, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.message), {"retry_after": self.retry_after})


class UnavailableError(ProtocolError):
    """The server cannot respond now; the same request may work later."""


class RefusedError(ProtocolError):
    """The server or the network policy refused the request, and a user has to act.

    challenge: the WWW-Authenticate header of a server that requires another credential.
    """

    def __init__(
        self, code: str, message: str, *, retry_after: float | None = None, challenge: str = ""
    ) -> None:
        super().__init__(code, message, retry_after=retry_after)
        self.challenge = challenge

    def __reduce__(self) -> tuple[object, ...]:
        state = {"retry_after": self.retry_after, "challenge": self.challenge}
        return (type(self), (self.code, self.message), state)


class ProtocolViolationError(ProtocolError):
    """The server responded, and the response violates its protocol."""


def printable(text: str, longest: int = 100) -> str:
    """Return a vendor's text for a message: without control or invisible characters, and truncated."""
    escaped_text = escape_hidden(text[: longest + 1])
    return escaped_text if len(escaped_text) <= longest else escaped_text[:longest] + "…"
