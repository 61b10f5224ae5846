"""What a version is called, in one way on every page, in REST, in findings and in the audit trail. Pure.

The vendor's own label is the name. Our ordinal counts first sights and is no name: history that is read later
gets higher ordinals than newer versions. docs/decisions/0027-version-names.md says why.
"""

from datetime import UTC, datetime


def version_name(label: str, rewrite: int, seen: datetime) -> str:
    """`rewrite` counts the texts that stood under this label before; `seen` is when we first saw this one."""
    # A vendor that numbers nothing changes what it lists from one day to another, so the time names the text.
    seen = seen.astimezone(UTC)
    day = f"{seen.day} {seen:%B %Y}"
    if not label:
        return f"{day}, {seen:%H:%M}"
    if not rewrite:
        return label
    times = "" if rewrite == 1 else f" {rewrite} times, last"
    return f"{label}, rewritten{times} on {day}"
