"""What the vendors of a protocol promise about their tools, and when that is broken. Pure.

Which promises a protocol makes is data on its class. A breach is told once, with what was there
before and what is there now. A change that breaks no promise is told, too, where it concerns
users of the tool.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from catalog.rules.diff import Comparison
from protocols.signature import Parameter, Signature

Promise = Literal["locked_versions", "growing_versions", "additive_changes", "unique_names", "stable_ids"]
Severity = Literal["low", "medium", "high"]

# As people read them: what each says, and the codes of the findings that it is broken.
PROMISES: dict[Promise, tuple[str, tuple[str, ...]]] = {
    "locked_versions": ("A published version never changes", ("DRIFT",)),
    "growing_versions": ("Versions only go up", ("VERSION_BACK",)),
    "additive_changes": ("A new version only adds", ("BREAKING",)),
    "unique_names": ("No two tools share a name", ("SAME_NAME",)),
    "stable_ids": ("What keeps its name keeps its id", ("NEW_TOOL_ID", "NEW_PARAMETER_ID")),
}
CODES: tuple[str, ...] = tuple(code for _, codes in PROMISES.values() for code in codes)

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Breach:
    """`waits`: a person has to look at it. `subject`: what makes it the same one when seen again."""

    code: str
    severity: Severity
    subject: str
    message: str
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Update:
    """One tool, before and after an enumeration. Labels are the vendor's own, "" where there are none."""

    old: Signature
    new: Signature
    old_label: str
    new_label: str
    digest: str
    comparison: Comparison


def broken(update: Update, promised: Collection[str]) -> Iterator[Breach]:
    """What is wrong about a changed tool. `DRIFT`, a change under the old label, is raised by the merge."""
    if update.new_label != update.old_label:
        if update.comparison.class_ == "breaking":
            after = update.new_label or "has a new version that"
            used = update.old_label or "the one before"
            message = f"{_named(update.new.name)} {after} breaks agents that use {used}: "
            yield Breach("BREAKING", "medium", update.digest, message + _reasons(update, ("breaking",)))
    elif not update.new_label:
        yield from _changed(update)
    if "stable_ids" in promised:
        yield from _new_ids(update)


def _changed(update: Update) -> Iterator[Breach]:
    # Without version labels any change is allowed, and users of the tool want to know of it.
    effects = update.comparison.effects - {"cosmetic"}
    if not effects:
        return
    is_grave = update.comparison.class_ == "breaking" or "widens_risk" in effects
    reasons = _reasons(update, ("breaking", "notice", "compatible"))
    message = f"{_named(update.new.name)} has changed, and the vendor gives no versions: {reasons}"
    severity: Severity = "medium" if is_grave else "low"
    yield Breach("CHANGED", severity, update.digest, message, waits=is_grave)


def _reasons(update: Update, classes: Sequence[str]) -> str:
    changes = [change for each in classes for change in update.comparison.changes if change.class_ == each]
    more = f" And {len(changes) - SHOWN} more." if len(changes) > SHOWN else ""
    return " ".join(change.sentence for change in changes[:SHOWN]) + more


def _new_ids(update: Update) -> Iterator[Breach]:
    # One breach for all parameters that kept their name and got another id.
    renumbered: list[tuple[Parameter, Parameter]] = []
    sides = ((update.old.inputs, update.new.inputs), (update.old.outputs, update.new.outputs))
    for before, after in sides:
        by_name = {parameter.name: parameter for parameter in before}
        kept = {parameter.id for parameter in after}
        for parameter in after:
            known = by_name.get(parameter.name)
            if known is not None and known.id != parameter.id and known.id not in kept:
                renumbered.append((known, parameter))
    if not renumbered:
        return
    told = ", ".join(
        f"{_named(new.name)} was {_named(old.id)} and is now {_named(new.id)}"
        for old, new in renumbered[:SHOWN]
    )
    more = f", and {len(renumbered) - SHOWN} more" if len(renumbered) > SHOWN else ""
    message = (
        f"Parameters of {_named(update.new.name)} kept their names and got other ids, so a later rename "
        f"cannot be followed: {told}{more}."
    )
    yield Breach("NEW_PARAMETER_ID", "low", update.digest, message)


def same_name(name: str, tool_ids: Sequence[str], count: int) -> Breach:
    """For the tool that came last of `count` that share a name."""
    listed = ", ".join(_named(tool_id) for tool_id in tool_ids[:SHOWN])
    more = f" and {count - SHOWN} more" if count > SHOWN else ""
    message = f"{count} tools of this address are called {_named(name)}: {listed}{more}."
    return Breach("SAME_NAME", "medium", _subject(name), message)


def equal_names(names: Sequence[str]) -> Breach:
    """For tools whose names differ in code points alone."""
    listed = ", ".join(ascii(name) for name in names[:SHOWN])
    message = (
        f"{len(names)} tools of this address are called {_named(names[0])}, in code points that only a "
        f"program can tell apart: {listed}."
    )
    return Breach("SAME_NAME", "medium", _subject(" = ".join(names)), message)


def new_tool_id(name: str, old_id: str, new_id: str) -> Breach:
    message = (
        f"{_named(name)} went away as {_named(old_id)} and came back as {_named(new_id)}. To Pegboard it is "
        "another tool: pins stay on the one that is gone."
    )
    return Breach("NEW_TOOL_ID", "medium", _subject(old_id), message)


def _subject(text: str) -> str:
    return text[:100]


def _named(text: str) -> str:
    return f"“{text[:59]}…”" if len(text) > 60 else f"“{text}”"
