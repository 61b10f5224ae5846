"""The changes of a vendor's tool as people read them. Pure."""

from catalog.rules.diff import Change
from core.readable_changes import ReadableChange, outline, raw_values

# Their sentences contain all.
_TOLD_IN_FULL = ("required", "optional")


def read_change(change: Change) -> ReadableChange:
    values = (change.before, change.after)
    has_texts = change.kind not in _TOLD_IN_FULL and any(
        value is not None and not isinstance(value, bool) for value in values
    )
    before, after = ((None if value is None else outline(value)) if has_texts else None for value in values)
    return ReadableChange(
        sentence=change.wording,
        effect="undecided" if change.is_undecided else change.effect,
        before=before,
        after=after,
        raw=raw_values(*values),
    )
