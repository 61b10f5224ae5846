"""The promises of a protocol about its vendors' tools, and the breaches of them. Pure.

The promises of a protocol are data of its class. A breach is reported once, with the state before and after.
Changes that break no promise are reported too if they concern users of the tool.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from catalog.rules.diff import SignatureDifference
from core.translatable import mark as _
from protocols.signature import Parameter, Signature

Promise = Literal["locked_versions", "growing_versions", "additive_changes", "unique_names", "stable_ids"]
Severity = Literal["low", "medium", "high"]

# The text of each promise, and the codes of the findings that report a breach.
PROMISES: dict[Promise, tuple[str, tuple[str, ...]]] = {
    "locked_versions": (_("A published version never changes"), ("DRIFT",)),
    "growing_versions": (_("Versions only go up"), ("VERSION_BACK",)),
    "additive_changes": (_("A new version only adds"), ("BREAKING",)),
    "unique_names": (_("No two tools share a name"), ("SAME_NAME",)),
    "stable_ids": (_("A tool with the same name keeps its id"), ("NEW_TOOL_ID", "NEW_PARAMETER_ID")),
}
CODES: tuple[str, ...] = tuple(code for _text, codes in PROMISES.values() for code in codes)

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken promise.

    subject: identifies the breach when it is found again. waits: a user must review it.
    """

    code: str
    severity: Severity
    subject: str
    message: str
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Update:
    """One tool before and after an enumeration. Labels are the vendor's version labels, "" without one."""

    old: Signature
    new: Signature
    old_label: str
    new_label: str
    digest: str
    comparison: SignatureDifference


def find_breaches(update: Update, promised_rules: Collection[str]) -> Iterator[Breach]:
    """Yield the breaches of a changed tool. The merge reports `DRIFT`, a change under the old label."""
    if update.new_label != update.old_label:
        if update.comparison.class_ == "breaking":
            tool, new_name, old_name = _quote(update.new.name), update.new_label, update.old_label
            message = f"A new version of {tool} breaks agents that use the one before: "
            if new_name and old_name:
                message = f"Version {new_name} of {tool} breaks agents that use version {old_name}: "
            yield Breach(
                "BREAKING", "medium", update.digest, message + _change_sentences(update, ("breaking",))
            )
    elif not update.new_label and (effects := update.comparison.effects - {"cosmetic"}):
        # A change without version labels is allowed, and matters to users of the tool.
        is_serious = update.comparison.class_ == "breaking" or "widens_risk" in effects
        reasons = _change_sentences(update, ("breaking", "notice", "compatible"))
        message = f"{_quote(update.new.name)} has changed, and the vendor gives no versions: {reasons}"
        severity: Severity = "medium" if is_serious else "low"
        yield Breach("CHANGED", severity, update.digest, message, waits=is_serious)
    if "stable_ids" in promised_rules:
        yield from _changed_parameter_ids(update)


def _change_sentences(update: Update, classes: Sequence[str]) -> str:
    changes = [
        change for class_ in classes for change in update.comparison.changes if change.class_ == class_
    ]
    more = f" And {len(changes) - SHOWN} more." if len(changes) > SHOWN else ""
    return " ".join(change.sentence for change in changes[:SHOWN]) + more


def _changed_parameter_ids(update: Update) -> Iterator[Breach]:
    """Report all parameters with the same name and another id in one breach."""
    renumbered: list[tuple[Parameter, Parameter]] = []
    sides = ((update.old.inputs, update.new.inputs), (update.old.outputs, update.new.outputs))
    for before, after in sides:
        by_name = {parameter.name: parameter for parameter in before}
        new_ids = {parameter.id for parameter in after}
        for parameter in after:
            earlier = by_name.get(parameter.name)
            if earlier is not None and earlier.id != parameter.id and earlier.id not in new_ids:
                renumbered.append((earlier, parameter))
    if not renumbered:
        return
    pairs = ", ".join(
        f"{_quote(new.name)} was {_quote(old.id)} and is now {_quote(new.id)}"
        for old, new in renumbered[:SHOWN]
    )
    more = f", and {len(renumbered) - SHOWN} more" if len(renumbered) > SHOWN else ""
    message = (
        f"Parameters of {_quote(update.new.name)} have the same names and other ids, so Pegboard cannot "
        f"follow a later rename: {pairs}{more}."
    )
    yield Breach("NEW_PARAMETER_ID", "low", update.digest, message)


def same_name(name: str, tool_ids: Sequence[str], count: int) -> Breach:
    """Report the last of `count` tools that share a name."""
    quoted_ids = ", ".join(_quote(tool_id) for tool_id in tool_ids[:SHOWN])
    more = f" and {count - SHOWN} more" if count > SHOWN else ""
    message = f"{count} tools of this address are called {_quote(name)}: {quoted_ids}{more}."
    return Breach("SAME_NAME", "medium", _subject(name), message)


def equal_names(names: Sequence[str]) -> Breach:
    """Report tools whose names differ only in their code points."""
    escaped_names = ", ".join(ascii(name) for name in names[:SHOWN])
    message = (
        f"{len(names)} tools of this address are called {_quote(names[0])}, in code points that only a "
        f"program can tell apart: {escaped_names}."
    )
    return Breach("SAME_NAME", "medium", _subject(" = ".join(names)), message)


def new_tool_id(name: str, old_id: str, new_id: str) -> Breach:
    message = (
        f"{_quote(name)} was withdrawn as {_quote(old_id)} and is offered again as {_quote(new_id)}. "
        "Pegboard treats it as another tool: pins stay on the withdrawn one."
    )
    return Breach("NEW_TOOL_ID", "medium", _subject(old_id), message)


def _subject(text: str) -> str:
    return text[:100]


def _quote(text: str) -> str:
    return f"“{text[:59]}…”" if len(text) > 60 else f"“{text}”"
