from core.outbound.request import Carried


class QueryKey:
    """A key in the address, as a session carries it."""

    def __init__(self, name: str, key: str) -> None:
        self.carried = Carried(lambda request: request.add_parameter(name, key), [key])

    def current(self) -> Carried:
        return self.carried

    def answered(self, status: int, challenge: str) -> bool:
        return False
