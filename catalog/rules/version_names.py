"""The name of a version on pages, in REST, in findings and in the audit trail. Pure.

The name is the vendor's label. The ordinal is not a name: it counts in the order of discovery, so history
that is
read later has higher ordinals than newer versions. docs/decisions/0027-version-names.md has the reasons.
"""

from datetime import UTC, datetime


def version_name(label: str, rewrite: int, seen: datetime) -> str:
    """Return the name.

    rewrite: the number of earlier texts under this label. seen: when this text was first read.
    """
    # Without labels, the time identifies the text.
    seen = seen.astimezone(UTC)
    day = f"{seen.day} {seen:%B %Y}"
    if not label:
        return f"{day}, {seen:%H:%M}"
    if not rewrite:
        return label
    times = "" if rewrite == 1 else f" {rewrite} times, last"
    return f"{label}, rewritten{times} on {day}"
