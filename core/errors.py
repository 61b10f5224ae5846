class DomainError(Exception):
    """A rule of the product refuses: `code` is for programs, `message` and `fields` are for users.

    `retry_after` is in whole seconds, where the caller may try again then.
    """

    retry_after: int | None = None

    def __init__(
        self, code: str, message: str, *, fields: dict[str, str] | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = dict(fields or {})
        self.status = status


def invalid(**fields: str) -> DomainError:
    """The error for refused fields: by the name of each, a sentence that says what to enter."""
    return DomainError("invalid", "Please correct what is marked.", fields=fields)
