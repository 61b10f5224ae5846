"""Which texts of a tool are searched, and how much a word in each of them weighs. Pure."""

from typing import NamedTuple

import msgspec

from catalog.search import ranking, words
from catalog.search.job_words import JobWords, job_words_for
from protocols.signature import Annotations, Requirements, Signature

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
    annotations: Annotations = Annotations()
    requirements: Requirements = Requirements()


class SearchedTexts(NamedTuple):
    """By how much a word in them weighs. In prose an identifier counts in one piece too (index)."""

    prose: Weighted
    fields: Weighted


def read_texts(
    signature: SearchedSignature | Signature, vendor: str = "", translations: str = ""
) -> SearchedTexts:
    name = signature.name
    title = "" if words.name_key(signature.title) == words.name_key(name) else signature.title
    inputs, outputs = signature.inputs, signature.outputs
    details = [field_.description for field_ in inputs]
    details += [value.name for field_ in inputs for value in field_.allowed_values]
    details += [text for field_ in outputs for text in (field_.name, field_.title)]
    return SearchedTexts(
        prose=(
            (ranking.NAME, f"{name} {title}"),
            (ranking.TEXT, " ".join((signature.description, *signature.tags, vendor))),
        ),
        fields=(
            (ranking.PARAMETER, " ".join([f"{field_.name} {field_.title}" for field_ in inputs])),
            (ranking.DETAIL, " ".join(details)),
            (ranking.OUTPUT_DETAIL, " ".join([field_.description for field_ in outputs])),
            (ranking.TRANSLATION, translations),
        ),
    )


# The impact of a group of everyday words that the name or title, or the description of a tool has a word of.
GROUP_IN_NAME, GROUP_IN_TEXT = 215, 130
_MAX_GROUPED_LENGTH = 300


def group_impacts(
    signature: SearchedSignature | Signature, job_words: JobWords | None = None
) -> dict[str, int]:
    """Return the groups of everyday words that a tool has, by their tokens, and their impacts.

    `job_words`: the groups to look for; the shipped ones if None.
    """
    in_name = job_words_for(f"{signature.name} {signature.title}", job_words)
    # A description states the purpose first.
    in_text = job_words_for(signature.description[:_MAX_GROUPED_LENGTH], job_words)
    return dict.fromkeys(in_text, GROUP_IN_TEXT) | dict.fromkeys(in_name, GROUP_IN_NAME)
