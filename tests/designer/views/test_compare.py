"""Differences between tools are marked, and one of the tools is pinned from that page."""

import re

import pytest

from designer.models import Pin
from people.models import Role
from protocols.signature import AllowedValue, Annotations
from tests.factories import make_agent, make_endpoint, make_parameter, make_pin, make_signature, make_tool
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def tools():
    units = [AllowedValue("METRIC"), AllowedValue("US")]
    one = make_signature(
        "forecast",
        description="Finds the weather of tomorrow",
        inputs=(make_parameter("city"), make_parameter("units", type="enum", allowed_values=tuple(units))),
        annotations=Annotations(read_only=True),
    )
    two = make_signature(
        "outlook",
        description="Finds the weather of next week",
        inputs=(
            make_parameter("City", description="The city"),
            make_parameter("units", type="enum", allowed_values=(units[0], AllowedValue("UK"))),
            make_parameter("days", required=False),
        ),
    )
    endpoint = make_endpoint()
    return [make_tool(one, endpoint=endpoint, tokens=90), make_tool(two, endpoint=endpoint, tokens=130)]


def address(tools, more=""):
    return f"/tools/compare/?{'&'.join(f'tool={tool.pk}' for tool in tools)}{more}"


def marked(page):
    return re.findall(r"<mark>(.*?)</mark>", page.content.decode())


def test_words_values_and_facts_that_differ_are_marked(designer, tools):
    page = designer.get(address(tools))

    assert marked(page) == ["tomorrow", "next week", "US", "UK"]
    page_text = text_of(page)
    for fact in ("Effect differs Only reads Not stated", "Tokens differs ~90 ~130 +40"):
        assert fact in page_text
    assert "Version 1" in page_text
    assert "city string required" in page_text
    assert "days only in one — has none string The days" in page_text


def test_only_what_differs_can_be_shown(designer, tools):
    page_text = text_of(designer.get(address(tools, "&only=differences")))

    assert "units differs" in page_text
    assert "The city" not in page_text
    assert "Status" not in page_text
    assert (
        f'href="{address(tools).partition("compare/")[2]}"'.replace("&", "&amp;")
        in designer.get(address(tools, "&only=differences")).content.decode()
    )


def test_over_rest_it_is_said_what_differs(designer, tools):
    body = designer.get(f"/api/v1{address(tools)}").json()

    assert body["differing"] == ["description", "effect", "tokens"]
    assert [(line["name"], line["differs"]) for line in body["inputs"]] == [
        ("city", False),
        ("units", True),
        ("days", True),
    ]


def test_a_tool_is_pinned_from_the_comparison_to_a_chosen_agent(designer, tools):
    make_agent(slug="desk", name="Desk")
    make_agent(slug="other", name="Other")
    page = designer.get(address(tools, "&agent=other")).content.decode()
    assert '<option value="other" selected>' in page
    assert f'formaction="/tools/{tools[1].pk}/pin/"' in page

    pinned = designer.post(
        f"/tools/{tools[1].pk}/pin/", {"agent": "other", "ordinal": 1, "next": address(tools)}, follow=True
    )

    pin = Pin.objects.get()
    assert (pin.agent.slug, pin.tool) == ("other", tools[1])
    assert pinned.redirect_chain == [(address(tools), 302)]
    assert f'<a href="/agents/other/pins/{pin.pk}/">Other</a>' in pinned.content.decode()


def test_what_cannot_be_pinned_has_no_button(designer, tools):
    make_agent(slug="desk")
    withdrawn = make_tool(name="gone", status="withdrawn")

    page = designer.get(address([withdrawn]))

    assert "Withdrawn by its vendor" in text_of(page)
    assert "formaction" not in page.content.decode()
    viewer = signed_in(Role.VIEWER).get(address(tools)).content.decode()
    assert "formaction" not in viewer


def test_many_inputs_and_pins_cost_no_more_queries(designer, tools, django_assert_max_num_queries):
    for _ in range(8):
        make_pin(make_agent(), tools[0])
    many = tuple(make_parameter(f"p{number}", description="It says a lot. " * 40) for number in range(120))
    wide = [make_tool(make_signature("wide", inputs=many)) for _ in range(2)]

    with django_assert_max_num_queries(9):
        page_text = text_of(designer.get(address([*tools, *wide])))

    assert "and 3 more" in page_text


def test_the_agent_that_was_opened_last_is_proposed_wherever_a_tool_is_pinned(designer, tools):
    make_agent(slug="desk", name="Desk")
    make_agent(slug="trips", name="Trips")
    proposal = '<option value="trips" selected>Trips</option>'

    assert proposal not in designer.get(address(tools)).content.decode()
    designer.get("/agents/trips/")

    for page in (address(tools), "/tools/", f"/tools/{tools[0].pk}/"):
        assert proposal in designer.get(page).content.decode()
    assert '<option value="desk" selected>' in designer.get(address(tools, "&agent=desk")).content.decode()


def test_the_agent_that_a_tool_was_pinned_to_is_proposed_for_the_next(designer, tools):
    make_agent(slug="desk", name="Desk")
    make_agent(slug="trips", name="Trips")

    designer.post(f"/tools/{tools[0].pk}/pin/", {"agent": "trips", "ordinal": 1})

    assert '<option value="trips" selected>' in designer.get(address(tools)).content.decode()


def test_an_agent_that_is_archived_is_not_proposed(designer, tools):
    make_agent(slug="desk", name="Desk")
    trips = make_agent(slug="trips", name="Trips")
    designer.get("/agents/trips/")
    type(trips).objects.filter(pk=trips.pk).update(archived_at=trips.created_at)

    assert " selected>" not in designer.get(address(tools)).content.decode()
