"""The registry of kinds of events, with their texts and recipients.

events.py registers the kinds of the catalog. Higher layers register theirs when they are loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.functional import Promise

from people.models import User


@dataclass(frozen=True, slots=True)
class NotificationText:
    """The text of a notification.

    facts: for programs. Vendors' texts in it are bounded and have visible control characters.
    agent: primary key of the only agent that it concerns, or None.
    """

    title: str
    says: str
    path: str
    facts: dict[str, Any] = field(default_factory=dict)
    agent: int | None = None


@dataclass(frozen=True, kw_only=True)
class EventKind:
    """A kind of event. All functions accept the subject of the notice, whose format depends on the kind.

    tell: returns the text from the current state, or None if the notice is not true any more.
    readers: the users who find it in their news. None: the users with a mail subscription to this kind.
    mails_all: mail goes to all readers, not only to those with a subscription.
    receivers: selects among the webhooks with this event. None: administrators' webhooks without agents.
    happens_once: no second notice is ever about the same subject.
    is_for_administrators: only an administrator can act on it.
    explained: the description for readers. to_webhooks: the description for webhooks, if it differs.
    """

    name: str
    label: str | Promise
    explained: str | Promise
    to_webhooks: str | Promise = ""
    tell: Callable[[str], NotificationText | None]
    readers: Callable[[str], QuerySet[User]] | None = None
    mails_all: bool = False
    receivers: Callable[[str], Q] | None = None
    happens_once: bool = False
    is_for_administrators: bool = False


KINDS: dict[str, EventKind] = {}


def register(kind: EventKind) -> None:
    KINDS[kind.name] = kind


def set_recipients(
    name: str, *, readers: Callable[[str], QuerySet[User]], receivers: Callable[[str], Q]
) -> None:
    """Set the recipients of a kind. For a higher layer that knows them."""
    KINDS[name] = replace(KINDS[name], readers=readers, receivers=receivers)


def choices() -> list[tuple[str, str | Promise]]:
    return [(kind.name, kind.label) for kind in KINDS.values()]


def names_for(user: User) -> set[str]:
    """Return the kinds that the user can act on or learns from."""
    return {kind.name for kind in KINDS.values() if user.can_administer or not kind.is_for_administrators}


def agent_kinds() -> set[str]:
    """Return the kinds that webhooks of single agents can receive."""
    return {kind.name for kind in KINDS.values() if kind.receivers}
