"""What the procedures of an agent may refer to: its pins, its sub-agents, and what the catalog has beside."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from django.db.models import Count, Min
from django.db.models.functions import Lower
from msgspec import UNSET

from catalog.models import Tool
from catalog.models.findings import FindingState
from catalog.models.tools import ToolStatus
from designer import pinned_signatures, transfers
from designer.agents import tree_of
from designer.models import Agent, Pin, Transfer
from designer.procedures.lint import Elsewhere
from designer.procedures.references import (
    AgentState,
    KnownAgent,
    KnownInput,
    KnownOutput,
    KnownTool,
    ToolState,
    Vocabulary,
)
from designer.signatures.effective import Effective
from people.models import User
from protocols.signature import Parameter

_PINS_NAMED = re.compile(r"\{(?:tool:|(?:in|out):)(\d{1,18})")
_AGENTS_NAMED = re.compile(r"\{agent:(\d{1,18})\}")
# Names of what lies inside of a result, this many levels down.
MAX_DEPTH = 4
MAX_NAMES_INSIDE = 200


def of_agent(agent: Agent, *, texts: Collection[str] = ()) -> Vocabulary:
    """`texts` are stored ones: pins and agents that they name and that are gone go by their last name."""
    pins = list(pinned_signatures.pinned([agent]))
    named = {int(found) for text in texts for found in _PINS_NAMED.findall(text)} - {pin.pk for pin in pins}
    removed = Pin.objects.filter(agent=agent, pk__in=named) if named else Pin.objects.none()
    handed = transfers.of([agent])
    ways = {agent.pk: [transfer.child_id for transfer in handed]}
    return of_rows(
        [(pin, pinned_signatures.effective_of(pin)) for pin in pins],
        removed=removed,
        handed=handed,
        gone=gone_agents({agent.pk: texts}, ways).get(agent.pk, ()),
        kept_out=pinned_signatures.kept_out(pins),
    )


def of_rows(
    pins: Iterable[tuple[Pin, Effective]],
    *,
    removed: Iterable[Pin],
    handed: Iterable[Transfer],
    gone: Iterable[KnownAgent],
    kept_out: Mapping[int, tuple[FindingState, str]],
) -> Vocabulary:
    """The same of rows that were read already; `kept_out` as in `pinned_signatures`."""
    tools = []
    for pin, shown in pins:
        state: ToolState = "withdrawn" if pin.tool.status == ToolStatus.WITHDRAWN else ""
        if pin.pk in kept_out:
            state = "blocked" if kept_out[pin.pk][0] == FindingState.BLOCKED else "held"
        tools.append(known_tool(pin, shown, state))
    tools += [KnownTool(pin=pin.pk, name=pin.name, state="removed") for pin in removed]
    return Vocabulary(tools=tuple(tools), agents=(*map(known_agent, handed), *gone))


def known_agent(transfer: Transfer) -> KnownAgent:
    return KnownAgent(id=transfer.child_id, name=transfer.name, title=transfer.child.name)


def gone_agents(
    texts: Mapping[int, Collection[str]], handed: Mapping[int, Collection[int]]
) -> dict[int, tuple[KnownAgent, ...]]:
    """By agent: those that its stored texts name and that are none of `handed`, which it can hand over to."""
    named = {
        pk: {int(found) for text in of for found in _AGENTS_NAMED.findall(text)} - set(handed[pk])
        for pk, of in texts.items()
    }
    wanted: set[int] = set().union(*named.values())
    if not wanted:
        return {}
    teams = dict(Agent.objects.filter(pk__in=named).values_list("pk", "team_id"))
    found = {each.pk: each for each in Agent.objects.filter(pk__in=wanted).select_related("transfer")}
    # An identity may be typed, and what other teams have is not for every reader.
    return {
        pk: tuple(_gone(found[one]) for one in ids if one in found and found[one].team_id == teams[pk])
        for pk, ids in named.items()
    }


def _gone(agent: Agent) -> KnownAgent:
    transfer = getattr(agent, "transfer", None)
    state: AgentState = "removed" if agent.removed_at else "archived" if agent.archived_at else "moved"
    # The transfer of one that was moved has its name beside other tools now.
    name = transfer.name if transfer and state == "archived" else transfers.default_name(agent)
    return KnownAgent(id=agent.pk, name=name, title=agent.name, state=state)


def known_tool(pin: Pin, shown: Effective, state: ToolState = "") -> KnownTool:
    return KnownTool(
        pin=pin.pk,
        name=shown.name,
        wire_name=shown.wire_name,
        description=shown.description,
        inputs=tuple(
            KnownInput(
                id=each.parameter.id,
                name=each.alias,
                is_required=each.is_required,
                is_given=each.parameter.default is not UNSET,
                allowed=tuple(value.name for value in each.parameter.allowed_values),
            )
            for each in shown.inputs
        ),
        outputs=tuple(
            KnownOutput(id=each.parameter.id, name=each.alias, holds=_names_inside(each.parameter))
            for each in shown.outputs
        ),
        hidden=frozenset(each.parameter.id for each in shown.hidden),
        state=state,
    )


def _names_inside(parameter: Parameter) -> tuple[str, ...]:
    """The property names in the schema of a result, down to MAX_DEPTH levels of schemas."""
    names: dict[str, None] = {}
    level: list[object] = [parameter.schema]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for schema in level:
            if isinstance(schema, dict):
                properties = schema.get("properties")
                if isinstance(properties, dict):
                    names |= dict.fromkeys(properties)
                    below += properties.values()
                below.append(schema.get("items"))
        level = below[:MAX_NAMES_INSIDE]
    return tuple(names)[:MAX_NAMES_INSIDE]


def elsewhere(names: Collection[str], agent: Agent, user: User) -> dict[str, Elsewhere]:
    """Where tools of these names (lower case) are that this agent has not pinned, as far as `user` sees."""
    if not names:
        return {}
    found = Tool.objects.filter(
        status=ToolStatus.ACTIVE, endpoint__removed_at=None, endpoint__vendor__removed_at=None
    )
    counted = found.annotate(lower=Lower("name")).filter(lower__in=names).values("lower")
    counts = counted.annotate(count=Count("pk"), first=Min("pk")).order_by()
    tools = {lower: (count, first) for lower, count, first in counts.values_list("lower", "count", "first")}
    pins = Pin.objects.live().visible_to(user).exclude(agent=agent).filter(agent__in=tree_of(agent))
    pinned = pins.annotate(lower=Lower("name")).filter(lower__in=names)
    agents: defaultdict[str, list[str]] = defaultdict(list)
    for name, title in pinned.order_by("agent__name").values_list("lower", "agent__name"):
        agents[name].append(title)
    return {
        name: Elsewhere(tools=count, tool=first, agents=tuple(agents.get(name, ())))
        for name in tools.keys() | agents.keys()
        for count, first in [tools.get(name, (0, None))]
    }
