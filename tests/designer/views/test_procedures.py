"""The pages of operating procedures."""

import pytest

from catalog.search import index as search_index
from designer.agents import agents
from designer.models import Procedure, ProcedureDraft
from designer.procedures import editing
from people.models import Role
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user
from tests.module_data import module_data
from tests.pages import signed_in, text_of

LIST = "/agents/desk/procedures/"
PAGE = f"{LIST}refill/"


@module_data
def desk():
    return make_agent(slug="desk", name="Desk")


@module_data
def look_up(desk):
    inputs = (make_parameter("account_id"),)
    return make_pin(agent=desk, tool=make_tool(make_signature("look_up", inputs=inputs)))


@module_data
def refill(look_up):
    actor = make_user(Role.DESIGNER, username="writer")
    return editing.create_procedure(look_up.agent, actor=actor, title="Refill", body="Call look_up().")


@pytest.fixture
def page(db):
    return signed_in(Role.DESIGNER)


def test_new_procedure_opens_in_the_editor_with_the_template(page, desk):
    opened = page.post(LIST, {"title": "Refill a prescription"}, follow=True)
    assert opened.redirect_chain[-1][0] == f"{LIST}refill-a-prescription/"
    assert "## Goal" in opened.content.decode()


def test_editor_shows_names_remarks_and_the_tools_with_required_inputs(page, refill, look_up):
    opened = page.get(PAGE)
    text = text_of(opened)
    assert "Call look_up()." in opened.content.decode()
    assert "“look_up()” needs “account_id”" in text
    # The inputs of a tool are loaded when it is opened.
    card = f"{PAGE}tools/{look_up.pk}/"
    assert f'data-tool="look_up" hx-get="{card}"' in opened.content.decode()
    assert "account_id required" in text_of(page.get(card))
    assert page.get(f"{PAGE}tools/{look_up.pk + 1}/").status_code == 404


def test_the_editor_completes_the_agents_own_tools_with_required_inputs_first(page, refill):
    (tool,) = page.get(f"{PAGE}tools/", {"own": "1"}).json()["tools"]
    (account,) = tool["inputs"]
    assert (tool["name"], account["name"], account["isRequired"]) == ("look_up", "account_id", True)
    assert account["says"].startswith("required · ")


def test_saving_says_what_is_next_and_stores_identities(page, refill, look_up):
    form = {"title": "Refill", "body": "With {account_id}: look_up()", "why": "ids"}
    saved = page.post(PAGE, form, follow=True)
    assert "Publish the agent when you want runtimes to get it." in text_of(saved)
    assert Procedure.objects.get().text == f"With {{item:account_id}}: {{tool:{look_up.pk}}}"


def test_check_keeps_a_draft_that_the_editor_opens_with(page, refill):
    response = page.post(f"{PAGE}check/", {"title": "Refill", "body": "Call look_down().", "based_on": "1"})
    assert "There is no tool called “look_down”" in text_of(response)
    assert Procedure.objects.get().text.startswith("Call {tool:")

    opened = page.get(PAGE)
    assert "This is your unsaved text" in text_of(opened)
    assert "Call look_down()." in opened.content.decode()

    page.post(f"{PAGE}discard/")
    assert "look_down" not in page.get(PAGE).content.decode()
    assert not ProcedureDraft.objects.exists()


def test_saving_settles_the_draft(page, refill):
    page.post(f"{PAGE}check/", {"title": "Refill", "body": "Draft.", "based_on": "1"})
    page.post(PAGE, {"title": "Refill", "body": "Draft."})
    assert not ProcedureDraft.objects.exists()


def test_two_users_see_each_other_and_the_second_to_save_sees_both_texts(page, refill):
    other = signed_in(Role.DESIGNER)
    other.post(f"{PAGE}check/", {"title": "Refill", "body": "Theirs.", "based_on": "1"})
    page_text = text_of(page.post(f"{PAGE}check/", {"title": "Refill", "body": "Mine.", "based_on": "1"}))
    assert "is editing too" in page_text

    expected = page.get(PAGE).context["form"].expected
    other.post(PAGE, {"title": "Refill", "body": "Theirs with look_up()."})
    page_text = text_of(page.post(f"{PAGE}check/", {"title": "Refill", "body": "Mine.", "based_on": "1"}))
    assert "has saved version 2 since you opened this" in page_text

    late = page.post(PAGE, {"title": "Refill", "body": "Mine.", "expected": expected})
    assert late.status_code == 409
    assert "Theirs with look_up()." in text_of(late)
    assert "Mine." in late.content.decode()
    assert Procedure.objects.get().number == 2


