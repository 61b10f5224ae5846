"""Duplicate the draft of an agent, without its releases."""

from collections.abc import Collection

from catalog.models import Vendor
from core.errors import DomainError
from core.query_deadline import long_transaction
from designer.agents import agent_budgets, agent_vendors, agents, transfers
from designer.environments import mocks
from designer.models import Agent, Pin, RehearsalPlan, Transfer
from designer.models.agents import MAX_NAME_LENGTH
from designer.pins import pins
from designer.procedures import editing
from designer.rehearsals import plans
from people.models import User

PREFIX = "Copy of "


@long_transaction()
def copy_agent(agent: Agent, *, actor: User, name: str = "", with_sub_agents: bool = False) -> Agent:
    """Return a new agent with the same tools, tuned texts, procedures and mocks, on request with copies of
    all sub-agents.

    The copy has no parent, so no other agent shows anything new. Releases, channels, keys, environments and
    drafts stay with the original. The vendor limits of the original's parents apply to the copy. Raises
    DomainError if a tool's vendor is not allowed.
    """
    transfers.lock_tree()
    source = agents.lock_agent(agent)
    name = name.strip() or f"{PREFIX}{source.name}"[:MAX_NAME_LENGTH].strip()
    limits = agent_vendors.allowed_vendors_of(source).vendors
    vendors = None if limits is None else limits.values()
    copies = {source: _create_copy(source, actor, name=name, parent=None, vendors=vendors)}
    new_pins = {pin.pk: copied for pin, copied in _copy_pins(source, copies[source], actor)}
    level = [source] if with_sub_agents else []
    while level:
        # Transfers with a chosen name come first: a default name that is in use gets a number.
        sub_transfers = sorted(transfers.transfers_from(level), key=lambda transfer: not transfer.alias)
        for transfer in sub_transfers:
            child = agents.lock_agent(transfer.child)
            allowed_vendors = agent_vendors.vendors_of(child) if child.limits_vendors else None
            parent = copies[transfer.agent]
            copies[child] = _create_copy(
                child, actor, name=child.name, parent=parent, vendors=allowed_vendors
            )
            new_pins |= {pin.pk: copied for pin, copied in _copy_pins(child, copies[child], actor)}
            if transfer.alias or transfer.description:
                new_transfer = Transfer.objects.get(child=copies[child])
                transfers.word_transfer(
                    new_transfer, actor=actor, name=transfer.alias, description=transfer.description
                )
        level = [transfer.child for transfer in sub_transfers]
    # Procedures come last, because a text may refer to any pin or agent.
    new_pin_ids = {old: new.pk for old, new in new_pins.items()}
    new_agent_ids = {old.pk: new.pk for old, new in copies.items()}
    for old, new in copies.items():
        editing.copy_procedures(old, new, actor=actor, pins=new_pin_ids, agents=new_agent_ids)
        mocks.copy_assertions(old, new, actor=actor)
    return copies[source]


def _create_copy(
    source: Agent, actor: User, *, name: str, parent: Agent | None, vendors: Collection[Vendor] | None
) -> Agent:
    reason = f"Copied from “{source}”."
    copy = agents.create_agent(
        actor=actor,
        name=name,
        description=source.description,
        parent=parent,
        team=source.team,
        vendors=vendors,
        retry=source.retry,
        why=reason,
    )
    if row := agent_budgets.limit_of(source):
        agent_budgets.set_limit(copy, actor=actor, limit=row.tokens, stops=row.stops, why=reason)
    plan = plans.plan_of(source)
    if plans.facts(plan) != plans.facts(RehearsalPlan(agent=copy)):
        plans.set_gate(
            copy,
            actor=actor,
            gate=plan.gate,
            at_least=plan.at_least,
            on_flips=plan.on_flips,
            judge=plans.judge_of(plan),
            why=reason,
        )
    return copy


def _copy_pins(source: Agent, copy: Agent, actor: User) -> list[tuple[Pin, Pin]]:
    rows = source.pins.live().select_related("agent", "tool__endpoint__vendor", "version", "tuning__against")
    allowed = agent_vendors.allowed_vendors_of(source)
    for pin in rows:
        if message := allowed.refusal(source, pin.tool, is_pinned=True):
            raise DomainError(agent_vendors.CODE, message, status=409)
    copies = [(pin, pins.copy_pin(pin, copy, actor=actor)) for pin in rows]
    for pin, copied in copies:
        mocks.copy_mock(pin, copied, actor=actor)
    return copies
