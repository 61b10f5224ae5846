"""Find the calls that share values: the call of an activity, its steps, and what continues them."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from catalog.models import Call


@dataclass(frozen=True, slots=True)
class Relative:
    """A call by its key and that of its tool. origin: the call that it is a step of or continues."""

    pk: int
    tool: int
    origin: int | None


def find_families(calls: Iterable[Call]) -> dict[int, list[Relative]]:
    """Return the family of each of these calls that is a step or may have steps, itself included, by key."""
    linked = {call.pk for call in calls if call.parent_id or call.activity_id}
    if not linked:
        return {}
    relatives: dict[int, Relative] = {}
    to_read = set(linked)
    while to_read:
        rows = _read(Q(pk__in=to_read))
        relatives |= rows
        to_read = {row.origin for row in rows.values() if row.origin} - relatives.keys()
    to_read = set(relatives)
    while to_read:
        rows = _read(Q(parent__in=to_read) | Q(continues__in=to_read))
        to_read = rows.keys() - relatives.keys()
        relatives |= rows
    families: dict[int, list[Relative]] = {}
    for relative in relatives.values():
        families.setdefault(_find_root(relative, relatives), []).append(relative)
    return {pk: families[_find_root(relatives[pk], relatives)] for pk in linked & relatives.keys()}


def _read(condition: Q) -> dict[int, Relative]:
    rows = Call.objects.filter(condition).values_list("pk", "tool_id", "parent_id", "continues_id")
    # A step that continues an earlier step belongs to the family of its parent, too.
    return {pk: Relative(pk, tool, parent or continues) for pk, tool, parent, continues in rows.order_by()}


def _find_root(relative: Relative, relatives: dict[int, Relative]) -> int:
    while relative.origin in relatives:
        relative = relatives[relative.origin]
    return relative.pk