def test_a_draft_of_an_older_version_is_a_late_edit(page, refill):
    page.post(f"{PAGE}check/", {"title": "Refill", "body": "Mine.", "based_on": "1"})
    editing.save_procedure(refill, actor=make_user(Role.DESIGNER), body="Theirs.")
    opened = page.get(PAGE)
    late = page.post(PAGE, {"title": "Refill", "body": "Mine.", "expected": opened.context["form"].expected})
    assert late.status_code == 409


def test_what_cannot_be_kept_is_said_beside_the_text_and_loses_nothing(page, refill):
    body = "x" * (editing.MAX_TEXT_LENGTH + 1)
    refused = page.post(PAGE, {"title": "Refill", "body": body})
    assert "60000 is the most" in text_of(refused)
    assert body in refused.content.decode()
    page_text = text_of(page.post(f"{PAGE}check/", {"title": "Refill", "body": body, "based_on": "1"}))
    assert "The text is still in the editor, and is not stored as a draft." in page_text


def test_history_shows_what_a_version_changed_and_restores_it(page, refill):
    page.post(PAGE, {"title": "Refill", "body": "Second text.", "why": "shorter"})
    history = page.get(f"{PAGE}history/")
    assert "shorter" in text_of(history)
    assert "Version 2 compared with version 1" in text_of(history)

    page.post(f"{PAGE}restore/", {"version": "1", "expected": page.get(f"{PAGE}history/").context["state"]})
    refill.refresh_from_db()
    assert (refill.number, refill.versions.first().why) == (3, "Version 1 restored.")


def test_viewers_read_the_text_and_cannot_write(refill):
    viewer = signed_in(Role.VIEWER)
    opened = viewer.get(PAGE)
    assert opened.status_code == 200
    assert "<textarea" not in opened.content.decode()
    assert viewer.post(PAGE, {"title": "Refill", "body": "x"}).status_code == 403


def test_order_is_changed_by_a_press(page, refill):
    editing.create_procedure(refill.agent, actor=make_user(Role.DESIGNER), title="Transfer", body="")
    page.post(f"{LIST}transfer/move/", {"position": "1"})
    assert list(Procedure.objects.values_list("slug", flat=True)) == ["transfer", "refill"]


