"""What differs between two signatures of a tool, and whom it breaks. Pure.

Parameters are matched by `id`, the identity that the vendor keeps from version to version; the wire
and the model use the name, so a new name for the same id breaks callers. A change is `breaking` when
a call that fitted the old signature may not fit the new one, or a reader of the outputs may miss
something; `notice` when a person may want to know; `compatible` when it only adds. Its `effect` says
whom it concerns and why.
"""

from catalog.rules.diff.changes import CLASSES, EFFECTS, SAFE, Change, Class, Effect
from catalog.rules.diff.signatures import Comparison, compare, stricter, worst

__all__ = [
    "CLASSES",
    "EFFECTS",
    "SAFE",
    "Change",
    "Class",
    "Comparison",
    "Effect",
    "compare",
    "stricter",
    "worst",
]
