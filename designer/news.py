"""What designers and runtimes are told: of releases, of channels and of pins that are behind.

What happens to tools is told in the catalog's words (catalog/notifications/events.py), to those who follow
them.

An agent's news are those of the tree that it stands in, as far as they concern it: a release holds all agents
below the one that is published, and an agent above shows what is pinned below it.
"""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from catalog.models import Tool
from catalog.notifications import events, kinds, outbox
from catalog.notifications.kinds import Kind, Told
from catalog.notifications.models import Event, Notice
from core.outbound.errors import printable
from designer import agents, following, pending_work
from designer.models import Agent, ChannelMove, Follow, Pin, Release
from designer.releases import channels, publishing
from people.models import TEAMS_OF, Role, User

BEHIND = "pin.behind"
NAMED = 3
PINS_TOLD = 20
MAX_NOTE_SHOWN = 300
_RECEIVERS = f"""
    SELECT naming.webhook_id FROM designer_webhookagent naming
    JOIN notifications_webhook hook ON hook.id = naming.webhook_id
    JOIN designer_agent agent ON agent.id = naming.agent_id AND agent.removed_at IS NULL
    LEFT JOIN people_user owner ON owner.id = hook.owner_id
    WHERE naming.agent_id = ANY(%s) AND (hook.owner_id IS NULL OR (owner.is_active AND (
        owner.role = '{Role.ADMIN}' OR agent.team_id IN ({TEAMS_OF.replace("%s", "owner.id")}))))
"""  # noqa: S608 - constant texts
# In the transaction of a run this is one statement, however many tools it changes.
_PINNING = """
    SELECT DISTINCT pin.agent_id::text FROM designer_pin pin
    JOIN designer_agent agent ON agent.id = pin.agent_id AND agent.removed_at IS NULL
        AND agent.archived_at IS NULL
    JOIN catalog_tool tool ON tool.id = pin.tool_id AND tool.current_id <> pin.version_id
    WHERE pin.tool_id = ANY(%(tools)s) AND pin.removed_at IS NULL
"""


def told_to(user: User) -> QuerySet[Notice]:
    """What the user was told, of agents that they may see by now."""
    seen = Agent.objects.visible_to(user).values("pk")
    return user.notices.exclude(told_at=None).filter(Q(agent=None) | Q(agent__in=seen))


def pins_may_be_behind(tools: Collection[int]) -> None:
    """Whether they are is looked at when it is told: what is held meanwhile, or moved, is not."""
    outbox.put_each(BEHIND, _PINNING, {"tools": list(tools)}, outbox.GATHER)


def tell_published(subject: str) -> Told | None:
    release = _release(subject)
    if release.agent.removed_at:
        return None
    leading = channels.by_release(channels.states(release.agent)).get(release.number, [])
    leads = "leads" if len(leading) == 1 else "lead"
    where = f"{_quoted(leading)} {leads} to it." if leading else "No channel leads to it yet."
    says = f"By {printable(str(release.created_by), 150)}. {where} {printable(release.note, MAX_NOTE_SHOWN)}"
    facts = {
        "release": {
            "number": release.number,
            "digest": f"sha256:{release.digest}",
            "tools": release.tool_count,
            "published_by": release.created_by.username,
            "published_at": release.created_at.isoformat(),
        }
    }
    path = f"/agents/{release.agent.slug}/releases/{release.number}/"
    return _told(release.agent, f"Release {release.number} of “{{}}” was published", says, path, facts)


def tell_moved(subject: str) -> Told | None:
    move = _move(subject)
    agent = move.channel.agent
    if agent.removed_at:
        return None
    to = f"leads to release {move.release.number}" if move.release else "leads nowhere"
    before = f" It led to release {move.before.number}." if move.before else ""
    note = printable(move.note, MAX_NOTE_SHOWN)
    says = f"{printable(str(move.moved_by), 150)} moved it.{before} {note}"
    facts = {
        "channel": {
            "name": move.channel.name,
            "release": move.release.number if move.release else None,
            "digest": f"sha256:{move.release.digest}" if move.release else None,
            "before": move.before.number if move.before else None,
            "moved_by": move.moved_by.username,
            "moved_at": move.moved_at.isoformat(),
        }
    }
    path = f"/agents/{agent.slug}/channels/{move.channel.name}/"
    return _told(agent, f"“{move.channel.name}” of “{{}}” {to}", says, path, facts)


