import pytest

from designer.agents import agents
from designer.models import Agent, Pin
from designer.overviews import agent_trees
from designer.pins import pins, tunings
from designer.procedures import checking, editing
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_pin, make_tool, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@module_data
def desk():
    return make_agent(slug="desk", name="Desk")


@module_data
def refills(alice, desk):
    return agents.create_agent(actor=alice, name="Refills", parent=desk)


@module_data
def billing(alice, desk):
    return agents.create_agent(actor=alice, name="Billing", parent=desk)


@pytest.fixture
def designer(alice):
    return signed_in(Role.DESIGNER)


def test_each_agent_says_what_it_shows_at_once(alice, designer, desk, refills, billing):
    make_pin(desk, make_tool(name="look_up"))
    make_pin(refills, make_tool(name="refill"))
    editing.create_procedure(refills, actor=alice, title="Refill", body="Call refill(). " * 40)

    page = designer.get("/agents/refills/tree/")

    tree = page.context["tree"]
    assert [(node.agent.name, node.depth) for node in tree.nodes] == [
        ("Desk", 0),
        ("Billing", 1),
        ("Refills", 1),
    ]
    top, empty, below = tree.nodes
    assert [transfer.name for transfer, _ in top.transfers] == ["transfer_to_billing", "transfer_to_refills"]
    assert below.procedures[0][1] >= 140
    assert below.path == top.tokens + below.tokens
    assert tree.tokens == top.tokens + empty.tokens + below.tokens
    assert [row.name for row in tree.largest_path] == ["Desk", "Refills"]
    assert "Largest path" in text_of(page)


def test_the_page_costs_the_same_whatever_the_size_of_the_tree(
    alice, designer, desk, refills, django_assert_max_num_queries
):
    for number in range(6):
        child = agents.create_agent(actor=alice, name=f"Child {number}", parent=refills)
        make_pin(child)
        editing.create_procedure(child, actor=alice, title="Text", body="Say hello.")

    with django_assert_max_num_queries(14):
        assert len(designer.get("/agents/desk/tree/").context["tree"].nodes) == 8


def test_what_is_wrong_with_a_tree_is_said_in_sentences(alice, desk, refills, billing):
    shared = make_tool(name="look_up")
    make_pin(desk, shared)
    make_pin(billing, shared, version=make_version(shared))
    make_pin(billing, make_tool(name="charge"))
    editing.create_procedure(
        desk, actor=alice, title="Calls", body="Hi.\nCall charge(), then transfer_to_billing()."
    )

    problems = {(problem.code, problem.message) for problem in agent_trees.read_tree(desk).problems}

    assert problems == {
        (
            "other_agents_tool",
            "“Calls”, line 2: “charge()” is a tool of “Billing”, and “Desk” does not have it.",
        ),
        ("agent_unreachable", "No procedure says when to transfer to “Refills”."),
        ("tool_twice", "“Desk” and “Billing” both have “look_up”, in different versions."),
    }


def test_a_moved_tool_keeps_version_alias_and_words(api, alice, desk, refills):
    tool = make_tool(name="look_up")
    pin = pins.pin_tool(desk, actor=alice, tool=tool, alias="find")
    tunings.tune(pin, actor=alice, description="Ours")
    make_version(tool)

    moved = api.post(f"/api/v1/agents/desk/pins/{pin.pk}/agent/", {"agent": "refills"})

    assert moved.status_code == 200
    (row,) = Pin.objects.live()
    assert (row.agent, row.pk, row.alias, row.version) == (refills, moved.json()["id"], "find", pin.version)
    assert tunings.tuning_of(row).description == "Ours"
    unpinned, pinned = AuditEntry.objects.filter(kind="pin").order_by("pk")[2:]
    assert (unpinned.action, unpinned.why) == ("unpin", "Moved to “Refills”.")
    assert (pinned.action, pinned.why) == ("pin", "Moved from “Desk”.")


def test_a_tool_that_comes_back_is_what_the_procedures_meant(alice, desk, refills):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="look_up"))
    procedure = editing.create_procedure(desk, actor=alice, title="Calls", body="Say {city}, call look_up().")
    (moved,) = pins.move_to_agent([pin], actor=alice, new_agent=refills)
    codes = [problem.code for problem in agent_trees.read_tree(desk).problems]
    assert codes == ["other_agents_tool", "agent_unreachable"]

    pins.move_to_agent([moved], actor=alice, new_agent=desk)

    assert list(checking.check_agent(desk, alice).remarks[procedure.pk]) == []


