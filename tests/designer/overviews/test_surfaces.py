"""Tuned tools have the same texts on every surface (V8).

PEGBOARD_SURFACES=200 tries so many instead of 16, which hold every mixture of words.
"""

import os

import pytest
from django.test import Client

from designer.pins import tunings
from tests.designer.exports.formats import OF_TOOLS
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool
from tests.pages import text_of

COUNT = int(os.environ.get("PEGBOARD_SURFACES", "16"))
URL = "/api/v1/agents/desk"
# Owners of texts about the tool and about its input. The agent's replace the catalog's, and those replace the
# vendor's.
OWNERS = ("agent", "catalog", "vendor")


def text_for(number, what, owner):
    return f"[{owner} says of {what} {number}]"


def writers_of(number, what, owners):
    """Return the owners of texts about this one: every mixture occurs."""
    turn = number if what == "tool" else number // 4
    return {owner for bit, owner in enumerate(owners) if turn >> bit & 1}


def tune(target, number, owner, actor):
    words = {
        what: text_for(number, what, owner)
        for what in ("tool", "input")
        if owner in writers_of(number, what, OWNERS[:2])
    }
    if words:
        parameters = {"city": {"description": words["input"]}} if "input" in words else {}
        tunings.tune(target, actor=actor, description=words.get("tool"), parameters=parameters)


@pytest.fixture
def pins(alice):
    agent, pins_by_number = make_agent(slug="desk", name="Desk"), {}
    for number in range(COUNT):
        city = make_parameter("city", description=text_for(number, "input", "vendor"))
        signature = make_signature(
            f"tool_{number}", description=text_for(number, "tool", "vendor"), inputs=(city,)
        )
        pin = make_pin(agent, make_tool(signature))
        tune(pin.tool, number, "catalog", alice)
        tune(pin, number, "agent", alice)
        pins_by_number[number] = pin
    return pins_by_number


def expected(number):
    """Return the texts that must be shown, and those that must not."""
    shown_words, not_shown = set(), set()
    for what in ("tool", "input"):
        having = {*writers_of(number, what, OWNERS[:2]), "vendor"}
        best = next(owner for owner in OWNERS if owner in having)
        shown_words.add(text_for(number, what, best))
        not_shown |= {text_for(number, what, owner) for owner in having - {best}}
    return shown_words, not_shown


def faults(surface, text, numbers):
    for number in numbers:
        shown_words, not_shown = expected(number)
        yield from ((surface, words, "missing") for words in shown_words if words not in text)
        yield from ((surface, words, "shown") for words in not_shown if words in text)


def test_tuned_tools_say_the_same_everywhere(api, runtime_api, alice, pins):
    assert api.post(f"{URL}/releases/", {"note": "All", "channel": "live"}, format="json").status_code == 201
    surfaces = {
        format_.name: runtime_api.get(
            f"{URL}/releases/live/tools/", {"format": format_.name}
        ).content.decode()
        for format_ in OF_TOOLS
    }
    assert len(surfaces) >= 5
    faults_found = [fault for name, text in surfaces.items() for fault in faults(name, text, pins)]
    browser = Client()
    browser.force_login(alice)
    for number, pin in pins.items():
        document = api.get(f"{URL}/pins/{pin.pk}/").json()
        faults_found += faults("REST", str(document["effective"]), [number])
        if not number % 4:
            page = text_of(browser.get(f"/agents/desk/pins/{pin.pk}/"))
            faults_found += [fault for fault in faults("page", page, [number]) if fault[2] == "missing"]
    assert faults_found == []
