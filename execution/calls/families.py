"""Find the calls that share values: a call of an activity and its steps, the calls of one test of a
procedure, and their continuations.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from catalog.models import Call
from execution.calls import call_keys


@dataclass(frozen=True, slots=True)
class Relative:
    """A call by its key and that of its tool. origin: the call that it is a step of or continues.

    mark: as in `Call`.
    """

    pk: int
    tool: int
    origin: int | None
    mark: str


def find_families(calls: Iterable[Call]) -> dict[int, list[Relative]]:
    """Return the family of each of these calls that is a step or may have steps, itself included, by key."""
    linked = {call.pk for call in calls if call.parent_id or call.activity_id}
    if not linked:
        return {}
    relatives: dict[int, Relative] = {}
    to_read = set(linked)
    while to_read:
        rows = _read_relatives(Q(pk__in=to_read))
        relatives |= rows
        to_read = {row.origin for row in rows.values() if row.origin} - relatives.keys()
    keys = {key for mark in {row.mark for row in relatives.values()} for key in call_keys.keys_of_test(mark)}
    relatives |= _read_relatives(Q(key__in=keys)) if keys else {}
    to_read = set(relatives)
    while to_read:
        rows = _read_relatives(Q(parent__in=to_read) | Q(continues__in=to_read))
        to_read = rows.keys() - relatives.keys()
        relatives |= rows
    families: dict[int | str, list[Relative]] = {}
    for relative in relatives.values():
        families.setdefault(_name_family(relative, relatives), []).append(relative)
    return {pk: families[_name_family(relatives[pk], relatives)] for pk in linked & relatives.keys()}


def _read_relatives(condition: Q) -> dict[int, Relative]:
    rows = Call.objects.filter(condition).values_list("pk", "tool_id", "parent_id", "continues_id", "mark")
    # A step that continues an earlier step belongs to the family of its parent, too.
    return {
        pk: Relative(pk, tool, parent or continues, mark)
        for pk, tool, parent, continues, mark in rows.order_by()
    }


def _name_family(relative: Relative, relatives: dict[int, Relative]) -> int | str:
    """Return the name of the test, or the key of the first call."""
    while relative.origin in relatives:
        relative = relatives[relative.origin]
    return call_keys.name_of_test(relative.mark) or relative.pk
