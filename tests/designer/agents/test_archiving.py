"""An archived agent changes no more and leaves the lists; its releases go on."""

import pytest

from core.errors import DomainError
from designer.agents import agents, transfers
from designer.models import Agent
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import channels, publishing
from designer.upgrades import pending_work
from people.models import AuditEntry, Role
from tests.factories import make_pin, make_tool, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/"


@module_data
def desk(alice):
    """Published, with a tool that is behind by now, above “Refills”, which is above “Orders”."""
    desk = agents.create_agent(actor=alice, name="Desk")
    refills = agents.create_agent(actor=alice, name="Refills", parent=desk)
    agents.create_agent(actor=alice, name="Orders", parent=refills)
    tool = make_tool(name="look_up")
    pins.pin_tool(desk, actor=alice, tool=tool)
    make_version(tool)
    editing.create_procedure(desk, actor=alice, title="Refill", body="look_up(city), transfer_to_refills().")
    publishing.publish(
        desk, actor=alice, channel="live", accept=["input_not_supplied"], reason="It is asked."
    )
    return desk


def agent(slug: str) -> Agent:
    return Agent.objects.get(slug=slug)


def archive(api, slug: str) -> None:
    reply = api.post(f"{URL}{slug}/archive/")
    assert (reply.status_code, bool(reply.json()["archived_at"])) == (200, True), reply.json()


def restore(api, slug: str) -> None:
    reply = api.post(f"{URL}{slug}/restore/")
    assert (reply.status_code, reply.json()["archived_at"]) == (200, None), reply.json()


def list_slugs(api, query: str = "") -> list[str]:
    return [row["slug"] for row in api.get(f"{URL}{query}").json()["results"]]


def test_all_that_is_below_is_archived_and_comes_back_in_one(api, desk):
    archive(api, "desk")

    assert len(set(Agent.objects.values_list("archived_at", flat=True))) == 1
    assert list_slugs(api) == []
    assert list_slugs(api, "?archived=1") == ["desk", "orders", "refills"]

    restore(api, "desk")

    assert list_slugs(api) == ["desk", "orders", "refills"]
    audit_entries = AuditEntry.objects.filter(kind="agent", action__in=["archive", "restore"]).order_by("pk")
    assert [(row.action, row.why) for row in audit_entries] == [
        (action, reason)
        for action in ("archive", "restore")
        for reason in ("", "Together with “Desk”.", "Together with “Desk”.")
    ]


def test_what_was_archived_before_stays_archived(api, desk):
    archive(api, "orders")
    archive(api, "desk")

    reply = api.post(f"{URL}refills/restore/")
    assert (reply.status_code, reply.json()["code"]) == (409, "parent_archived")
    restore(api, "desk")

    assert list_slugs(api) == ["desk", "refills"]
    restore(api, "orders")
    assert list_slugs(api) == ["desk", "orders", "refills"]


def test_nothing_of_an_archived_agent_changes(api, alice, desk):
    archive(api, "desk")
    desk, refills = agent("desk"), agent("refills")
    pin, procedure = desk.pins.get(), desk.procedures.get()
    before = AuditEntry.objects.count()
    edits = [
        lambda: agents.update_agent(desk, actor=alice, name="Front desk"),
        lambda: agents.archive_agent(desk, actor=alice),
        lambda: agents.update_agent(refills, actor=alice, parent=None),
        lambda: pins.pin_tool(desk, actor=alice, tool=make_tool()),
        lambda: pins.move_pin(pin, actor=alice),
        lambda: pins.remove_pin(pin, actor=alice),
        lambda: tunings.tune(pin, actor=alice, description="Ours."),
        lambda: transfers.word_transfer(refills.transfer, actor=alice, name="to_refills"),
        lambda: editing.save_procedure(procedure, actor=alice, body="Other."),
        lambda: editing.create_procedure(desk, actor=alice, title="Second"),
        lambda: publishing.publish(desk, actor=alice),
        lambda: channels.move(desk, "live", actor=alice, release=None),
    ]

    for edit in edits:
        with pytest.raises(DomainError) as refused:
            edit()
        assert (refused.value.code, refused.value.status) == ("agent_archived", 409)

    assert AuditEntry.objects.count() == before
    reply = api.patch(f"{URL}desk/", {"name": "Front desk"})
    assert (reply.status_code, reply.json()["code"]) == (409, "agent_archived")
    assert "POST agents/desk/restore/" in reply.json()["message"]


def test_runtimes_go_on_and_pages_stay_readable(api, runtime_api, desk):
    tools = f"{URL}desk/releases/live/tools/?format=mcp"
    before = runtime_api.get(tools)
    assert before.status_code == 200

    archive(api, "desk")

    assert runtime_api.get(tools).content == before.content
    browser = signed_in(Role.DESIGNER)
    for path in ("", "edit/", "tree/", "upgrades/", "releases/", "releases/1/", "procedures/", "publish/"):
        assert browser.get(f"/agents/desk/{path}").status_code == 200, path
    assert browser.get("/agents/desk/transfers/refills/").status_code == 200
    assert [node.agent.slug for node in browser.get("/agents/desk/tree/").context["tree"].nodes] == [
        "desk",
        "refills",
        "orders",
    ]


