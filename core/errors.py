class DomainError(Exception):
    """A rule of the product refuses a request. `code` is for programs, `message` and `fields` are for users.

    retry_after: whole seconds until the caller may try again; None if a retry does not help.
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
    """Return the error for invalid fields. `fields`: for each field name, a sentence that explains what to
    enter."""
    return DomainError("invalid", "Some fields are not valid.", fields=fields)
