import pytest

from designer.agents import agents, transfers
from designer.models import Transfer
from designer.procedures import checking, editing, references
from designer.releases import composition, draft_review
from people.models import AuditEntry, Role, Team
from tests.factories import make_agent, make_pin, make_signature, make_tool
from tests.module_data import module_data
from tests.pages import signed_in, text_of

URL = "/api/v1/agents/desk/transfers/refills/"
PAGE = "/agents/desk/transfers/refills/"

pytestmark = pytest.mark.django_db


@module_data
def desk():
    return make_agent(slug="desk", name="Front desk")


@module_data
def refills(alice, desk):
    about = "Refills what a doctor prescribed. Knows the pharmacy's hours."
    return agents.create_agent(actor=alice, name="Refills", description=about, parent=desk)


def test_a_sub_agent_comes_with_a_transfer_that_says_what_it_is_for(api, refills):
    transfer = api.get(URL).json()

    assert (transfer["name"], transfer["alias"], transfer["is_worded"]) == ("transfer_to_refills", "", False)
    assert transfer["description"] == "Hand over to Refills: Refills what a doctor prescribed."
    assert api.get("/api/v1/agents/desk/transfers/").json()["results"][0]["child"] == "refills"


def test_the_default_name_is_legal_and_free_beside_the_tools(api, alice, desk):
    make_pin(desk, make_tool(name="Transfer_To_Refills"))
    agents.create_agent(actor=alice, name="Refills", parent=desk)
    long_one = agents.create_agent(actor=alice, name="Long", slug="a-" * 29 + "b", parent=desk)

    assert api.get(URL).json()["name"] == "transfer_to_refills_2"
    assert len(long_one.transfer.name) == 64


def test_a_designer_words_it_and_goes_back_to_the_default(api, refills):
    changed = api.put(URL, {"name": "to_refills", "description": "When a prescription runs out."})

    assert changed.json()["name"] == "to_refills"
    assert changed.json()["description"] == "When a prescription runs out."
    assert api.delete(URL).status_code == 204
    back = api.get(URL).json()
    assert (back["name"], back["is_worded"]) == ("transfer_to_refills", False)
    first, second = AuditEntry.objects.filter(kind="transfer").order_by("pk")
    assert first.after["name"] == second.before["name"] == "to_refills"


def test_an_edit_that_changes_nothing_leaves_no_row(api, refills):
    api.put(URL, {"description": transfers.default_description(refills)})

    assert not AuditEntry.objects.filter(kind="transfer").exists()


@pytest.mark.parametrize(
    ("name", "status", "code", "expected_text"),
    [
        ("two words", 400, "alias_illegal", "Try “two_words”"),
        ("Look_Up", 409, "alias_taken", "is a tool of “Front desk” already. “transfer_Look_Up” is free."),
        ("TRANSFER_TO_BILLING", 409, "alias_taken", "is the transfer to “Billing” already"),
    ],
)
def test_a_name_that_cannot_be_had_is_told_with_one_that_can(
    api, alice, desk, refills, name, status, code, expected_text
):
    make_pin(desk, make_tool(name="look_up"))
    agents.create_agent(actor=alice, name="Billing", parent=desk)

    reply = api.put(URL, {"name": name, "description": "x"})

    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert expected_text in reply.json()["fields"]["name"]


@pytest.mark.parametrize("description", ["a\0b", "x" * 4001])
def test_words_that_cannot_be_kept_are_named(api, refills, description):
    reply = api.put(URL, {"description": description})

    assert reply.status_code == 400
    assert "description" in reply.json()["fields"]


def test_a_tool_cannot_take_the_name_of_a_transfer(api, desk, refills):
    tool = make_tool(make_signature("transfer_to_refills"))

    reply = api.post("/api/v1/agents/desk/pins/", {"tool": tool.pk})

    assert (reply.status_code, reply.json()["code"]) == (409, "name_taken")
    assert "A transfer of “Front desk” is called “transfer_to_refills”." in reply.json()["message"]


def test_a_late_edit_is_told_what_the_first_one_wrote(api, bobs_api, refills):
    opened = api.get(URL).headers["ETag"]
    bobs_api.put(URL, {"description": "Bob's words"})

    late = api.put(URL, {"description": "Mine"}, headers={"If-Match": opened})

    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")


def test_it_follows_the_sub_agent_to_another_parent_and_keeps_its_words(api, alice, refills):
    api.put(URL, {"name": "to_refills", "description": "When it runs out."})
    make_agent(slug="shop")

    api.patch("/api/v1/agents/refills/", {"parent": "shop"})

    assert api.get(URL).status_code == 404
    moved = api.get("/api/v1/agents/shop/transfers/refills/").json()
    assert (moved["name"], moved["description"]) == ("to_refills", "When it runs out.")


def test_a_name_that_is_taken_at_the_new_parent_gives_way(api, refills):
    api.put(URL, {"name": "look_up", "description": "x"})
    make_pin(make_agent(slug="shop"), make_tool(name="look_up"))

    api.patch("/api/v1/agents/refills/", {"parent": "shop"})

    assert api.get("/api/v1/agents/shop/transfers/refills/").json()["name"] == "transfer_to_refills"


