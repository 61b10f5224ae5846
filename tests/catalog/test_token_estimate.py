import json
from pathlib import Path

import pytest

from catalog import protocols
from catalog.protocols.base import NothingKnown, canonical
from catalog.protocols.json import schema as json_schema
from catalog.token_estimate import estimate_tokens, tokens_of
from tests.factories import make_parameter, make_signature
from tests.scripted import Exchange, ScriptedSession

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded(protocol):
    scene = json.loads((FIXTURES / protocol.name / "list.json").read_text(encoding="utf-8"))
    session = ScriptedSession(
        *(Exchange(**each) for each in scene["exchanges"]), root=scene.get("root", "https://vendor.example")
    )
    speaker = protocol(scene.get("settings"))
    return [
        speaker.read(item.document)
        for page in speaker.enumerate(session, NothingKnown())
        for item in page.items
    ]


def in_full(signature):
    asked = json_schema.write(signature.inputs, signature.schema_rest)
    shown = {"name": signature.name, "description": signature.description, "parameters": asked}
    return estimate_tokens(canonical(shown))


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS, ids=lambda each: each.name)
def test_count_is_close_to_that_of_the_written_schema(protocol):
    for signature in recorded(protocol):
        assert tokens_of(signature) == pytest.approx(in_full(signature), rel=0.15, abs=20)


def test_longer_words_cost_more():
    short = make_signature("forecast", inputs=(make_parameter("city"),))
    long = make_signature("forecast", inputs=(make_parameter("city", description="The city. " * 40),))
    assert tokens_of(long) - tokens_of(short) == pytest.approx(97, abs=3)
