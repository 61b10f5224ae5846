"""Which texts of a tool are searched, and how much a word in each of them weighs. Pure."""

from typing import NamedTuple

import msgspec

from catalog.search import ranking, words
from protocols.signature import Signature

Weighted = tuple[tuple[float, str], ...]


class _Named(msgspec.Struct):
    name: str = ""


class _Parameter(msgspec.Struct):
    name: str = ""
    title: str = ""
    description: str = ""
    allowed_values: list[_Named] = []


class SearchedSignature(msgspec.Struct):
    """The members of a signature that are searched."""

    name: str
    title: str = ""
    description: str = ""
    tags: list[str] = []
    inputs: list[_Parameter] = []
    outputs: list[_Parameter] = []


class SearchedTexts(NamedTuple):
    """By how much a word in them weighs. In prose an identifier counts in one piece too (lexicon.Lexicon)."""

    prose: Weighted
    fields: Weighted


def of(signature: SearchedSignature | Signature, vendor: str = "") -> SearchedTexts:
    name = signature.name
    title = "" if words.name_key(signature.title) == words.name_key(name) else signature.title
    inputs, outputs = signature.inputs, signature.outputs
    details = [each.description for each in inputs]
    details += [value.name for each in inputs for value in each.allowed_values]
    details += [text for each in outputs for text in (each.name, each.title)]
    return SearchedTexts(
        prose=(
            (ranking.NAME, f"{name} {title}"),
            (ranking.TEXT, " ".join((signature.description, *signature.tags, vendor))),
        ),
        fields=(
            (ranking.PARAMETER, " ".join([f"{each.name} {each.title}" for each in inputs])),
            (ranking.DETAIL, " ".join(details)),
            (ranking.OUTPUT_DETAIL, " ".join([each.description for each in outputs])),
        ),
    )
