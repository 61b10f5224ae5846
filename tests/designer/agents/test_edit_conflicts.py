import pytest
from rest_framework.test import APIClient

from core.errors import DomainError
from designer.agents import agents
from designer.pins import pins, tunings
from designer.releases import publishing
from people import api_keys
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_pin, make_tool, make_version
from tests.pages import signed_in, text_of

PIN_EDITS = {
    "move": lambda pin, actor: pins.move_pin(pin, actor=actor, ordinal=1),
    "rename": lambda pin, actor: pins.set_alias(pin, actor=actor, alias="other"),
    "remove": lambda pin, actor: pins.remove_pin(pin, actor=actor),
    "tune": lambda pin, actor: tunings.tune(pin, actor=actor, description="Ours"),
    "revert": lambda pin, actor: tunings.revert(pin, actor=actor),
}
AGENT_EDITS = {
    "edit": lambda agent, actor: agents.update_agent(agent, actor=actor, name="Other"),
    "remove": lambda agent, actor: agents.remove_agent(agent, actor=actor),
    "pin": lambda agent, actor: pins.pin_tool(agent, actor=actor, tool=make_tool()),
    "publish": lambda agent, actor: publishing.publish(agent, actor=actor),
    "adopt": lambda agent, actor: agents.create_agent(actor=actor, name="Child", parent=agent),
}


@pytest.mark.parametrize("edit", PIN_EDITS)
def test_pin_that_another_user_removed_meanwhile_is_not_edited(edit, alice, bob):
    pin = make_pin()
    pins.remove_pin(pin, actor=bob)

    with pytest.raises(DomainError) as late:
        PIN_EDITS[edit](pin, alice)

    assert (late.value.code, late.value.status) == ("pin_removed", 409)


@pytest.mark.parametrize("edit", AGENT_EDITS)
def test_agent_that_another_user_removed_meanwhile_is_not_edited(edit, alice, bob):
    agent = make_agent()
    agents.remove_agent(agent, actor=bob)

    with pytest.raises(DomainError) as late:
        AGENT_EDITS[edit](agent, alice)

    assert late.value.code in ("agent_removed", "parent_removed")
    assert not AuditEntry.objects.filter(actor=alice).exists()


def test_removed_agents_pins_are_not_edited(alice):
    pin = make_pin()
    agents.remove_agent(pin.agent, actor=alice)

    with pytest.raises(DomainError, match="has been removed"):
        pins.set_alias(pin, actor=alice, alias="other")


def test_alias_it_already_has_changes_nothing(alice):
    pin = make_pin(alias="mine", name="mine")

    pins.set_alias(pin, actor=alice, alias=" mine ")

    assert not AuditEntry.objects.exists()


def test_tool_without_a_version_is_neither_pinned_nor_tuned(alice):
    tool = make_tool()
    tool.current = None
    tool.save()

    for edit in (
        lambda: pins.pin_tool(make_agent(), actor=alice, tool=tool),
        lambda: tunings.tune(tool, actor=alice, description="Ours"),
    ):
        with pytest.raises(DomainError):
            edit()


