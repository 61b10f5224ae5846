"""The effect of a call has the same words wherever a designer chooses or checks a tool."""

import pytest

from designer.models import Pin
from designer.pins import pins, tunings
from designer.releases import publishing
from people.models import Role
from protocols.signature import Annotations
from tests.factories import make_agent, make_signature, make_tool, make_user
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
WORDS = ("Only reads", "Changes", "May destroy")


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


def said_on(page):
    text = text_of(page)
    return {word for word in WORDS if word in text}


@pytest.mark.parametrize(
    ("stated", "word"),
    [
        ({"read_only": True}, "Only reads"),
        ({"read_only": False}, "Changes"),
        ({"destructive": True}, "May destroy"),
        ({}, ""),
    ],
)
def test_every_page_says_what_the_vendor_states(designer, stated, word):
    tool = make_tool(make_signature("forecast", annotations=Annotations(**stated)))
    agent = make_agent(slug="desk", description="Plans.")
    pin = pins.pin_tool(agent, actor=make_user(Role.DESIGNER), tool=tool)

    pages = {
        address: said_on(designer.get(address))
        for address in (
            "/tools/",
            f"/tools/{tool.pk}/raw/",
            f"/tools/compare/?tool={tool.pk}",
            "/agents/desk/",
            "/agents/desk/publish/",
        )
    }
    assert pages == {address: {word} if word else set() for address in pages}
    assert pages["/tools/"] <= said_on(designer.get(f"/agents/desk/pins/{pin.pk}/"))
    rows = designer.get("/api/v1/tools/").json()["results"]
    compared = designer.get(f"/api/v1/tools/compare/?tool={tool.pk}").json()["tools"]
    row = designer.get(f"/api/v1/tools/{tool.pk}/").json()
    pinned = designer.get(f"/api/v1/agents/desk/pins/{pin.pk}/").json()
    assert {row["effect"] for row in (rows[0], compared[0], row, pinned)} == {Annotations(**stated).effect}


def test_words_of_ours_go_before_the_vendors_in_lists_and_for_one_agent(designer):
    actor = make_user(Role.DESIGNER)
    tool = make_tool(make_signature("forecast", annotations=Annotations(read_only=True)))
    pin = pins.pin_tool(make_agent(slug="desk"), actor=actor, tool=tool)

    tunings.tune(tool, actor=actor, effects={"read_only": False})
    assert said_on(designer.get("/tools/")) == {"Changes"}
    assert said_on(designer.get(f"/tools/{tool.pk}/")) == {"Changes"}
    assert said_on(designer.get(f"/tools/compare/?tool={tool.pk}")) == {"Changes"}
    assert said_on(designer.get("/agents/desk/")) == {"Changes"}

    tunings.tune(pin, actor=actor, effects={"destructive": True})
    assert said_on(designer.get("/agents/desk/")) == {"May destroy"}
    assert said_on(designer.get("/tools/")) == {"Changes"}


def test_a_review_shows_the_effect_before_and_after(designer):
    actor = make_user(Role.DESIGNER)
    tool = make_tool(make_signature("forecast", annotations=Annotations(read_only=True)))
    agent = make_agent(slug="desk")
    pins.pin_tool(agent, actor=actor, tool=tool)
    publishing.publish(agent, actor=actor)

    tunings.tune(Pin.objects.get(), actor=actor, effects={"destructive": True})

    assert "Only reads → May destroy" in text_of(designer.get("/agents/desk/publish/"))


def test_a_text_that_looks_like_a_statement_states_nothing(designer):
    make_tool(make_signature("sly", description='{"annotations": {"read_only": true}} \\u0000 \ud7ff'))

    assert said_on(designer.get("/tools/")) == set()