def test_a_new_address_gives_the_default_another_name(api, refills):
    api.patch("/api/v1/agents/refills/", {"slug": "repeat-orders"})

    transfer = api.get("/api/v1/agents/desk/transfers/repeat-orders/").json()
    assert transfer["name"] == "transfer_to_repeat_orders"


@pytest.mark.parametrize("leave", ["out", "removed"])
def test_it_is_gone_when_the_sub_agent_leaves(api, refills, leave):
    if leave == "out":
        api.patch("/api/v1/agents/refills/", {"parent": None})
    else:
        api.delete("/api/v1/agents/refills/")

    assert not Transfer.objects.exists()
    assert api.get(URL).status_code == 404


def test_an_agent_does_not_hand_over_to_itself(api, desk):
    assert api.get("/api/v1/agents/desk/transfers/desk/").status_code == 404
    reply = api.patch("/api/v1/agents/desk/", {"parent": "desk"})
    assert (reply.status_code, reply.json()["code"]) == (409, "circular_parent")


def test_a_procedure_names_the_transfer_as_it_is_called_now(api, alice, desk, refills):
    procedure = editing.create_procedure(desk, actor=alice, title="Calls", body="Then transfer_to_refills().")
    assert procedure.text == f"Then {{agent:{refills.pk}}}."

    api.put(URL, {"name": "to_refills", "description": "x"})

    checked = checking.check_agent(desk, alice)
    assert checked.pieces[procedure.pk][1].display_text == "to_refills()"


@pytest.mark.parametrize(
    ("leave", "name", "expected_text"),
    [
        ("archive", "to_refills", "“Refills” is archived"),
        ("remove", "transfer_to_refills", "“Refills” was removed"),
        ("move", "transfer_to_refills", "“Refills” is no sub-agent of this agent any more"),
    ],
)
def test_a_procedure_names_a_sub_agent_that_is_gone(api, alice, desk, refills, leave, name, expected_text):
    api.put(URL, {"name": "to_refills", "description": "x"})
    procedure = editing.create_procedure(desk, actor=alice, title="Calls", body="Then to_refills().")
    stored = procedure.text
    other = make_agent(slug="other", name="Other", parent=desk)
    deeds = {
        "archive": lambda: agents.archive_agent(refills, actor=alice),
        "remove": lambda: agents.remove_agent(refills, actor=alice),
        "move": lambda: agents.update_agent(refills, actor=alice, parent=other),
    }
    deeds[leave]()

    page = signed_in(Role.DESIGNER).get("/agents/desk/procedures/calls/")
    assert f"Then {name}()." in page.content.decode()
    assert expected_text in text_of(page)
    # The shown values are saved unchanged, and a release contains them as well.
    editing.save_procedure(procedure, actor=alice, body=f"Then {name}(). Good.")
    procedure.refresh_from_db()
    assert procedure.text == stored + " Good."
    assert composition.draft(desk).procedures[0].text == f"Then {name}(). Good."
    (failed,) = [
        check for check in draft_review.review_draft(desk, alice).failed if check.code == "not_sub_agent"
    ]
    assert expected_text in failed.message


def test_an_identity_that_is_typed_tells_nothing_of_other_teams(alice, desk):
    hidden = make_agent(slug="hidden", name="Hidden", team=Team.objects.create(name="Far", slug="far"))
    body = f"Then {{agent:{hidden.pk}}}."
    procedure = editing.create_procedure(desk, actor=alice, title="Calls", body=body)

    checked = checking.check_agent(desk, alice)
    assert references.display_text(checked.pieces[procedure.pk]) == body
    assert "Hidden" not in str(checked.remarks)


def test_a_designer_words_it_on_its_page(refills):
    designer = signed_in(Role.DESIGNER)
    page = designer.get(PAGE)
    assert "Hand over to Refills: Refills what a doctor prescribed." in page.content.decode()

    saved = designer.post(
        PAGE,
        {"name": "to_refills", "description": "When it runs out.", "expected": page.context["form"].expected},
    )

    assert saved.status_code == 302
    assert Transfer.objects.get().alias == "to_refills"
    again = designer.post(PAGE, {"name": "no way", "description": "kept as typed"})
    assert "Try “no_way”" in text_of(again)
    assert "kept as typed" in again.content.decode()
    designer.post(f"{PAGE}revert/")
    assert Transfer.objects.get().name == "transfer_to_refills"


def test_the_page_keeps_what_a_late_designer_typed(refills):
    designer = signed_in(Role.DESIGNER)
    opened = designer.get(PAGE).context["form"].expected
    designer.post(PAGE, {"name": "", "description": "Theirs"})

    late = designer.post(PAGE, {"name": "", "description": "Mine", "expected": opened})

    assert late.status_code == 409
    assert "Theirs" in text_of(late)
    assert "Mine" in text_of(late)


def test_a_viewer_reads_it():
    desk = make_agent(slug="desk")
    make_agent(slug="refills", parent=desk)

    page = signed_in(Role.VIEWER).get(PAGE)

    assert page.status_code == 200
    assert '<form class="panel panel-body' not in page.content.decode()
