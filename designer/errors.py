from core.errors import DomainError


class NameTakenError(DomainError):
    """Two tools of one agent would have one name. `proposal` is free; a person says whether to take it."""

    def __init__(self, code: str, message: str, proposal: str) -> None:
        super().__init__(code, message, fields={"alias": message}, status=409)
        self.proposal = proposal
