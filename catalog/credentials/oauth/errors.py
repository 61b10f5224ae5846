"""Errors of token requests, and messages that several of them share."""

from datetime import UTC, datetime

from core.outbound.errors import RefusedError, UnavailableError


class NeedsSignInError(RefusedError):
    """A new token requires that a user signs in."""

    def __init__(self, message: str) -> None:
        super().__init__("NEEDS_SIGN_IN", message)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message,))


class BusyError(UnavailableError):
    """Another process renews the token and did not finish in the time that a caller waits."""

    def __init__(self, name: str) -> None:
        super().__init__("TOKEN_BUSY", f"The token of “{name}” is just being renewed. Try again in a minute.")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), ("",), {"message": self.message})


def sign_in_again(since: datetime, why: str) -> str:
    return f"It needs a sign-in since {moment(since)}: {why}."


def moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%H:%M:%S} UTC on {when.astimezone(UTC):%d %B %Y}".replace(" on 0", " on ")
