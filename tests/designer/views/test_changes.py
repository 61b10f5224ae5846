"""One renderer shows changes on all pages: in sentences, with marked words, and JSON only under “Raw”."""

import re
from html.parser import HTMLParser

import pytest
from django.template.loader import render_to_string
from hypothesis import given

from catalog.models import Finding
from catalog.rules.diff import compare
from catalog.rules.readable_diff import read_change
from core.readable_changes import ReadableChange, describe_change
from designer.pins import pins, tunings
from designer.releases import publishing
from people.models import AuditEntry, Role
from protocols.signature import AllowedValue
from tests.catalog.rules.diff.test_diff import SIGNATURES
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import signed_in_as
from tests.xss import PAYLOADS

FOLDED = re.compile(r'<details class="more.*?</details>', re.DOTALL)
NESTED = {"type": "object", "properties": {"from": {"type": "string"}}}
OLD = make_signature("sky", description="Tells how the sky looks.")
UNIT = make_parameter("unit", type="enum", required=False, allowed_values=(AllowedValue("C", "Celsius"),))
NEW = make_signature(
    "sky",
    description="Tells how the evening sky looks.",
    inputs=(
        make_parameter(default={"from": "here"}),
        UNIT,
        make_parameter("span", type="json", schema=NESTED),
    ),
)
PLACES = ["publish", "roll back", "review", "updates", "versions", "audit"]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture
def pages(db):
    """Follow one change of a tool: the address of each page that shows it."""
    admin = make_user(Role.ADMIN)
    agent = make_agent(slug="desk")
    pin = make_pin(agent, make_tool(OLD))
    publishing.publish(agent, actor=admin, channel="live")
    newer = make_version(pin.tool, NEW)
    browser = signed_in_as(admin)
    updates = browser.get("/agents/desk/upgrades/")
    Finding.objects.create(
        endpoint=pin.tool.endpoint,
        tool=pin.tool,
        version=newer,
        code="DRIFT",
        severity="low",
        subject=newer.digest,
        message="It changed.",
    )
    review = browser.get("/review/")
    Finding.objects.all().delete()
    pin = pins.move_pin(pin, actor=admin, ordinal=newer.ordinal)
    publish = browser.get("/agents/desk/publish/")
    publishing.publish(agent, actor=admin, channel="live", accept=["parameter_without_description"])
    tunings.tune(pin, actor=admin, description="Tells of the sky.")
    tunings.tune(
        pin, actor=admin, description="Tells of the sky.", parameters={"unit": {"description": "How."}}
    )
    entry = AuditEntry.objects.filter(action="tune").latest("pk")
    return {
        "publish": publish,
        "roll back": browser.get("/agents/desk/channels/live/?release=1"),
        "review": review,
        "updates": updates,
        "versions": browser.get(f"/tools/{pin.tool_id}/versions/?from=1&to=2"),
        "audit": browser.get(f"/audit/{entry.pk}/"),
    }


def test_the_six_places_share_one_renderer_and_show_no_json(pages):
    assert list(pages) == PLACES
    for place, page in pages.items():
        assert "_changes.html" in [template.name for template in page.templates], place
        (main,) = re.findall(r"<main.*</main>", page.content.decode(), re.DOTALL)
        assert '<div class="diff-row diff-pair">' in main, place
        assert not re.search(r"[{}]|\[&quot;", FOLDED.sub("", main)), place


def test_a_new_input_is_described_beside_its_sentence(pages):
    for place in ("publish", "review", "updates", "versions"):
        main = pages[place].content.decode()
        assert "Allowed values: C (Celsius)" in main, place
        assert "Tells how the <ins>evening </ins>sky looks." in main, place
        assert "Raw</summary>" in main, place
    assert "Tells how the <del>evening </del>sky looks." in pages["roll back"].content.decode()


def test_an_entry_of_the_trail_has_sentences_and_its_json_only_folded(pages):
    main = pages["audit"].content.decode()
    assert "Inputs, “unit”, description added." in main
    assert "&quot;unit&quot;" in main
    assert "&quot;unit&quot;" not in FOLDED.sub("", main)


@given(SIGNATURES, SIGNATURES)
def test_every_change_of_a_signature_has_a_sentence_without_json(old, new):
    for change in map(read_change, compare(old, new).changes):
        assert change.sentence.endswith(".")
        texts = f"{change.sentence}{change.before or ''}{change.after or ''}"
        # Some tools of the strategy are named “{}”.
        assert not set(texts.replace("{}", "")) & set("{}[]"), change


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_text_stays_text_everywhere_in_a_change(payload):
    inner = [describe_change(payload, payload, {"a": payload}), describe_change("Title", "a", payload)]
    change = ReadableChange(
        sentence=payload, mark="changed", subject=payload, kind="tool", parts=inner, is_open=True
    )
    heading = ReadableChange(subject=payload, is_heading=True)
    page = render_to_string("_changes.html", {"changes": [change, heading]})

    tags = Tags()
    tags.feed(page)
    assert tags.names <= {*("details", "summary", "div", "span", "p", "h3", "pre", "del", "ins", "wbr")}
    assert tags.attributes <= {"class", "open", "tabindex", "title"}
