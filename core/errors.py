class DomainError(Exception):
    """A rule of the product said no: `code` is for programs, `message` and `fields` are for people.

    `retry_after` is in whole seconds, for what may be asked again then.
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
    """What was entered, with a sentence beside each field that cannot stay so."""
    return DomainError("invalid", "Please correct what is marked.", fields=fields)
