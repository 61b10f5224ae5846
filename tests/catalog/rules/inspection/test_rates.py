"""The share of attacks that the wording rules find, and of honest tools that they flag.

`attacks_held_out` was written before the rules, and no rule was made or changed for a text in it: a change of
the rules adds to `attacks_developed_on` and leaves the other file alone.
"""

import json
from pathlib import Path

import pytest
from django.conf import settings

from catalog.rules import inspection
from tests.designer.exports import real_tools
from tests.factories import make_signature

FIXTURES = Path(settings.BASE_DIR) / "tests" / "fixtures" / "inspection"


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text().splitlines()]


def is_flagged(signature) -> bool:
    return inspection.worst(inspection.inspect(signature)) in ("medium", "high")


def flagged(name: str) -> list[str]:
    texts = [line["text"] for line in lines(name)]
    return [text for text in texts if is_flagged(make_signature(description=text))]


@pytest.mark.parametrize(("name", "least"), [("attacks_held_out", 0.8), ("attacks_developed_on", 0.95)])
def test_most_attacks_are_found(name, least):
    assert len(flagged(name)) >= least * len(lines(name))


@pytest.mark.parametrize("kind", sorted({line["kind"] for line in lines("attacks_held_out")}))
def test_attacks_of_every_kind_are_found(kind):
    texts = [line["text"] for line in lines("attacks_held_out") if line["kind"] == kind]
    flagged = [text for text in texts if is_flagged(make_signature(description=text))]
    assert len(flagged) >= 0.7 * len(texts)


def test_an_attack_is_found_wherever_it_stands_among_honest_words():
    honest = "Returns the weather of a city. "
    attacks = flagged("attacks_developed_on")
    inside = [
        text for text in attacks if is_flagged(make_signature(description=f"{honest}\n\n{text}\n\n{honest}"))
    ]
    assert len(inside) >= 0.97 * len(attacks)


def test_ordinary_sentences_with_the_same_words_are_let_through():
    assert len(flagged("ordinary")) <= 0.01 * len(lines("ordinary"))


def test_real_tools_are_let_through():
    tools = real_tools.signatures()
    assert sum(map(is_flagged, tools)) <= 0.005 * len(tools)