def tell_behind(subject: str) -> Told | None:
    """All pins of the agent that are behind by then, those first whose vendor has changed them last."""
    agent = Agent.objects.active().filter(pk=subject).first()
    if agent is None:
        return None
    rows = pending_work.behind(Pin.objects.active().filter(agent=agent))
    rows = rows.select_related("version", "tool__current").order_by("-tool__changed_at", "pk")
    if not (count := rows.count()):
        return None
    pins = list(rows[:PINS_TOLD])
    moved = [
        f"“{pin.name}” from {_version(pin.version)} to {_version(pin.tool.current)}" for pin in pins[:NAMED]
    ]
    more = f" And {count - NAMED:,} more." if count > NAMED else ""
    says = f"Their vendors went on: {', '.join(moved)}.{more} Nothing moves until a designer moves it."
    facts = {
        "count": count,
        "pins": [
            {
                "name": pin.name,
                "tool": pin.tool_id,
                "pinned": _version(pin.version),
                "newest": _version(pin.tool.current),
            }
            for pin in pins
        ],
    }
    what = "1 pin of “{}” is behind" if count == 1 else f"{count:,} pins of “{{}}” are behind"
    return _told(agent, what, says, f"/agents/{agent.slug}/upgrades/", facts)


def hear_of_release(subject: str) -> QuerySet[User]:
    release = _release(subject)
    return following.followers(_below(release.agent)).exclude(pk=release.created_by_id)


def hear_of_move(subject: str) -> QuerySet[User]:
    move = _move(subject)
    return following.followers(_below(move.channel.agent)).exclude(pk=move.moved_by_id)


def hear_of_pins(subject: str) -> QuerySet[User]:
    return following.followers(agents.with_all_above([int(subject)]))


def hear_of_changed(subject: str) -> QuerySet[User]:
    return _hear_of_tools(events.changed_tools(subject))


def hear_of_withdrawn(subject: str) -> QuerySet[User]:
    return _hear_of_tools(events.withdrawn_tools(subject))


def receive_of_release(subject: str) -> Q:
    return _receivers(_below(_release(subject).agent))


def receive_of_move(subject: str) -> Q:
    return _receivers(_below(_move(subject).channel.agent))


def receive_of_pins(subject: str) -> Q:
    return _receivers(agents.with_all_above([int(subject)]))


def receive_of_changed(subject: str) -> Q:
    return _receivers(agents.with_all_above(_pinning(events.changed_tools(subject))))


def receive_of_withdrawn(subject: str) -> Q:
    return _receivers(agents.with_all_above(_pinning(events.withdrawn_tools(subject))))


def register() -> None:
    kinds.register(
        Kind(
            name=publishing.PUBLISHED,
            label="A release was published",
            explained="Of an agent that you follow, by another user.",
            to_webhooks="Of its agents, or of every agent where it names none, by any user, you too.",
            tell=tell_published,
            readers=hear_of_release,
            receivers=receive_of_release,
            happens_once=True,
        )
    )
    kinds.register(
        Kind(
            name=channels.MOVED,
            label="A channel was moved",
            explained="Runtimes that ask for it get another release from now on.",
            tell=tell_moved,
            readers=hear_of_move,
            receivers=receive_of_move,
            happens_once=True,
        )
    )
    kinds.register(
        Kind(
            name=BEHIND,
            label="A pin is behind its vendor",
            explained="A newer version was let through. One message for an agent, at most every hour.",
            tell=tell_behind,
            readers=hear_of_pins,
            receivers=receive_of_pins,
        )
    )
    kinds.heard_by(Event.TOOLS_CHANGED, readers=hear_of_changed, receivers=receive_of_changed)
    kinds.heard_by(Event.TOOLS_WITHDRAWN, readers=hear_of_withdrawn, receivers=receive_of_withdrawn)


def _hear_of_tools(tools: QuerySet[Tool, int]) -> QuerySet[User]:
    chosen = Follow.objects.filter(is_following=True, tool__in=tools)
    through_agents = following.followers(agents.with_all_above(_pinning(tools)))
    return User.objects.filter(Q(pk__in=chosen.values("user")) | Q(pk__in=through_agents.values("pk")))


def _receivers(named: Collection[int]) -> Q:
    found = RawSQL(_RECEIVERS, [list(named)])  # noqa: S611 - constant text
    return Q(owner=None, is_narrowed=False) | Q(is_narrowed=True, pk__in=found)


def _pinning(tools: QuerySet[Tool, int]) -> Iterable[int]:
    pins = Pin.objects.active().filter(tool__in=tools).order_by()
    return pins.values_list("agent", flat=True).distinct()


def _below(agent: Agent) -> set[int]:
    return {agent.pk} | {each.pk for each in agents.with_all_below([agent])[agent.pk]}


def _release(subject: str) -> Release:
    return Release.objects.select_related("agent", "created_by").defer("document").get(pk=subject)


def _move(subject: str) -> ChannelMove:
    rows = ChannelMove.objects.select_related("channel__agent", "moved_by", "before", "release")
    return rows.defer("before__document", "release__document").get(pk=subject)


def _told(agent: Agent, title: str, says: str, path: str, facts: dict[str, Any]) -> Told:
    name = printable(agent.name, 120)
    about = {"agent": {"slug": agent.slug, "name": name}}
    return Told(title.format(name), says.strip(), path, {**about, **facts}, agent=agent.pk)


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"“{name}”" for name in names)


def _version(version: Any) -> str:
    return printable(version.name, 60) if version else ""
