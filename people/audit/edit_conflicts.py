"""Detect that two users edit the same object: the second to save receives the changes of the first.

An editor starts from a state and names it when saving; the name is the `etag` of the facts on the page. If
the facts have changed meanwhile, nothing is written and `LateEditError` contains the differences. The earlier
values come from the audit trail, which stores each change with the members that it replaced.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import Model
from django.utils.translation import gettext as _

from core.errors import DomainError
from people.models import AuditEntry

ANY_STATE = "*"
MAX_CHANGES = 100  # an editor who started before these does not receive the earlier values
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """A member by its path ("policy.breaking"), with its values.

    before: when the editor started; None as well if that is unknown. theirs: now. yours: after saving.
    """

    path: str
    before: Any
    theirs: Any
    yours: Any


class LateEditError(DomainError):
    def __init__(
        self,
        state: str,
        differences: list[Difference],
        *,
        editor_name: str,
        edited_at: datetime | None,
        knows_before: bool,
    ) -> None:
        message = _("{who} has changed this since you opened it. Look at both, then save again.").format(
            who=editor_name
        )
        super().__init__("changed_meanwhile", message, status=409)
        self.state = state
        self.differences = differences
        self.who = editor_name
        self.at = edited_at
        self.knows_before = knows_before


def etag(facts: Facts) -> str:
    """Return the name of a state: equal facts have the same one."""
    encoded = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(encoded.encode()).hexdigest()[:32]


def check(
    target: Model, expected: str, *, now: Facts, submitted: Facts, mask: Callable[[Facts], Facts] = dict
) -> None:
    """Raise LateEditError unless `expected` names the state `now`.

    The caller has locked `target`.
    submitted: the facts after saving.
    mask: a function that returns the facts as people see them.
    """
    state = etag(now)
    # REST without If-Match means any state.
    if expected in (ANY_STATE, state):
        return
    rows = AuditEntry.objects.filter(kind=target._meta.model_name, object_id=str(target.pk)).order_by("-pk")
    # Other entries, such as a removal, do not replace members of these facts.
    changes = [row for row in islice(rows, MAX_CHANGES) if row.before and row.before.keys() <= now.keys()]
    # Undo the changes from `now` backwards, the newest first, until the facts have the expected name.
    facts, before = dict(now), None
    for change in changes:
        facts |= change.before or {}
        if etag(facts) == expected:
            before = facts
            break
    last = changes[0] if changes else None
    raise LateEditError(
        state,
        list(_differences(before, now, submitted, mask)),
        editor_name=last.actor_name if last else _("Another user"),
        edited_at=last.at if last else None,
        knows_before=before is not None,
    )


def _differences(
    before: Facts | None, stored: Facts, yours: Facts, mask: Callable[[Facts], Facts]
) -> Iterator[Difference]:
    states = (before or {}, stored, yours)
    earlier, current, edited = (dict(_flat(state)) for state in states)
    masked = [dict(_flat(mask(state))) if state else {} for state in states]
    for path in sorted(earlier.keys() | current.keys() | edited.keys()):
        # A new value that both users entered is included, if the earlier value is known.
        is_new = before is not None and current.get(path) != earlier.get(path)
        if is_new or current.get(path) != edited.get(path):
            yield Difference(path, *(_value_at(path, state) for state in masked))


def _value_at(path: str, state: Facts) -> Any:
    # A mask may stand for an object with this member.
    while path and path not in state:
        path = path.rpartition(".")[0]
    return state.get(path)


def _flat(facts: Facts, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the members of the facts by path; the members of a nested object one by one."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
