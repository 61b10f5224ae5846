"""What can go wrong between us and a vendor, in three kinds.

The kind says who has to act: no one yet (try later), a person here (fix the credential or the
address), or the vendor (its reply broke its own protocol). `code` is stable and upper case, as in
the table of hostile behaviours in docs/protocols.md; `message` is one sentence for an administrator
and never holds a secret.
"""

from core.invisible_characters import escaped


class ProtocolError(Exception):
    """A conversation with a vendor failed; the catalog stays as it was."""

    def __init__(self, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.message), {"retry_after": self.retry_after})


class UnavailableError(ProtocolError):
    """The vendor could not answer now; the same request may work later."""


class RefusedError(ProtocolError):
    """The request was not allowed, by the vendor or by our own address rule; a person must act.

    `challenge` is the WWW-Authenticate header of a vendor that asks for another credential.
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
    """The vendor answered, and the answer breaks the protocol it claims to speak."""


def printable(text: str, longest: int = 100) -> str:
    """A vendor's text made fit for a message: no control or invisible character, and cut."""
    shown = escaped(text[: longest + 1])
    return shown if len(shown) <= longest else shown[:longest] + "…"
