"""Duplicating an agent: what it is made of, and not what it has published."""

from collections.abc import Collection

from catalog.models import Vendor
from core.errors import DomainError
from core.query_deadline import long_transaction
from designer import agent_budgets, agent_vendors, agents, mocks, pins, transfers
from designer.models import Agent, Pin, RehearsalPlan, Transfer
from designer.procedures import editing
from designer.rehearsals import plans
from people.models import User

PREFIX = "Copy of "


@long_transaction()
def copy_agent(agent: Agent, *, actor: User, name: str = "", with_sub_agents: bool = False) -> Agent:
    """A new agent with the same tools, words, procedures and mocks, and on request with copies of all below.

    It is below no other agent, so that no other agent shows anything new because of it. Releases, channels,
    keys, environments and drafts stay with the original. What the agents above it say about vendors holds for
    the copy. Raises DomainError where a tool is of a vendor that may not be used.
    """
    transfers.lock_tree()
    source = agents.locked(agent)
    name = name.strip() or f"{PREFIX}{source.name}"[: agents.MAX_NAME_LENGTH].strip()
    allowed = agent_vendors.of(source).vendors
    vendors = None if allowed is None else allowed.values()
    copies = {source: _made(source, actor, name=name, parent=None, vendors=vendors)}
    new_pins = {pin.pk: copied for pin, copied in _pins(source, copies[source], actor)}
    level = [source] if with_sub_agents else []
    while level:
        below = _sub_agents(level)
        for transfer in below:
            child = agents.locked(transfer.child)
            own = agent_vendors.named_for(child) if child.limits_vendors else None
            above = copies[transfer.agent]
            copies[child] = _made(child, actor, name=child.name, parent=above, vendors=own)
            new_pins |= {pin.pk: copied for pin, copied in _pins(child, copies[child], actor)}
            if transfer.alias or transfer.description:
                worded = Transfer.objects.get(child=copies[child])
                transfers.word_transfer(
                    worded, actor=actor, name=transfer.alias, description=transfer.description
                )
        level = [transfer.child for transfer in below]
    # Last, because a text may refer to any of them.
    known_pins = {old: new.pk for old, new in new_pins.items()}
    known_agents = {old.pk: new.pk for old, new in copies.items()}
    for old, new in copies.items():
        editing.copy_procedures(old, new, actor=actor, pins=known_pins, agents=known_agents)
        mocks.copy_assertions(old, new, actor=actor)
    return copies[source]


def _made(
    source: Agent, actor: User, *, name: str, parent: Agent | None, vendors: Collection[Vendor] | None
) -> Agent:
    why = f"Copied from “{source}”."
    copy = agents.create_agent(
        actor=actor,
        name=name,
        description=source.description,
        parent=parent,
        team=source.team,
        vendors=vendors,
        retry=source.retry,
        why=why,
    )
    if row := agent_budgets.limit_of(source):
        agent_budgets.set_limit(copy, actor=actor, limit=row.tokens, stops=row.stops, why=why)
    plan = plans.of(source)
    if plans.facts(plan) != plans.facts(RehearsalPlan(agent=copy)):
        plans.set_gate(
            copy,
            actor=actor,
            gate=plan.gate,
            at_least=plan.at_least,
            on_flips=plan.on_flips,
            judge=plans.judge_of(plan),
            why=why,
        )
    return copy


def _pins(source: Agent, copy: Agent, actor: User) -> list[tuple[Pin, Pin]]:
    rows = source.pins.live().select_related("agent", "tool__endpoint__vendor", "version", "tuning__against")
    allowed = agent_vendors.of(source)
    for pin in rows:
        if message := allowed.refusal(source, pin.tool, is_pinned=True):
            raise DomainError(agent_vendors.CODE, message, status=409)
    made = [(pin, pins.copy_pin(pin, copy, actor=actor)) for pin in rows]
    for pin, copied in made:
        mocks.copy_mock(pin, copied, actor=actor)
    return made


def _sub_agents(level: list[Agent]) -> list[Transfer]:
    # Those with a chosen name first: a default name that is taken gets a number.
    return sorted(transfers.of(level), key=lambda transfer: not transfer.alias)