@pytest.fixture
def program(bob) -> APIClient:
    _, plain = api_keys.issue(bob, actor=None, name="program", scopes=["design"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client


def differences(answer) -> dict[str, tuple]:
    assert (answer.status_code, answer.json()["code"]) == (409, "changed_meanwhile")
    return {
        change["path"]: (change["before"], change["theirs"], change["yours"])
        for change in answer.json()["changes"]
    }


def test_agent_changed_meanwhile_is_shown_with_both_texts(program, alice):
    agent = make_agent(slug="desk", name="Desk", description="Old")
    etag = program.get("/api/v1/agents/desk/").headers["ETag"]
    agents.update_agent(agent, actor=alice, description="Theirs")
    late = program.patch("/api/v1/agents/desk/", {"description": "Ours"}, headers={"If-Match": etag})
    assert differences(late) == {"description": ("Old", "Theirs", "Ours")}
    now = program.get("/api/v1/agents/desk/").headers["ETag"]
    saved = program.patch("/api/v1/agents/desk/", {"description": "Ours"}, headers={"If-Match": now})
    assert (saved.status_code, saved.json()["description"]) == (200, "Ours")


def test_pin_moved_meanwhile_is_not_moved_back(program, alice):
    pin = make_pin(make_agent(slug="desk"), name="look")
    make_version(pin.tool)
    path = f"/api/v1/agents/desk/pins/{pin.pk}/"
    etag = program.get(path).headers["ETag"]
    pins.move_pin(pin, actor=alice, ordinal=2)
    late = program.patch(path, {"version": 1, "alias": "other"}, headers={"If-Match": etag})
    assert differences(late)["version"] == ("1", "2", "1")
    now = program.get(path).headers["ETag"]
    both = program.patch(path, {"version": 1, "alias": "other"}, headers={"If-Match": now}).json()
    assert (both["version"], both["alias"]) == ("1", "other")


def test_words_changed_meanwhile_are_shown_member_by_member(program, alice):
    pin = make_pin(make_agent(slug="desk"))
    path = f"/api/v1/agents/desk/pins/{pin.pk}/tuning/"
    etag = program.get(path).headers["ETag"]
    tunings.tune(pin, actor=alice, description="Theirs", parameters={"city": {"description": "Where"}})
    late = program.put(path, {"description": "Ours"}, headers={"If-Match": etag})
    differences_found = differences(late)
    assert differences_found["description"] == (None, "Theirs", "Ours")
    assert differences_found["parameters.city.description"] == (None, "Where", None)


@pytest.mark.parametrize(("act", "value"), [("rename", {"alias": "mine"}), ("move", {"ordinal": "1"})])
def test_page_of_a_pin_shows_what_another_user_chose_meanwhile(alice, act, value):
    pin = make_pin(make_agent(slug="desk"), name="look")
    make_version(pin.tool)
    client = signed_in(Role.ADMIN)
    page = f"/agents/desk/pins/{pin.pk}/"
    opened = client.get(page).context["pin_state"]
    pins.move_pin(pin, actor=alice, ordinal=2)
    late = client.post(f"{page}{act}/", {**value, "expected": opened})
    assert late.status_code == 409
    assert "has changed this since you opened it" in text_of(late)
    pin.refresh_from_db()
    assert (pin.alias, pin.version.ordinal) == ("", 2)
    client.post(f"{page}{act}/", {**value, "expected": late.context["pin_state"]})
    pin.refresh_from_db()
    assert (pin.alias, pin.version.ordinal) in (("mine", 2), ("", 1))


def test_page_of_words_keeps_mine_and_takes_theirs_where_i_wrote_nothing(alice):
    pin = make_pin(make_agent(slug="desk"))
    client = signed_in(Role.ADMIN)
    form = client.get(f"/agents/desk/pins/{pin.pk}/").context["form"]
    payload = {name: form[name].value() or "" for name in form.fields} | {"expected": form.expected}
    tunings.tune(pin, actor=alice, parameters={"city": {"description": "Their city"}})
    late = client.post(f"/agents/desk/pins/{pin.pk}/", payload | {"description": "Ours"})
    assert late.status_code == 409
    offered = late.context["form"]
    assert offered["description"].value() == "Ours"
    assert offered["description-0"].value() == "Their city"
    again = {name: offered[name].value() or "" for name in offered.fields} | {"expected": offered.expected}
    assert client.post(f"/agents/desk/pins/{pin.pk}/", again).status_code == 302
    words = tunings.words_of(tunings.tuning_of(pin))
    assert (words.description, words.parameters["city"].description) == ("Ours", "Their city")


def test_page_of_an_agent_is_told_too(alice):
    agent = make_agent(slug="desk", name="Desk")
    client = signed_in(Role.ADMIN)
    form = client.get("/agents/desk/edit/").context["form"]
    values = {name: form[name].value() for name in form.fields}
    payload = {name: value for name, value in values.items() if value} | {"expected": form.expected}
    agents.update_agent(agent, actor=alice, description="Theirs")
    late = client.post("/agents/desk/edit/", payload | {"name": "Help desk"})
    assert late.status_code == 409
    assert late.context["form"]["description"].value() == "Theirs"
    assert late.context["form"]["name"].value() == "Help desk"
