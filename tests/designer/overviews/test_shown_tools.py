"""The panel with the tool as the model sees it equals the export, byte for byte.

PEGBOARD_SHOWN=1000 shows so many tools instead of 240, as `make soak ARGS=surfaces` does.
"""

import os
import random
import re
from html import unescape

import pytest

from designer.exports.base import carried
from designer.exports.parts import tools_in
from designer.models import Tuning
from designer.overviews import shown_tools
from designer.pins import tunings
from designer.releases import composition, publishing
from people.models import Role
from protocols.signature import AllowedValue
from tests.designer.exports import real_tools
from tests.designer.exports.formats import OF_TOOLS, raw_tools
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
)
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
TOOLS = int(os.environ.get("PEGBOARD_SHOWN", "240"))
EACH = 6


def varied(number):
    """Signatures of many kinds, the same in every run."""
    chance = random.Random(number)
    inputs = []
    for index in range(chance.randrange(5)):
        kind = chance.choice(["string", "int", "number", "boolean", "enum", "json"])
        more = {}
        if kind == "enum":
            more["allowed_values"] = tuple(
                AllowedValue(name, 'Says « so » \n\t"quoted"') for name in ("OPEN", "NOT_OPEN")
            )
        elif kind == "json":
            more["schema"] = {"type": "array", "items": {"type": "string", "pattern": "^é"}}
        name = chance.choice(["due date", "città", "x", "9lives"]) + str(index)
        inputs.append(make_parameter(name, type=kind, required=chance.random() < 0.5, **more))
    outputs = tuple(make_parameter(f"out {number}") for number in range(chance.randrange(3)))
    return make_signature(
        f"tool_{number}",
        title=chance.choice(["", "A \u2028title"]),
        description=chance.choice(["Short </script>", "long " * 300, "天气 ☂"]),
        inputs=tuple(inputs),
        outputs=outputs,
    )


