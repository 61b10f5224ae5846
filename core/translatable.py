"""Texts that pages translate when they show them, for code without Django. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any


def mark(text: str) -> str:
    """Return the text. `tests.message_catalog` finds it like the other texts to translate.

    An f-string is found as a template with the names of its values, if the function is not imported as `_`.
    """
    return text


class Wording(str):
    """A sentence in English that `core.translating` can translate, because it has its template and values.

    values: by placeholder; wordings among them are translated too. msgspec encodes plain texts only: `str()`.
    """

    __slots__ = ("template", "values")
    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, values: Mapping[str, Any] | None = None) -> "Wording":
        wording = super().__new__(cls, template.format(**(values or {})))
        wording.template, wording.values = template, values or {}
        return wording

    def __getnewargs__(self) -> tuple[str, Mapping[str, Any]]:  # type: ignore[override] # of a copy
        return self.template, self.values


class Count(int):
    """A number in a wording that is shown with separators of thousands."""

    def __format__(self, spec: str) -> str:
        return format(int(self), spec or ",")


def join_sentences(sentences: Iterable[str]) -> Wording:
    """Return the sentences as one text, with a space between them."""
    values = {f"sentence_{number}": sentence for number, sentence in enumerate(sentences)}
    return Wording(" ".join(f"{{{name}}}" for name in values), values)


def first_sentences(sentences: Iterable[str], count: int) -> Wording:
    """Return the first sentences, and how many more there are."""
    texts = list(sentences)
    more = [Wording(mark("And {count} more."), {"count": len(texts) - count})] if len(texts) > count else []
    return join_sentences([*texts[:count], *more])
