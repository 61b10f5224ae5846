"""Notifications to designers and runtimes about releases, channels and pins that are behind.

catalog/notifications/events.py has the texts about tools; this module adds their receivers. An agent's
notifications are those of its tree that concern it: a release contains all sub-agents, and an agent shows the
pins of its sub-agents.
"""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy

from catalog.models import Tool
from catalog.notifications import events, kinds, outbox
from catalog.notifications.kinds import EventKind, NotificationText
from catalog.notifications.models import Event, Notice
from core.outbound.errors import printable
from core.translatable import mark
from designer.agents import agents
from designer.models import Agent, ChannelMove, Follow, Pin, Release
from designer.news import following
from designer.releases import channels, publishing
from designer.upgrades import pending_work
from people.models import TEAMS_OF, Role, User

BEHIND = "pin.behind"
MAX_NAMES = 3
MAX_PINS = 20
MAX_NOTE_SHOWN = 300
_RECEIVERS = f"""
    SELECT naming.webhook_id FROM designer_webhookagent naming
    JOIN notifications_webhook hook ON hook.id = naming.webhook_id
    JOIN designer_agent agent ON agent.id = naming.agent_id AND agent.removed_at IS NULL
    LEFT JOIN people_user owner ON owner.id = hook.owner_id
    WHERE naming.agent_id = ANY(%s) AND (hook.owner_id IS NULL OR (owner.is_active AND (
        owner.role = '{Role.ADMIN}' OR agent.team_id IN ({TEAMS_OF.replace("%s", "owner.id")}))))
"""  # noqa: S608 - constant texts
# One statement in the run's transaction, however many tools the run changes.
_AGENTS_BEHIND = """
    SELECT DISTINCT pin.agent_id::text FROM designer_pin pin
    JOIN designer_agent agent ON agent.id = pin.agent_id AND agent.removed_at IS NULL
        AND agent.archived_at IS NULL
    JOIN catalog_tool tool ON tool.id = pin.tool_id AND tool.current_id <> pin.version_id
    WHERE pin.tool_id = ANY(%(tools)s) AND pin.removed_at IS NULL
"""


def notices_of(user: User) -> QuerySet[Notice]:
    """Return the notices sent to the user about agents that they may see now."""
    visible_agents = Agent.objects.visible_to(user).values("pk")
    return user.notices.exclude(told_at=None).filter(Q(agent=None) | Q(agent__in=visible_agents))


def queue_behind_notices(tools: Collection[int]) -> None:
    """Queue notices for agents with these tools. Their pins are compared with the newest versions when the
    notice is written."""
    outbox.add_notices(BEHIND, _AGENTS_BEHIND, {"tools": list(tools)}, outbox.GATHER)


def describe_release(subject: str) -> NotificationText | None:
    release = _find_release(subject)
    if release.agent.removed_at:
        return None
    channel_names = channels.by_release(channels.states(release.agent)).get(release.number, [])
    names = " and ".join(f"“{name}”" for name in channel_names)
    channel_text = (
        f"{names} points to it."
        if len(channel_names) == 1
        else f"{names} point to it."
        if channel_names
        else "No channel points to it yet."
    )
    author, note = printable(str(release.created_by), 150), printable(release.note, MAX_NOTE_SHOWN)
    text = f"{mark(f'By {author}.')} {channel_text} {note}"
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
    title = mark(f"Release {release.number} of “{printable(release.agent.name, 120)}” was published")
    return _build_notice(release.agent, title, text, path, facts)


def describe_move(subject: str) -> NotificationText | None:
    move = _find_move(subject)
    agent = move.channel.agent
    if agent.removed_at:
        return None
    earlier_text = f" Before: release {move.before.number}." if move.before else ""
    mover, note = printable(str(move.moved_by), 150), printable(move.note, MAX_NOTE_SHOWN)
    text = f"{mark(f'{mover} moved it.')}{earlier_text} {note}"
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
    channel, name = move.channel.name, printable(agent.name, 120)
    title = (
        mark(f"“{channel}” of “{name}” now points to release {move.release.number}")
        if move.release
        else mark(f"“{channel}” of “{name}” is closed")
    )
    return _build_notice(agent, title, text, path, facts)


def describe_behind(subject: str) -> NotificationText | None:
    """Describe all pins of the agent that are behind by then, those with the newest vendor change first."""
    agent = Agent.objects.active().filter(pk=subject).first()
    if agent is None:
        return None
    rows = pending_work.only_behind(Pin.objects.active().filter(agent=agent))
    rows = rows.select_related("version", "tool__current").order_by("-tool__changed_at", "pk")
    if not (count := rows.count()):
        return None
    pins = list(rows[:MAX_PINS])
    moves = ", ".join(
        f"“{pin.name}” from {_version_name(pin.version)} to {_version_name(pin.tool.current)}"
        for pin in pins[:MAX_NAMES]
    )
    more = f" And {count - MAX_NAMES:,} more." if count > MAX_NAMES else ""
    text = f"New versions: {moves}." + more
    text += " Pinned versions change only when a designer updates them."
    facts = {
        "count": count,
        "pins": [
            {
                "name": pin.name,
                "tool": pin.tool_id,
                "pinned": _version_name(pin.version),
                "newest": _version_name(pin.tool.current),
            }
            for pin in pins
        ],
    }
    name = printable(agent.name, 120)
    title = mark(f"1 update for “{name}”") if count == 1 else mark(f"{count:,} updates for “{name}”")
    return _build_notice(agent, title, text, f"/agents/{agent.slug}/upgrades/", facts)