def test_its_parent_does_not_hand_over_to_it_until_it_is_back(api, alice, desk):
    transfers.word_transfer(agent("refills").transfer, actor=alice, description="For refills.")
    publishing.publish(desk, actor=alice, accept=["input_not_supplied"], reason="It is asked.")
    assert not api.get(f"{URL}desk/").json()["is_changed"]

    archive(api, "refills")

    assert api.get(f"{URL}desk/").json()["is_changed"]
    assert api.get(f"{URL}desk/transfers/").json()["results"] == []
    tree = signed_in(Role.DESIGNER).get("/agents/desk/tree/").context["tree"]
    assert [node.agent.slug for node in tree.nodes] == ["desk"]
    remarks = api.post(f"{URL}desk/procedures/lint/", {"body": "Then transfer_to_refills()."}).json()
    assert "not_sub_agent" in str(remarks)

    restore(api, "refills")

    (transfer,) = api.get(f"{URL}desk/transfers/").json()["results"]
    assert (transfer["name"], transfer["description"]) == ("transfer_to_refills", "For refills.")
    assert not api.get(f"{URL}desk/").json()["is_changed"]


def test_its_name_beside_its_parents_tools_stays_taken(api, alice, desk):
    archive(api, "refills")

    reply = api.post(f"{URL}desk/pins/", {"tool": make_tool(name="other").pk, "alias": "transfer_to_refills"})

    assert (reply.status_code, reply.json()["code"]) == (409, "alias_taken")


def test_no_agent_goes_below_an_archived_one(api, desk):
    archive(api, "refills")

    response = api.post(URL, {"name": "New", "parent": "refills"})
    api.post(URL, {"name": "Other"})
    moved = api.patch(f"{URL}other/", {"parent": "refills"})

    for reply in (response, moved):
        assert (reply.status_code, reply.json()["code"]) == (409, "parent_archived")
        assert "parent" in reply.json()["fields"]


def test_choices_and_pending_work_leave_it_out(api, alice, desk):
    assert [pin.agent for pin in pending_work.pins_behind(alice)] == [desk]
    make_pin(agent("orders"))
    # Sub-agents are archived with their agent, unless they were published separately.
    assert [row.slug for row in pending_work.agents_to_publish(alice)] == ["desk"]

    archive(api, "desk")

    assert not pending_work.pins_behind(alice).exists()
    assert pending_work.agents_to_publish(alice) == []
    browser = signed_in(Role.DESIGNER)
    assert not browser.get("/agents/").context["form"].fields["parent"].queryset.exists()
    assert "Desk" not in text_of(browser.get(f"/tools/{make_tool().pk}/"))


def test_a_copy_leaves_archived_sub_agents_out(api, desk):
    archive(api, "orders")

    copy = api.post(f"{URL}desk/copy/", {"with_sub_agents": True}).json()["slug"]

    assert [child.name for child in agent(copy).children.all()] == ["Refills"]
    assert not agent(copy).children.get().children.exists()


def test_an_archived_agent_is_removed_without_bringing_it_back(api, desk):
    archive(api, "orders")

    assert api.delete(f"{URL}orders/").status_code == 204
    assert list_slugs(api, "?archived=1") == []


def test_what_is_not_archived_is_not_brought_back(api, desk):
    reply = api.post(f"{URL}desk/restore/")

    assert (reply.status_code, reply.json()["code"]) == (409, "not_archived")
    assert api.get(f"{URL}?archived=yes").json()["fields"].keys() == {"archived"}


def test_the_pages_archive_and_bring_back(desk):
    browser = signed_in(Role.DESIGNER)
    assert "Archive this agent" in text_of(browser.get("/agents/desk/edit/"))

    page = browser.post("/agents/refills/archive/", follow=True)
    assert "“Refills” is archived" in text_of(page)
    assert "Restore" in text_of(page)

    assert "2 archived" in text_of(browser.get("/agents/"))
    page = browser.get("/agents/?archived=1")
    assert [row.slug for _, row in page.context["agents"]] == ["refills", "orders"]
    assert "Archived: Refills" in text_of(browser.get("/agents/desk/"))
    assert "is archived. Restore that agent first" in text_of(
        browser.post("/agents/orders/restore/", follow=True)
    )

    assert "“Refills” was restored" in text_of(browser.post("/agents/refills/restore/", follow=True))
    assert "archived" not in text_of(browser.get("/agents/"))
    assert "No agent is archived" in text_of(browser.get("/agents/?archived=1"))
