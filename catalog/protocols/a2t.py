from catalog.protocols.base import Protocol


class A2T(Protocol):
    name = "a2t"
    label = "A2T / N-ACT"
