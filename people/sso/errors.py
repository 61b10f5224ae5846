from core.errors import DomainError


class SignInError(DomainError):
    """No user is signed in; the message says what to do. It holds no text of the provider."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(code, message, status=status)
