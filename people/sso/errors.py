from core.errors import DomainError


class SignInError(DomainError):
    """A sign-in that failed. The message states what to do and contains no text of the provider."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(code, message, status=status)
