"""A duplicated agent has what the original is made of, and nothing that it has published."""

import msgspec
import pytest

from designer.agents import agent_budgets, agents, transfers
from designer.environments import environments, mocks
from designer.models import Agent, Pin
from designer.pins import pins, tunings
from designer.procedures import editing, references, vocabulary
from designer.releases import publishing
from execution.activities import operations
from people.models import AuditEntry, Role
from tests.clients import signed_in as api_of
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_version
from tests.module_data import module_data
from tests.pages import signed_in

pytestmark = pytest.mark.django_db


@module_data
def desk(alice):
    """Hands over to “Refills”; its tool is behind, and has another name and a tuned text."""
    desk = agents.create_agent(actor=alice, name="Desk", description="Answers the phone.")
    agent_budgets.set_limit(desk, actor=alice, limit=9_000)
    refills = agents.create_agent(actor=alice, name="Refills", parent=desk)
    transfers.word_transfer(refills.transfer, actor=alice, name="to_refills", description="For refills.")
    tool = make_tool(name="look_up")
    pin = pins.pin_tool(desk, actor=alice, tool=tool, alias="find_account")
    make_version(tool)
    tunings.tune(pin, actor=alice, description="Finds an account.")
    pins.pin_tool(refills, actor=alice, tool=make_tool(name="refill"))
    removed_pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="old_one"))
    body = "Call find_account(city). Then old_one(), then to_refills() for {account_id}."
    editing.create_procedure(desk, actor=alice, title="Refill", body=body)
    editing.create_procedure(refills, actor=alice, title="Order", body="Call refill().")
    pins.remove_pin(removed_pin, actor=alice)
    publishing.publish(desk, actor=alice, channel="live", accept=["not_pinned"], reason="It returns.")
    return desk


def copy_of(api, **payload) -> Agent:
    reply = api.post("/api/v1/agents/desk/copy/", payload)
    assert reply.status_code == 201, reply.json()
    return Agent.objects.get(slug=reply.json()["slug"])


def procedure_texts(agent: Agent) -> list[str]:
    """The procedures as they are read, in their order."""
    rows = list(agent.procedures.live())
    known_names = vocabulary.vocabulary_of(agent, texts=[row.text for row in rows])
    return [references.display_text(references.parse(row.text, known_names)) for row in rows]


def test_a_copy_has_mocks_and_assertions_of_its_own_and_no_environment(api, alice, desk):
    pin = desk.pins.live().get()
    config = {"seed": 4, "situations": [{"name": "slow", "switch": True}]}
    mocked = mocks.save(pin, actor=alice, config=config).activity
    environments.bind(
        environments.create(desk, actor=alice, name="test"), pin.tool, actor=alice, activity=mocked
    )
    never = [{"is": "never", "tool": name} for name in ("find_account", "refill")]
    mocks.set_assertions(desk, actor=alice, documents=never)

    copy, tree = copy_of(api), copy_of(api, with_sub_agents=True)

    for copied, asserted in ((copy, never[:1]), (tree, never)):
        own_mock = mocks.mock_of_pin(copied.pins.live().get()).activity
        assert own_mock != mocked
        assert operations.current(own_mock).config == operations.current(mocked).config
        assert msgspec.to_builtins(mocks.assertions_of(copied)) == asserted
        assert not copied.environments.exists()


def test_a_mock_that_does_not_fit_any_more_goes_along_as_it_is(api, alice, desk):
    tool = make_tool(make_signature("weigh", outputs=(make_parameter("grams", type="int"),)))
    pin = pins.pin_tool(desk, actor=alice, tool=tool)
    mocks.save(pin, actor=alice, config={"examples": [{"outputs": {"grams": 5}}]})
    make_version(tool, make_signature("weigh", outputs=(make_parameter("kilos", type="int"),)))
    Pin.objects.filter(pk=pin.pk).update(version=tool.versions.order_by("ordinal").last())

    copy = copy_of(api)

    (copied,) = (mocked_tool for mocked_tool in mocks.mocked_tools(copy) if mocked_tool.pin.name == "weigh")
    assert set(copied.problems) == {"examples.0.outputs"}


def test_a_copy_has_tools_words_and_procedures_of_its_own(api, desk):
    copy = copy_of(api)

    assert (copy.name, copy.slug, copy.description) == ("Copy of Desk", "copy-of-desk", "Answers the phone.")
    original, pin = desk.pins.live().get(), copy.pins.live().get()
    assert (pin.version, pin.alias, pin.name) == (original.version, "find_account", "find_account")
    assert pin.version != pin.tool.current
    assert tunings.facts(tunings.tuning_of(pin)) == tunings.facts(tunings.tuning_of(original))
    procedure = copy.procedures.get()
    assert procedure.text == (
        f"Call {{in:{pin.pk}/city}}. Then old_one(), then to_refills() for {{item:account_id}}."
    )
    assert {row.pin_id for row in procedure.references.exclude(pin=None)} == {pin.pk}
    assert (copy.token_limit.tokens, copy.token_limit.stops) == (9_000, False)
    assert not copy.releases.exists()
    assert not copy.channels.exists()
    assert not copy.children.exists()


