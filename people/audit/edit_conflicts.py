"""Two users edit the same thing: the second to save is told what the first one wrote.

An editor starts from a state, named by the `etag` of the facts that were shown, and names it when saving. If
the facts have changed by then, nothing is written and `LateEditError` says who wrote what. The values before
come from the audit trail, which has each change with the members it replaced.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import Model

from core.errors import DomainError
from people.models import AuditEntry

ANY_STATE = "*"
MAX_CHANGES = 100  # changes; an editor who started before those is not told the values of then
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One member, by its path ("policy.breaking"); `before` is None as well where it is not known."""

    path: str
    before: Any
    theirs: Any
    yours: Any


class LateEditError(DomainError):
    def __init__(
        self, state: str, differences: list[Difference], *, who: str, at: datetime | None, knows_before: bool
    ) -> None:
        message = f"{who} has changed this since you opened it. Look at both, then save again."
        super().__init__("changed_meanwhile", message, status=409)
        self.state = state
        self.differences = differences
        self.who = who
        self.at = at
        self.knows_before = knows_before


def etag(facts: Facts) -> str:
    """The same facts twice are the same state."""
    written = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def check(target: Model, expected: str, *, now: Facts, wanted: Facts) -> None:
    """Raises LateEditError unless `now` is the state that `expected` names.

    The caller holds the lock on `target`; `wanted` is what the facts would be after saving.
    """
    state = etag(now)
    # REST without If-Match means any state.
    if expected in (ANY_STATE, state):
        return
    rows = AuditEntry.objects.filter(kind=target._meta.model_name, object_id=str(target.pk)).order_by("-pk")
    # Entries about other things, such as being removed, replace no member of these facts.
    changes = [row for row in islice(rows, MAX_CHANGES) if row.before and row.before.keys() <= now.keys()]
    before = _state_named(expected, now, changes)
    last = changes[0] if changes else None
    raise LateEditError(
        state,
        list(_differences(before, now, wanted)),
        who=last.actor_name if last else "Another user",
        at=last.at if last else None,
        knows_before=before is not None,
    )


def _state_named(expected: str, now: Facts, changes: list[AuditEntry]) -> Facts | None:
    # Goes back from `now`, newest change first, until the facts are those that were seen.
    facts = dict(now)
    for change in changes:
        facts |= change.before or {}
        if etag(facts) == expected:
            return facts
    return None


def _differences(before: Facts | None, theirs: Facts, yours: Facts) -> Iterator[Difference]:
    seen = dict(_flat(before or {}))
    now, wanted = dict(_flat(theirs)), dict(_flat(yours))
    for path in sorted(now.keys() | wanted.keys() | seen.keys()):
        old, other, own = seen.get(path), now.get(path), wanted.get(path)
        # What both wrote alike is shown as well, where it is known to be new.
        if other != own or (before is not None and other != old):
            yield Difference(path, old, other, own)


def _flat(facts: Facts, path: str = "") -> Iterator[tuple[str, Any]]:
    # A member that is itself an object is compared member by member.
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
