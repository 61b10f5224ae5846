"""Texts that pages translate when they show them, for code without Django. Pure."""

from dataclasses import dataclass, field
from typing import Any


def mark(text: str) -> str:
    """Return the text. Imported as `_`, so that it is found like the other texts to translate."""
    return text


@dataclass(frozen=True, slots=True)
class Wording:
    """A sentence with the values for its placeholders. As text it is English.

    values: by placeholder; wordings among them are translated too.
    """

    template: str
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format(**self.values)
