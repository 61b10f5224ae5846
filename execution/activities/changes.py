"""Compares two versions of an activity and classifies the risk of the change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from catalog.models import ActivityVersion
from catalog.rules.diff import Class
from core.outbound.errors import printable
from execution.activities import interfaces, kinds, pinned_callees

MAX_MEMBERS = 5


@dataclass(frozen=True, slots=True)
class ActivityComparison:
    """The class of the change, and sentences for people, the weightiest first."""

    class_: Class
    sentences: tuple[str, ...]


def compare(before: ActivityVersion, after: ActivityVersion) -> ActivityComparison:
    """Return the change from one version of an activity to another.

    breaking: the newer one needs more inputs, or returns fewer outputs. notice: it runs differently, for
    instance at another address. compatible: it behaves as before.
    """
    broken = []
    if before.interface and after.interface and before.interface_id != after.interface_id:
        reason = interfaces.why_unfit(after.interface.decoded(), before.interface.decoded())
        broken = [reason] if reason else []
    effects = [*_destination_sentences(before, after), *_callee_sentences(before, after)]
    if members := [printable(path, 60) for path in _changed_members(before.config, after.config)]:
        names = ", ".join(members[:MAX_MEMBERS])
        if len(members) > MAX_MEMBERS:
            effects.append(
                _("Its configuration changed: {names} and {count} more.").format(
                    names=names, count=len(members) - MAX_MEMBERS
                )
            )
        else:
            effects.append(_("Its configuration changed: {names}.").format(names=names))
    if before.interface_id != after.interface_id and not broken:
        effects.append(_("It is made for another version of its interface."))
    if broken:
        return ActivityComparison("breaking", (*broken, *effects))
    if effects:
        return ActivityComparison("notice", tuple(effects))
    return ActivityComparison("compatible", (_("It does the same as before."),))


def _destination_sentences(before: ActivityVersion, after: ActivityVersion) -> Iterator[str]:
    old, new = kinds.get(before.kind), kinds.get(after.kind)
    was, now = sorted(set(old.origins(before.config))), sorted(set(new.origins(after.config)))
    if was != now:
        old_places, new_places = (
            ", ".join(printable(origin, 100) for origin in origins) or "nowhere" for origins in (was, now)
        )
        yield _("It sends requests to {new_places} instead of {old_places}.").format(
            new_places=new_places, old_places=old_places
        )
    if sorted(old.credentials(before.config)) != sorted(new.credentials(after.config)):
        yield _("It uses another credential.")
    if list(old.tools(before.config)) != list(new.tools(after.config)):
        yield _("It calls other tools, or other versions of them.")


def _callee_sentences(before: ActivityVersion, after: ActivityVersion) -> Iterator[str]:
    activities = {
        version.pk: kinds.get(version.kind).activities(version.config) for version in (before, after)
    }
    callees = pinned_callees.find_callees(activities)
    was, now = callees.get(before.pk, {}), callees.get(after.pk, {})
    for key in sorted(was.keys() | now.keys()):
        old, new = was.get(key), now.get(key)
        if old == new:
            continue
        name = printable(str((new or old or after).activity), 100)
        if new is None:
            yield _("It does not run the implementation “{name}” any more.").format(name=name)
        elif old is None:
            yield _("It runs the implementation “{name}” too.").format(name=name)
        else:
            yield _("It runs the implementation “{name}” in version {version}, not {old_version}.").format(
                name=name, version=new.number, old_version=old.number
            )


def _changed_members(before: Any, after: Any, path: str = "") -> Iterator[str]:
    if before == after:
        return
    old, new = (dict(enumerate(value)) if isinstance(value, list) else value for value in (before, after))
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield path or "all of it"
        return
    for name in dict.fromkeys([*old, *new]):
        below = f"{path}.{name}" if path else str(name)
        if name in old and name in new:
            yield from _changed_members(old[name], new[name], below)
        else:
            yield below
