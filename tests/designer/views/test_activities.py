"""The list of activities: its content and its cost."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.tools import definitions
from designer.environments import environments
from execution.activities import operations
from people.models import Role
from protocols.definition import parts_of
from tests.catalog.views.test_activities import mail, user_of
from tests.factories import make_agent, make_pin
from tests.pages import signed_in, text_of

__all__ = ["mail"]
pytestmark = pytest.mark.django_db


def sends(tool, steps):
    inputs = {"email_address": {"input": "to"}, "title": {"value": "x"}, "message": {"value": "x"}}
    return {"steps": [{"tool": tool.pk, "ordinal": 1, "inputs": inputs}] * steps}


def test_the_list_says_where_each_is_bound_and_costs_little_however_long_activities_are(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    actor = user_of(client)
    activity = operations.create(
        actor=actor, name="Once", kind="composite", config=sends(notes, 1), interface=post.current
    )
    agent = make_agent(name="Post room")
    make_pin(agent, post)
    place = environments.create(agent, actor=actor, name="test")
    environments.bind(place, post, actor=actor, activity=activity)
    assert "Post room test" in text_of(client.get("/activities/"))

    with CaptureQueriesContext(connection) as few:
        client.get("/activities/")
    operations.change(activity, actor=actor, config=sends(notes, 20))
    with CaptureQueriesContext(connection) as many:
        client.get("/activities/")
    assert len(many) == len(few)


def test_a_vendor_that_is_gone_stands_in_the_list(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    activity = operations.create(
        actor=user_of(client), name="Once", kind="vendor", config=sends(notes, 1), interface=post.current
    )
    notes.endpoint.removed_at = notes.first_seen_at
    notes.endpoint.save(update_fields=["removed_at"])
    assert "1 fault" in text_of(client.get("/activities/"))
    assert "was removed, so it cannot run" in text_of(client.get(f"/activities/{activity.pk}/"))


def test_the_page_of_one_that_was_removed_says_so(mail):
    post, notes, _ = mail
    client = signed_in(Role.DESIGNER)
    actor = user_of(client)
    activity = operations.create(
        actor=actor, name="Once", kind="composite", config=sends(notes, 1), interface=post.current
    )
    agent = make_agent(name="Post room")
    make_pin(agent, post)
    place = environments.create(agent, actor=actor, name="test")
    environments.bind(place, post, actor=actor, activity=activity)
    page = f"/activities/{activity.pk}/"
    assert client.post(f"{page}remove/").status_code == 302
    page_text = text_of(client.get(page))
    assert f"It was removed By {actor}, just now" in page_text
    assert "Used in" in page_text
    assert "Post room" in page_text
    assert f"{page}change/" not in client.get(page).content.decode()
    assert client.get(f"{page}change/").status_code == 404
    assert client.get("/activities/9999999/").status_code == 404


def test_the_page_of_a_definition_names_the_activities_for_it(django_assert_max_num_queries):
    client = signed_in(Role.DESIGNER)
    document = {
        "type": "object",
        "description": "Tells a user",
        "properties": {"_tool": {"type": "string", "const": "notify"}, "_output": {"type": "object"}},
    }
    row = definitions.define(actor=user_of(client), parts=parts_of(document))
    page = client.get(f"/tools/{row.pk}/")
    assert "Create an implementation" in text_of(page)
    assert f"/activities/new/?interface=tool%3A{row.pk}%3A1" in page.content.decode()
    for name in ("Told by mail", "Told by pigeon"):
        operations.create(actor=user_of(client), name=name, kind="mock", config={}, interface=row.current)
    with django_assert_max_num_queries(13):
        page_text = text_of(client.get(f"/tools/{row.pk}/"))
    for words in ("Implementations:", "Told by mail", "Told by pigeon"):
        assert words in page_text


def test_who_pins_a_definition_is_told_where_it_is_chosen_what_answers(mail):
    post, _, _ = mail
    client = signed_in(Role.DESIGNER)
    document = {
        "type": "object",
        "description": "Tells a user",
        "properties": {"_tool": {"type": "string", "const": "notify"}, "_output": {"type": "object"}},
    }
    row = definitions.define(actor=user_of(client), parts=parts_of(document))

    for tool, is_told in ((row, True), (post, False)):
        pinned = {"agent": "", "agent_name": f"Desk {tool.pk}", "ordinal": "1"}
        page_text = text_of(client.post(f"/tools/{tool.pk}/pin/", pinned, follow=True))
        assert "is pinned to Desk" in page_text
        assert ("Choose its implementation under “Environments”." in page_text) == is_told