def test_publishing_is_refused_for_an_error_in_a_procedure(api, refill):
    api.put("/api/v1/agents/desk/procedures/refill/", {"title": "Refill", "body": "Call nothing()."})
    refused = api.post("/api/v1/agents/desk/releases/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "checks_failed")
    (failed,) = [check for check in refused.json()["checks"] if check["severity"] == "error"]
    assert failed["code"] == "unknown_reference"
    assert "“Refill”, line 1" in failed["message"]
    assert failed["where"] == PAGE
    accepted = {"accept": ["unknown_reference"], "reason": "It comes next week."}
    assert api.post("/api/v1/agents/desk/releases/", accepted).status_code == 201


def test_pages_of_an_agent_say_how_far_it_is_from_what_is_live(api, page, refill):
    assert "Not published yet" in text_of(page.get("/agents/desk/changes/"))
    api.post("/api/v1/agents/desk/releases/", {"channel": "live"})
    assert "Release 1 is live" in text_of(page.get("/agents/desk/changes/"))

    page.post(PAGE, {"title": "Refill", "body": "Ask for the account ID. Then call look_up()."})

    page_text = text_of(page.get("/agents/desk/changes/"))
    assert "1 change, +" in page_text
    assert "since release 1" in page_text
    assert "/agents/desk/changes/" in page.get("/agents/desk/").content.decode()


def test_a_tool_that_the_text_names_is_pinned_from_its_remark(page, refill):
    tool = make_tool(make_signature("order_refill"))
    typed = {"title": "Refill", "body": "look_up(), then order_refill()", "based_on": "1"}
    page_html = page.post(f"{PAGE}check/", typed).content.decode()
    assert f'name="tool" value="{tool.pk}"' in page_html

    pinned = page.post(f"{PAGE}pin/", typed | {"tool": tool.pk}, headers={"HX-Request": "true"})

    assert refill.agent.pins.live().get(tool=tool).name == "order_refill"
    assert 'data-tool="order_refill"' in pinned.content.decode()
    assert "and not pinned by this agent" not in text_of(pinned)


def test_without_scripts_pinning_keeps_what_was_typed(page, refill):
    tool = make_tool(make_signature("order_refill"))
    typed = {"title": "Refill", "body": "Now order_refill()", "based_on": "1", "tool": tool.pk}
    opened = page.post(f"{PAGE}pin/", typed, follow=True)
    assert opened.redirect_chain == [(PAGE, 302)]
    assert "Now order_refill()" in text_of(opened)
    refill.refresh_from_db()
    assert refill.number == 1


def test_a_pin_that_is_refused_is_told_beside_the_text(page, refill):
    tool = make_tool(make_signature("look_up"))
    typed = {"title": "Refill", "body": "Call look_up().", "based_on": "1", "tool": tool.pk}
    refused = page.post(f"{PAGE}pin/", typed, headers={"HX-Request": "true"})
    assert 'role="alert"' in refused.content.decode()
    assert not refill.agent.pins.filter(tool=tool).exists()
    withdrawn = page.post(f"{PAGE}pin/", typed | {"tool": 10**9}, headers={"HX-Request": "true"})
    assert "This tool was removed from the catalog" in withdrawn.content.decode()


def test_the_catalog_is_offered_behind_an_at(page, refill, look_up):
    tool = make_tool(make_signature("look.up order", description="Looks up an order."))
    search_index.index_pending()
    (offer,) = page.get(f"{PAGE}tools/", {"q": "look_up"}).json()["tools"]
    assert (offer["tool"], offer["name"]) == (tool.pk, "look_up_order")
    assert "Looks up an order." in offer["says"]
    assert page.get(f"{PAGE}tools/").json() == {"tools": []}

    agents.update_agent(refill.agent, actor=make_user(Role.ADMIN), vendors=[])
    assert page.get(f"{PAGE}tools/", {"q": "look_up"}).json() == {"tools": []}


def test_a_pin_made_from_the_editor_is_announced_and_undone(page, refill):
    tool = make_tool(make_signature("track_parcel"))
    typed = {"title": "Refill", "body": "Call track_parcel().", "based_on": "1"}
    response = page.post(f"{PAGE}pin/", typed | {"tool": tool.pk}, headers={"HX-Request": "true"})
    pin = refill.agent.pins.live().get(tool=tool)
    assert list(response.context["pins_made"]) == [pin]
    assert f'value="{pin.pk}" formnovalidate formaction="{PAGE}unpin/"' in response.content.decode()
    # It is announced for as long as the text is not saved.
    assert list(page.post(f"{PAGE}check/", typed).context["pins_made"]) == [pin]

    undone = page.post(f"{PAGE}unpin/", typed | {"pin": pin.pk}, headers={"HX-Request": "true"})
    assert not refill.agent.pins.live().filter(tool=tool).exists()
    assert list(undone.context["pins_made"]) == []
    assert ProcedureDraft.objects.get().text == "Call track_parcel()."


def test_discarding_a_draft_offers_to_remove_the_pins_made_for_it(page, refill):
    tools = [make_tool(make_signature(name)) for name in ("track_parcel", "weigh_parcel")]
    typed = {"title": "Refill", "body": "Call track_parcel().", "based_on": "1"}
    for tool in tools:
        page.post(f"{PAGE}pin/", typed | {"tool": tool.pk}, headers={"HX-Request": "true"})
    track, weigh = (refill.agent.pins.live().get(tool=tool) for tool in tools)
    # Another procedure uses one of them by now, so that pin has a purpose of its own.
    editing.create_procedure(
        refill.agent, actor=make_user(Role.DESIGNER), title="Parcels", body="weigh_parcel()"
    )

    discarded = page.post(f"{PAGE}discard/", follow=True)
    assert discarded.context["pins_offered"] == [track]
    page.post(f"{PAGE}unpin/", {"pin": [track.pk]})
    assert {pin.pk for pin in refill.agent.pins.live()} & {track.pk, weigh.pk} == {weigh.pk}


def test_pins_of_a_saved_text_stay(page, refill):
    tool = make_tool(make_signature("track_parcel"))
    typed = {"title": "Refill", "body": "Call track_parcel().", "based_on": "1"}
    page.post(f"{PAGE}pin/", typed | {"tool": tool.pk}, headers={"HX-Request": "true"})
    page.post(PAGE, typed)
    discarded = page.post(f"{PAGE}discard/", follow=True)
    assert discarded.context["pins_offered"] == []
    assert refill.agent.pins.live().filter(tool=tool).exists()