def test_its_sub_agents_are_copied_on_request(api, desk):
    copy = copy_of(api, name="Night desk", with_sub_agents=True)

    child = copy.children.get()
    assert (child.name, child.slug, child.transfer.name) == ("Refills", "refills-2", "to_refills")
    assert child.transfer.description == "For refills."
    assert procedure_texts(copy) == procedure_texts(desk)
    assert f"{{agent:{child.pk}}}" in copy.procedures.get().text
    assert child.procedures.get().text == f"Call {{tool:{child.pins.get().pk}}}."


def test_a_change_of_the_copy_leaves_the_original_as_it_is(api, alice, desk):
    before = (list(desk.pins.values()), list(desk.procedures.values()))
    copy = copy_of(api)

    tunings.tune(copy.pins.get(), actor=alice, description="Other words.")
    pins.set_alias(copy.pins.get(), actor=alice, alias="seek")

    assert (list(desk.pins.values()), list(desk.procedures.values())) == before
    assert tunings.tuning_of(desk.pins.live().get()).description == "Finds an account."
    assert procedure_texts(copy)[0].startswith("Call seek(city)")
    assert procedure_texts(desk)[0].startswith("Call find_account(city)")


def test_each_row_of_the_copy_is_audited(api, desk):
    copy = copy_of(api, with_sub_agents=True)

    audit_entries = AuditEntry.objects.filter(agent=copy.pk).order_by("pk")
    assert [(row.kind, row.action, row.why) for row in audit_entries] == [
        ("agent", "create", "Copied from “Desk”."),
        ("agent", "edit", "Copied from “Desk”."),
        ("pin", "pin", "Copied from “Desk”."),
        ("pin", "tune", "Copied from “Desk”."),
        ("transfer", "edit", ""),
        ("procedure", "create", "Copied from “Desk”."),
    ]
    pinned = AuditEntry.objects.filter(kind="pin", action="pin").values_list("object_id", flat=True)
    assert {str(pin.pk) for pin in Pin.objects.all()} <= set(pinned)


def test_names_of_transfers_stay_apart_from_tools_and_from_each_other(api, alice):
    """A default name of a copy is made from its own address, which may be what the original calls another."""
    desk = make_agent(slug="desk", name="Desk")
    billing = agents.create_agent(actor=alice, name="Billing", parent=desk)
    other = agents.create_agent(actor=alice, name="Other", parent=desk)
    make_pin(desk, make_tool(name="transfer_to_zoo_2"))
    zoo = agents.create_agent(actor=alice, name="Zoo", parent=desk)
    transfers.word_transfer(other.transfer, actor=alice, name="transfer_to_billing_2")
    assert {billing.transfer.name, zoo.transfer.name} == {"transfer_to_billing", "transfer_to_zoo"}

    copy = copy_of(api, with_sub_agents=True)

    assert {row.child.name: row.name for row in copy.transfers.all()} == {
        "Billing": "transfer_to_billing_2_2",
        "Other": "transfer_to_billing_2",
        "Zoo": "transfer_to_zoo_2_2",
    }


def test_a_copy_of_a_sub_agent_is_below_no_other_agent(api, alice, desk):
    reply = api.post("/api/v1/agents/refills/copy/", {})

    assert reply.json() | {"created_at": None} == {
        "slug": "copy-of-refills",
        "name": "Copy of Refills",
        "description": "",
        "parent": None,
        "team": "everyone",
        "pins": 1,
        "release": None,
        "is_changed": True,
        "vendors": None,
        "usable_vendors": None,
        "retry": None,
        "give_up_after_seconds": None,
        "attempts": None,
        "created_at": None,
        "archived_at": None,
    }
    assert desk.transfers.count() == 1


@pytest.mark.parametrize(
    ("payload", "field"),
    [({"name": "x" * 121}, "name"), ({"name": "de\u202esk"}, "name"), ({"nam": "x"}, "nam")],
)
def test_bad_input_makes_nothing(api, desk, payload, field):
    reply = api.post("/api/v1/agents/desk/copy/", payload)

    assert (reply.status_code, list(reply.json()["fields"])) == (400, [field])
    assert Agent.objects.count() == 2


def test_a_viewer_copies_nothing(desk):
    assert api_of(Role.VIEWER).post("/api/v1/agents/desk/copy/", {}).status_code == 403


def test_the_page_of_an_agent_duplicates_it(desk):
    browser = signed_in(Role.DESIGNER)
    page = browser.get("/agents/desk/edit/")
    assert page.context["copying"]["name"].value() == "Copy of Desk"

    page = browser.post(
        "/agents/desk/copy/", {"copy-name": "Night desk", "copy-with_sub_agents": "on"}, follow=True
    )

    assert page.context["agent"].name == "Night desk"
    assert page.context["agent"].children.count() == 1


def test_the_page_keeps_what_was_typed_and_says_what_is_wrong(desk):
    page = signed_in(Role.DESIGNER).post("/agents/desk/copy/", {"copy-name": "de\u202esk"})

    assert page.context["copying"].errors["name"]
    assert page.context["form"]["name"].value() == "Desk"
    assert Agent.objects.count() == 2