def test_a_tool_that_is_pinned_again_is_what_the_procedures_meant(alice, desk):
    tool = make_tool(name="look_up")
    pin = pins.pin_tool(desk, actor=alice, tool=tool, alias="find")
    tunings.tune(pin, actor=alice, description="Ours")
    procedure = editing.create_procedure(desk, actor=alice, title="Calls", body="Say {city}, call find().")
    pins.remove_pin(pin, actor=alice)

    again = pins.pin_tool(desk, actor=alice, tool=tool)

    assert tunings.tuning_of(again) is None
    checked = checking.check_agent(desk, alice)
    assert (checked.remarks[procedure.pk], checked.pieces[procedure.pk][3].display_text) == ([], "look_up()")


@pytest.mark.parametrize(
    ("to", "status", "code"),
    [
        ("desk", 409, "same_agent"),
        ("shop", 400, "other_tree"),
        ("refills", 409, "already_pinned"),
        ("billing", 409, "name_taken"),
        ("none-such", 400, "invalid"),
    ],
)
def test_a_move_that_cannot_be_is_told_and_changes_nothing(api, desk, refills, billing, to, status, code):
    make_agent(slug="shop")
    pin = make_pin(desk, make_tool(name="look_up"))
    make_pin(refills, pin.tool)
    make_pin(billing, make_tool(name="look_up"))

    reply = api.post(f"/api/v1/agents/desk/pins/{pin.pk}/agent/", {"agent": to})

    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert Pin.objects.live().get(pk=pin.pk).agent == desk


def test_ticked_tools_move_together_or_not_at_all(designer, desk, refills, billing):
    free, clashing = make_pin(desk, make_tool(name="free")), make_pin(desk, make_tool(name="taken"))
    make_pin(refills, make_tool(name="taken"))
    both = [free.pk, clashing.pk]

    refused = designer.post("/agents/desk/tree/pins/", {"pins": both, "to": "refills"})

    assert "Another tool of “Refills” is called “taken”" in text_of(refused)
    assert refused.content.decode().count(" checked") == 2
    assert Pin.objects.live().filter(agent=desk).count() == 2
    designer.post("/agents/desk/tree/pins/", {"pins": both, "to": "billing"})
    assert Pin.objects.live().filter(agent=billing).count() == 2


def test_a_taken_name_is_settled_on_the_page(designer, desk, refills):
    pin = make_pin(desk, make_tool(name="look_up"))
    make_pin(refills, make_tool(name="look_up"))

    refused = designer.post("/agents/desk/tree/pins/", {"pins": [pin.pk], "to": "refills"})
    proposal = refused.context["alias"].value()
    designer.post("/agents/desk/tree/pins/", {"pins": [pin.pk], "to": "refills", "alias": proposal})

    assert Pin.objects.live().filter(agent=refills, name=proposal, tool=pin.tool).exists()


def test_moving_nothing_says_what_to_do(designer, desk, refills):
    assert "Select the tools to move." in text_of(designer.post("/agents/desk/tree/pins/", {"to": "refills"}))


def test_an_agent_moves_below_another_and_never_below_itself(designer, desk, refills, billing):
    designer.post("/agents/desk/tree/agents/", {"agent": "billing", "parent": "refills"})
    assert Agent.objects.get(slug="billing").parent == refills

    refused = designer.post("/agents/desk/tree/agents/", {"agent": "refills", "parent": "billing"})

    assert "“Billing” is a sub-agent of “Refills”, so it cannot be its parent." in text_of(refused)
    designer.post("/agents/desk/tree/agents/", {"agent": "refills", "parent": ""})
    assert Agent.objects.get(slug="refills").parent is None


def test_a_pin_of_another_tree_is_no_choice(designer, desk, refills):
    other = make_pin(make_agent(slug="shop"))

    reply = designer.post("/agents/desk/tree/pins/", {"pins": [other.pk], "to": "refills"})

    assert reply.context["form"].errors["pins"]
    assert Pin.objects.live().get().agent.slug == "shop"


def test_a_viewer_reads_the_tree_and_moves_nothing(desk, refills):
    make_pin(desk)

    page = signed_in(Role.VIEWER).get("/agents/desk/tree/").content.decode()

    assert 'id="move"' not in page
    assert "data-drag" not in page
