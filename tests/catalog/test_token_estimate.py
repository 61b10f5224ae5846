"""The token estimate of an untuned tool equals the tokens that the usual format writes."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

import protocols
from catalog.token_estimate import estimate_tokens, tokens_of
from designer import exports
from protocols.list_pages import NoKnownPages
from tests.designer import strategies
from tests.designer.exports import real_tools
from tests.factories import make_parameter, make_signature
from tests.scripted import Exchange, ScriptedSession

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded(protocol):
    scene = json.loads((FIXTURES / protocol.name / "list.json").read_text(encoding="utf-8"))
    session = ScriptedSession(
        *(Exchange(**exchange) for exchange in scene["exchanges"]),
        root=scene.get("root", "https://vendor.example"),
    )
    speaker = protocol(scene.get("settings"))
    return [
        speaker.read(item.document)
        for page in speaker.enumerate(session, NoKnownPages())
        for item in page.items
    ]


def in_full(signature):
    (documents,) = exports.USUAL.write(real_tools.release_of([signature]))
    return estimate_tokens(msgspec.json.encode(documents))


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS, ids=lambda protocol: protocol.name)
def test_recorded_tools_cost_what_is_written_of_them(protocol):
    for signature in recorded(protocol):
        assert tokens_of(signature) == in_full(signature)


def test_tools_of_public_apis_cost_what_is_written_of_them():
    for signature in real_tools.signatures()[::5]:
        assert tokens_of(signature) == in_full(signature)


@settings(max_examples=60)
@given(signature=strategies.any_signatures)
def test_any_tool_costs_what_is_written_of_it(signature):
    assert tokens_of(signature) == in_full(signature)


def test_longer_words_cost_more():
    short = make_signature("forecast", inputs=(make_parameter("city"),))
    long = make_signature("forecast", inputs=(make_parameter("city", description="The city. " * 40),))
    assert tokens_of(long) - tokens_of(short) == pytest.approx(97, abs=3)
