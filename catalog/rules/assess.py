"""The assessment of a version that a vendor offers, before a user has reviewed it. Pure.

`assess` compares it with the current version and returns the changes, the broken promises and the alarms of
its texts. `Assessment.stop` applies a policy. Enumeration assesses each changed tool once and stores the
alarms with
the version: docs/decisions/0040-one-assessment.md.
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


class OfferedVersion(NamedTuple):
    """A version as the vendor offers it. `label`: the vendor's version label, "" without one."""

    signature: Signature
    label: str = ""
    digest: str = ""


class VersionAssessment(NamedTuple):
    """The assessment of a version.

    effects: of the change, or None if no version of the tool was accepted before.
    class_: of the worst effect.
    """

    effects: frozenset[Effect] | None
    breaches: tuple[Breach, ...]
    alarms: tuple[Alarm, ...]
    is_rewritten: bool
    class_: Class = "none"

    def stop(self, actions: Actions) -> Stop | None:
        """Return why and how the policy stops the version, or None to accept it."""
        classes = policy.classes(self.effects, self.alarms, is_rewritten=self.is_rewritten)
        return policy.apply_policy(actions, classes)


def assess(
    old: OfferedVersion | None,
    new: OfferedVersion,
    *,
    promised_rules: Collection[str] = (),
    is_rewritten: bool = False,
) -> VersionAssessment:
    """Return what a new version changes, the alarms about it, and the promises that it breaks.

    old: the current version, None if there is none. promised_rules: the promises of the protocol.
    is_rewritten: the vendor has published another text under the label of `new`.
    """
    alarms = tuple(inspection.inspect(new.signature))
    if old is None:
        return VersionAssessment(None, (), alarms, is_rewritten)
    comparison = diff.compare(old.signature, new.signature)
    update = promises.Update(old.signature, new.signature, old.label, new.label, new.digest, comparison)
    broken = tuple(promises.find_breaches(update, promised_rules))
    return VersionAssessment(comparison.effects, broken, alarms, is_rewritten, comparison.class_)


class _StoredAlarms(msgspec.Struct, array_like=True):
    revision: int
    alarms: tuple[Alarm, ...]


def to_json(alarms: tuple[Alarm, ...]) -> str:
    """Encode the alarms with the revision of the rules, as a version stores them."""
    return msgspec.json.encode(_StoredAlarms(REVISION, alarms)).decode()


def stored_alarms(json: str | None) -> tuple[Alarm, ...] | None:
    """Decode stored alarms. None if there are none, or if the rules have changed since."""
    decoded = msgspec.json.decode(json, type=_StoredAlarms) if json else None
    return decoded.alarms if decoded and decoded.revision == REVISION else None