def test_tools_are_shown_as_their_exports_hold_them():
    all_signatures = real_tools.signatures()
    signatures = all_signatures[:: max(1, 3 * len(all_signatures) // TOOLS)]
    signatures = [*signatures, *(varied(number) for number in range(TOOLS))][:TOOLS]
    for start in range(0, TOOLS, EACH):
        agent, endpoint = make_agent(), make_endpoint()
        for number, signature in enumerate(signatures[start : start + EACH]):
            # Two in ten share the vendor's id; formats distinguish them by their other members.
            tool = make_tool(signature, endpoint=make_endpoint() if number % 10 == 0 else endpoint)
            if number % 5 == 0:
                tool.tool_id = f"shared.{number // 10}"
                tool.save()
            make_pin(agent, tool, name=f"t_{number}_{signature.name}"[:64].replace(" ", "_"))
        format_ = OF_TOOLS[start // EACH % len(OF_TOOLS)]
        carried_release = carried(composition.draft(agent), format_.limits)
        expected = dict(
            zip(
                (tool.signature.name for tool in carried_release.fitting.tools),
                raw_tools(format_.body(carried_release.fitting), format_),
                strict=True,
            )
        )
        for pin in agent.pins.select_related("version", "tool", "agent"):
            shown_tool = shown_tools.shown_tool(pin, format_)
            assert shown_tool.text == expected.get(pin.name, b"")
            assert "".join(span.text for span in shown_tool.spans).encode() == shown_tool.text


@pytest.fixture
def pin():
    units = make_parameter(
        "units",
        type="enum",
        allowed_values=(AllowedValue("metric"), AllowedValue("us")),
        description="How to measure. One of: metric, us.",
    )
    agent = make_agent(slug="desk", name="Desk")
    return make_pin(agent, make_tool(make_signature("forecast", inputs=(make_parameter(), units))))


def url_of(pin, format_="anthropic"):
    return f"/api/v1/agents/desk/pins/{pin.pk}/shown/?format={format_}"


@pytest.mark.parametrize("format_", OF_TOOLS, ids=lambda format_: format_.name)
def test_rest_answers_what_the_release_then_holds(api, pin, format_):
    make_pin(pin.agent, make_tool(make_signature("other")))
    shown_text = api.get(url_of(pin, format_.name)).json()

    release = publishing.publish(pin.agent, actor=make_user(Role.DESIGNER))
    body, _ = publishing.export(release, format_.name, is_partial=True)

    assert shown_text["text"].encode() in raw_tools(body, format_)
    assert shown_text["tokens"] == sum(part["tokens"] for part in shown_text["parts"])
    assert shown_text["agent"]["tokens"] == sum(map(shown_tools.estimate_tokens, raw_tools(body, format_)))
    assert (shown_text["source"], shown_text["date"]) == (format_.limits.source, format_.limits.date)


def test_a_format_that_is_not_there_or_no_text_is_refused(api, pin):
    for name in ("", "klingon", "skill"):
        refused = api.get(url_of(pin, name))
        assert (refused.status_code, refused.json()["code"]) == (400, "unknown_format")


def test_savings_over_rest_save_what_they_say(api, pin):
    before = api.get(url_of(pin)).json()
    (saving,) = before["savings"]
    assert saving["path"] == ["parameters", "units", "description"]
    assert saving["text"] == "How to measure."

    tunings.tune(pin, actor=make_user(Role.DESIGNER), parameters={"units": {"description": saving["text"]}})

    after = api.get(url_of(pin)).json()
    assert before["tokens"] - after["tokens"] == saving["tokens"]
    assert after["savings"] == []


def test_limits_are_said_met_and_broken(api, pin):
    body = api.get(url_of(pin, "a2t")).json()
    assert {limit["state"] for limit in body["limits"]} == {"ok"}

    tunings.tune(pin, actor=make_user(Role.DESIGNER), description="long " * 500)

    body = api.get(url_of(pin, "a2t")).json()
    assert body["text"] == ""
    assert body["limits"][0] == {
        "what": "Characters of the description",
        "has": 2500,
        "allows": 1999,
        "state": "bad",
    }
    assert "description_too_long" in {warning["code"] for warning in body["remarks"]}
    assert body["agent"]["left_out"] == [pin.name]


TYPED = {
    "version": "1",
    "title": "",
    "description": "Only what was typed",
    "description-0": "The city",
    "description-1": "How to measure.",
    "preset-0": "",
    "preset-1": "",
}


def test_the_page_shows_the_saved_state_without_a_script(pin):
    page = signed_in(Role.VIEWER).get(f"/agents/desk/pins/{pin.pk}/?format=anthropic")

    assert page.context["seen"].text.decode() in text_as_copied(page)
    assert "Anthropic messages" in text_of(page)
    assert "Tokens by part" in text_of(page)


def text_as_copied(page):
    (text,) = re.findall(r'<pre [^>]*id="shown-text"[^>]*>(.*?)</pre>', page.content.decode(), re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", text))


def test_the_pane_says_whose_words_each_part_is(pin):
    alice = make_user(Role.DESIGNER)
    tunings.tune(
        pin.tool, actor=alice, description="For all agents", parameters={"city": {"description": "Town"}}
    )
    tunings.tune(pin, actor=alice, parameters={"city": {"name": "place", "description": "Ours"}})

    spans = signed_in(Role.VIEWER).get(f"/agents/desk/pins/{pin.pk}/?format=anthropic").context["seen"].spans
    by_text = {span.text: span.origin for span in spans}

    assert by_text["For all agents"] == "catalog"
    assert by_text["Ours"] == "agent"
    assert by_text['"place"'] == "agent"
    assert by_text["How to measure. One of: metric, us."] == "vendor"
    assert by_text['{"name":"'] == "generated"
    assert "Town" not in by_text


def test_invisible_characters_are_drawn_and_copied_as_they_are(pin):
    tunings.tune(pin, actor=make_user(Role.DESIGNER), description="One\u200btwo")
    page = signed_in(Role.VIEWER).get(f"/agents/desk/pins/{pin.pk}/?format=anthropic").content.decode()
    assert "U+200B" in page
    (exact,) = re.findall(r'data-exact="([^"]*)"', page)
    assert "One\u200btwo" in unescape(exact)


def test_the_pane_follows_what_is_typed_and_keeps_nothing(pin):
    designer = signed_in(Role.DESIGNER)

    pane = designer.post(f"/agents/desk/pins/{pin.pk}/shown/", {**TYPED, "format": "openai-chat"})

    assert "Only what was typed" in text_of(pane)
    assert "One of" not in text_of(pane)
    assert pane["HX-Replace-Url"] == f"/agents/desk/pins/{pin.pk}/?format=openai-chat"
    assert not Tuning.objects.exists()
    # The saved tool equals the shown one.
    address = f"/agents/desk/pins/{pin.pk}/?format=openai-chat"
    saved = designer.post(address, TYPED)
    assert saved["Location"] == address
    assert designer.get(address).context["seen"].text == pane.context["seen"].text


@pytest.mark.parametrize(
    ("wrong", "expected_text"),
    [
        ({"description": ""}, "Enter a text"),
        ({"name-0": "no name"}, "not a name that every model accepts"),
        ({"version": "9"}, "Another user has changed the version"),
    ],
)
def test_mistakes_leave_the_last_good_text(pin, wrong, expected_text):
    pane = signed_in(Role.DESIGNER).post(f"/agents/desk/pins/{pin.pk}/shown/", {**TYPED, **wrong})

    assert pane["HX-Retarget"] == "#shown-says"
    assert "This is the last valid text." in text_of(pane)
    assert expected_text in text_of(pane)


def test_a_saving_is_offered_to_who_can_take_it(pin):
    address = f"/agents/desk/pins/{pin.pk}/?format=anthropic"

    page = signed_in(Role.DESIGNER).get(address)
    assert 'data-restore="id_description-1" data-text="How to measure."' in page.content.decode()
    assert "repeats its allowed values" in text_of(page)
    assert (
        "data-text" not in signed_in(Role.VIEWER).get(f"/agents/desk/pins/{pin.pk}/shown/").content.decode()
    )


def test_the_agents_budget_marks_the_limit(pin):
    format_ = shown_tools.TEXTS["openai-chat"]
    assert (shown_tools.budget(pin.agent, format_).tools, format_.limits.advised_tools) == (1, 128)
    costs = dict.fromkeys(map(str, range(160)), 1)
    budget = shown_tools.FormatBudget(format_, costs, left_out=[], advised=128)
    assert (budget.is_over, budget.filled, budget.mark) == (True, 100, 80)
    assert tools_in(format_.write(composition.tools_of(pin.agent)), format_.places)