def release_readers(subject: str) -> QuerySet[User]:
    release = _find_release(subject)
    return following.followers(_tree_of(release.agent)).exclude(pk=release.created_by_id)


def move_readers(subject: str) -> QuerySet[User]:
    move = _find_move(subject)
    return following.followers(_tree_of(move.channel.agent)).exclude(pk=move.moved_by_id)


def behind_readers(subject: str) -> QuerySet[User]:
    return following.followers(agents.with_all_above([int(subject)]))


def changed_tool_readers(subject: str) -> QuerySet[User]:
    return _tool_readers(events.changed_tools(subject))


def withdrawn_tool_readers(subject: str) -> QuerySet[User]:
    return _tool_readers(events.withdrawn_tools(subject))


def release_webhooks(subject: str) -> Q:
    return _webhooks_for(_tree_of(_find_release(subject).agent))


def move_webhooks(subject: str) -> Q:
    return _webhooks_for(_tree_of(_find_move(subject).channel.agent))


def behind_webhooks(subject: str) -> Q:
    return _webhooks_for(agents.with_all_above([int(subject)]))


def changed_tool_webhooks(subject: str) -> Q:
    return _webhooks_for(agents.with_all_above(_agents_pinning(events.changed_tools(subject))))


def withdrawn_tool_webhooks(subject: str) -> Q:
    return _webhooks_for(agents.with_all_above(_agents_pinning(events.withdrawn_tools(subject))))


def register() -> None:
    kinds.register(
        EventKind(
            name=publishing.PUBLISHED,
            label=gettext_lazy("A release was published"),
            explained=gettext_lazy("For agents that you follow, by other users."),
            to_webhooks=gettext_lazy("For its agents, or all agents if none is selected, by any user."),
            tell=describe_release,
            readers=release_readers,
            receivers=release_webhooks,
            happens_once=True,
        )
    )
    kinds.register(
        EventKind(
            name=channels.MOVED,
            label=gettext_lazy("A channel was moved"),
            explained=gettext_lazy("Runtimes that use the channel get another release."),
            tell=describe_move,
            readers=move_readers,
            receivers=move_webhooks,
            happens_once=True,
        )
    )
    kinds.register(
        EventKind(
            name=BEHIND,
            label=gettext_lazy("An update of a pinned tool"),
            explained=gettext_lazy(
                "A newer version passed review. One message for each agent, at most every hour."
            ),
            tell=describe_behind,
            readers=behind_readers,
            receivers=behind_webhooks,
        )
    )
    kinds.set_recipients(Event.TOOLS_CHANGED, readers=changed_tool_readers, receivers=changed_tool_webhooks)
    kinds.set_recipients(
        Event.TOOLS_WITHDRAWN, readers=withdrawn_tool_readers, receivers=withdrawn_tool_webhooks
    )


def _tool_readers(tools: QuerySet[Tool, int]) -> QuerySet[User]:
    follows = Follow.objects.filter(is_following=True, tool__in=tools)
    through_agents = following.followers(agents.with_all_above(_agents_pinning(tools)))
    return User.objects.filter(Q(pk__in=follows.values("user")) | Q(pk__in=through_agents.values("pk")))


def _webhooks_for(agent_ids: Collection[int]) -> Q:
    webhook_ids = RawSQL(_RECEIVERS, [list(agent_ids)])  # noqa: S611 - constant text
    return Q(owner=None, is_narrowed=False) | Q(is_narrowed=True, pk__in=webhook_ids)


def _agents_pinning(tools: QuerySet[Tool, int]) -> Iterable[int]:
    pins = Pin.objects.active().filter(tool__in=tools).order_by()
    return pins.values_list("agent", flat=True).distinct()


def _tree_of(agent: Agent) -> set[int]:
    return {agent.pk} | {row.pk for row in agents.with_all_below([agent])[agent.pk]}


def _find_release(subject: str) -> Release:
    return Release.objects.select_related("agent", "created_by").defer("document").get(pk=subject)


def _find_move(subject: str) -> ChannelMove:
    rows = ChannelMove.objects.select_related("channel__agent", "moved_by", "before", "release")
    return rows.defer("before__document", "release__document").get(pk=subject)


def _build_notice(
    agent: Agent, title: str, sentence: str, path: str, facts: dict[str, Any]
) -> NotificationText:
    name = printable(agent.name, 120)
    about = {"agent": {"slug": agent.slug, "name": name}}
    return NotificationText(title, sentence.strip(), path, {**about, **facts}, agent=agent.pk)


def _version_name(version: Any) -> str:
    return printable(version.name, 60) if version else ""
