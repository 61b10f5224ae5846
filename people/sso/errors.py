from core.errors import DomainError


class SignInError(DomainError):
    """Nobody is signed in; the message says what the person can do. Without any text of the provider."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(code, message, status=status)
