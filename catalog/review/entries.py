"""Entries of the review page: a finding with all others about the same bytes, and the texts that changed."""

from dataclasses import dataclass, field

from catalog.models import Finding, OtherAnswer, ToolVersion
from catalog.models.findings import HELD, Severity
from catalog.rules import diff
from catalog.rules.inspection.texts import by_place
from catalog.tools import versions

PINNED_SHOWN = 3
# Findings about the conduct of a vendor, not about a text.
ABOUT_CHANGES = {
    *(HELD, "DRIFT", "BREAKING", "CHANGED", "VERSION_BACK", "SAME_NAME", "NEW_TOOL_ID", "NEW_PARAMETER_ID"),
    "REFUSES_VALID",
}


@dataclass(frozen=True, slots=True)
class TextDifference:
    """A text that a model reads, before and after. None if it did not or does not exist."""

    where: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """Another version that agents have pinned, and the changes from it to `Entry.version`."""

    version: ToolVersion
    agents: int
    changes: tuple[diff.Change, ...]
    lines: list[TextDifference]


@dataclass(frozen=True, slots=True)
class Entry:
    """All findings about the same bytes of a tool, which one decision settles.

    `version` is compared with `before`, or with the version for another caller of the vendor, and with the
    versions that agents pin. `agents` pin `version` itself.
    """

    finding: Finding
    others: list[Finding]
    version: ToolVersion | None = None
    before: ToolVersion | None = None
    shown_elsewhere: OtherAnswer | None = None
    changes: tuple[diff.Change, ...] = ()
    lines: list[TextDifference] = field(default_factory=list)
    pinned: list[PinnedVersion] = field(default_factory=list)
    agents: int = 0

    @property
    def is_alarming(self) -> bool:
        # The text itself is what to look at.
        return any(finding.code not in ABOUT_CHANGES for finding in (self.finding, *self.others))

    @property
    def is_compared(self) -> bool:
        return bool(self.before or self.shown_elsewhere)

    @property
    def is_outdated(self) -> bool:
        # The vendor lists another version by now, so an acceptance moves nothing.
        tool = self.finding.tool
        return self.version is not None and self.version.pk not in (tool.current_id, tool.stopped_id)


def entry_of(finding: Finding) -> Entry:
    same = Finding.objects.filter(tool=finding.tool_id, subject=finding.subject, state=finding.state)
    # A decision is taken by the button of the worst of them, because it covers what is less severe.
    worst, *others = sorted(
        same.select_related("resolved_by"),
        key=lambda row: (Severity.values.index(row.severity), row.code != HELD, row.pk),
        reverse=True,
    )
    worst.tool, worst.endpoint = finding.tool, finding.endpoint
    same_bytes = ToolVersion.objects.filter(tool=worst.tool_id, digest=worst.subject).order_by("ordinal")
    version_id = worst.version_id or same_bytes.values_list("pk", flat=True).last()
    if not version_id:
        return Entry(worst, others)
    # Findings that name no earlier version, such as those about a text, use the version's predecessor.
    before_id = worst.against_id or versions.predecessors([version_id]).get(version_id)
    users = {version: agents for _, version, agents in versions.pinned({worst.tool_id})}
    full_versions = ToolVersion.objects.in_bulk({version_id, *users} | ({before_id} if before_id else set()))
    version = full_versions[version_id]
    elsewhere = OtherAnswer.objects.filter(finding=finding).first()
    before = None if elsewhere or before_id is None else full_versions.get(before_id)
    differing = sorted(
        (full_versions[pk] for pk in users if pk != version_id and (before is None or pk != before.pk)),
        key=lambda pinned_version: (pinned_version.label_key, pinned_version.ordinal),
        reverse=True,
    )
    pinned = [
        PinnedVersion(pinned_version, users[pinned_version.pk], *_compare_versions(pinned_version, version))
        for pinned_version in differing[:PINNED_SHOWN]
    ]
    differences = _compare_versions(elsewhere or before, version)
    return Entry(worst, others, version, before, elsewhere, *differences, pinned, users.get(version_id, 0))


def _compare_versions(
    other: ToolVersion | OtherAnswer | None, version: ToolVersion
) -> tuple[tuple[diff.Change, ...], list[TextDifference]]:
    old, new = other.decoded() if other else None, version.decoded()
    changes = diff.compare(old, new).changes if old else ()
    before, after = by_place(old) if old else {}, by_place(new)
    # All texts, if there is nothing to compare with.
    places = [place for place in dict.fromkeys([*after, *before]) if before.get(place) != after.get(place)]
    return changes, [TextDifference(place, before.get(place), after.get(place)) for place in places]
