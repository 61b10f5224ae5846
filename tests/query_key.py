from core.outbound.request import AppliedCredential


class QueryKey:
    """A key in the address, as a session carries it."""

    def __init__(self, name: str, key: str) -> None:
        self.carried = AppliedCredential(lambda request: request.add_parameter(name, key), [key])

    def current(self) -> AppliedCredential:
        return self.carried

    def answered(self, status: int, challenge: str) -> bool:
        return False
