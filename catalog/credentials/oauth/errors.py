from core.outbound.errors import RefusedError, UnavailableError


class NeedsSignInError(RefusedError):
    """Only a person can bring the next token."""

    def __init__(self, message: str) -> None:
        super().__init__("NEEDS_SIGN_IN", message)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.message,))


class BusyError(UnavailableError):
    """Another process renews the token, and did not come back in the time that we wait."""

    def __init__(self, name: str) -> None:
        super().__init__("TOKEN_BUSY", f"The token of “{name}” is just being renewed. Try again in a minute.")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), ("",), {"message": self.message})
