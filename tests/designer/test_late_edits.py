import pytest

from designer import agents, pins, releases, tunings
from designer.errors import DesignerError
from people.models import AuditEntry
from tests.factories import make_agent, make_pin, make_tool

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
    "publish": lambda agent, actor: releases.publish(agent, actor=actor),
    "adopt": lambda agent, actor: agents.create_agent(actor=actor, name="Child", parent=agent),
}


@pytest.mark.parametrize("edit", PIN_EDITS)
def test_pin_that_somebody_removed_meanwhile_is_not_edited(edit, alice, bob):
    pin = make_pin()
    pins.remove_pin(pin, actor=bob)

    with pytest.raises(DesignerError) as late:
        PIN_EDITS[edit](pin, alice)

    assert (late.value.code, late.value.status) == ("pin_removed", 409)


@pytest.mark.parametrize("edit", AGENT_EDITS)
def test_agent_that_somebody_removed_meanwhile_is_not_edited(edit, alice, bob):
    agent = make_agent()
    agents.remove_agent(agent, actor=bob)

    with pytest.raises(DesignerError) as late:
        AGENT_EDITS[edit](agent, alice)

    assert late.value.code in ("agent_removed", "parent_removed")
    assert not AuditEntry.objects.filter(actor=alice).exists()


def test_removed_agents_pins_are_not_edited(alice):
    pin = make_pin()
    agents.remove_agent(pin.agent, actor=alice)

    with pytest.raises(DesignerError, match="has been removed"):
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
        with pytest.raises(DesignerError):
            edit()
