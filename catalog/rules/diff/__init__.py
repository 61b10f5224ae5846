"""The differences between two signatures of a tool, and the callers and readers that they break. Pure.

Parameters are matched by `id`, the identity that the vendor keeps from version to version; the wire and the
model use the name, so a new name for the same id breaks callers. A change is `breaking` if a call that fitted
the old signature may not fit the new one, or a reader of the outputs may miss something; `notice` if a user
may want to know; `compatible` if it only adds. Its `effect` names those concerned and the reason.
"""

from catalog.rules.diff.changes import CLASSES, EFFECTS, SAFE, Change, Class, Effect
from catalog.rules.diff.signatures import SignatureDifference, compare, stricter, worst

__all__ = [
    "CLASSES",
    "EFFECTS",
    "SAFE",
    "Change",
    "Class",
    "Effect",
    "SignatureDifference",
    "compare",
    "stricter",
    "worst",
]
