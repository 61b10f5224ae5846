"""The one judgement of what a vendor offers, before a person has looked at it. Pure.

`assess` compares a tool with the version in effect, finds the promises that the change breaks and what its
texts raise alarms about; `Assessment.stop` is what a policy makes of it. Enumeration assesses each changed
tool once and keeps the alarms with the version: docs/decisions/0040-one-assessment.md.
"""

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from catalog.rules import diff, inspection, policy, promises
from catalog.rules.diff import Class, Effect
from catalog.rules.inspection import REVISION, Alarm
from catalog.rules.policy import Actions, Stop
from catalog.rules.promises import Breach
from protocols.signature import Signature


class Offer(NamedTuple):
    """A version as the vendor offers it. `label` is the vendor's own, "" where there is none."""

    signature: Signature
    label: str = ""
    digest: str = ""


class Assessment(NamedTuple):
    """`effects` are those of the change, or None when nothing of the tool was let through so far; `class_` is
    that of the worst of them.
    """

    effects: frozenset[Effect] | None
    breaches: tuple[Breach, ...]
    alarms: tuple[Alarm, ...]
    is_rewritten: bool
    class_: Class = "none"

    def stop(self, actions: Actions) -> Stop | None:
        """None lets the version through."""
        found = policy.classes(self.effects, self.alarms, is_rewritten=self.is_rewritten)
        return policy.judge(actions, found)


def assess(
    old: Offer | None, new: Offer, *, promised: Collection[str] = (), is_rewritten: bool = False
) -> Assessment:
    """`old` is the version in effect, None where there is none yet; `promised` is what the protocol promises.

    `is_rewritten`: the vendor has published something else under the label of `new`.
    """
    alarms = tuple(inspection.inspect(new.signature))
    if old is None:
        return Assessment(None, (), alarms, is_rewritten)
    comparison = diff.compare(old.signature, new.signature)
    update = promises.Update(old.signature, new.signature, old.label, new.label, new.digest, comparison)
    broken = tuple(promises.broken(update, promised))
    return Assessment(comparison.effects, broken, alarms, is_rewritten, comparison.class_)


class _Kept(msgspec.Struct, array_like=True):
    revision: int
    alarms: tuple[Alarm, ...]


def to_json(alarms: tuple[Alarm, ...]) -> str:
    """As a version keeps them: with the revision of the rules that raised them."""
    return msgspec.json.encode(_Kept(REVISION, alarms)).decode()


def kept_alarms(kept: str | None) -> tuple[Alarm, ...] | None:
    """None where nothing is kept, and where the rules have changed since."""
    read = msgspec.json.decode(kept, type=_Kept) if kept else None
    return read.alarms if read and read.revision == REVISION else None
