"""What can happen, in one registry: each kind of event with its words and with those who hear of it.

The catalog's own kinds are in events.py. Layers above it register theirs when they are loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Q, QuerySet

from people.models import User


@dataclass(frozen=True, slots=True)
class Told:
    """`facts` are for programs. Text of vendors is bounded and shows what would hide in it. `agent` is the
    primary key of the one agent that it is about."""

    title: str
    says: str
    path: str
    facts: dict[str, Any] = field(default_factory=dict)
    agent: int | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`tell` finds the words in what is true when it is told: None when it is true no longer.

    `readers` are the users who find it among their news, None for those who asked for mail about this kind.
    Mail goes to those of them who asked, or with `mails_all` to all. `receivers` says which webhooks hear of
    it, of those that name the kind; None for those of administrators that name no agent. Each takes the
    subject of the notice, whose form is a matter of the kind. `happens_once` is for a subject that no second
    notice is ever about. `explained` is said to readers, and `to_webhooks` in its place where it would be
    untrue of a webhook.
    """

    name: str
    label: str
    explained: str
    to_webhooks: str = ""
    tell: Callable[[str], Told | None]
    readers: Callable[[str], QuerySet[User]] | None = None
    mails_all: bool = False
    receivers: Callable[[str], Q] | None = None
    happens_once: bool = False


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    KINDS[kind.name] = kind


def heard_by(name: str, *, readers: Callable[[str], QuerySet[User]], receivers: Callable[[str], Q]) -> None:
    """Those who hear of a kind, where a layer above the one that registered it knows that."""
    KINDS[name] = replace(KINDS[name], readers=readers, receivers=receivers)


def choices() -> list[tuple[str, str]]:
    return [(kind.name, kind.label) for kind in KINDS.values()]


def of_agents() -> set[str]:
    """The kinds that webhooks of single agents are told of."""
    return {kind.name for kind in KINDS.values() if kind.receivers}
