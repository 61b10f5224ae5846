"""Lines that a move of a pin has broken, until a user saves the text again."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from django.db.models import F

from catalog.models import ToolVersion
from catalog.rules import diff
from catalog.rules.diff import Change
from core.compiled_queries import PreparedQuery, is_any_of
from core.outbound.errors import printable
from core.translatable import Wording
from core.translatable import mark as _
from designer.models import Pin, ProcedureReference
from designer.pins import pinned_signatures
from designer.procedures import impact, vocabulary
from designer.procedures.issues import Issue
from designer.signatures import model_names
from designer.signatures.effective import effective
from protocols.signature import Signature, read_stored


def move_between(
    pin: Pin, before: Signature, after: Signature, changes: Sequence[Change], *, version: ToolVersion
) -> impact.Move:
    """Return the move of a pin between two signatures of its tool; `version` is the target."""
    catalog_words, agent_words = pinned_signatures.words_about(pin.tool), pinned_signatures.words_about(pin)
    # A pin without an alias has the vendor's name, which the new version may change.
    keeps_name = pin.alias or before.name == after.name
    name = pin.name if keeps_name else model_names.derive(after.name)
    current = effective(before, name=pin.name, catalog_tuning=catalog_words, agent_tuning=agent_words)
    moved = effective(after, name=name, catalog_tuning=catalog_words, agent_tuning=agent_words)
    return impact.Move(
        version=printable(version.name, 60),
        before=before,
        after=after,
        changes=changes,
        now=vocabulary.known_tool(pin, current),
        then=vocabulary.known_tool(pin, moved),
    )


def remarks(texts: Mapping[int, str], pins: Iterable[Pin]) -> dict[int, list[Issue]]:
    """Return the issues of broken lines in stored texts, by the primary keys of their procedures.

    One query if no pin has moved since the texts were saved. `pins`: those that the texts may name, with the
    rows of `pinned_signatures.with_signatures`.
    """
    # The procedures by pin and the version that their texts were written for.
    moved: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for pin_id, version_id, procedure_id in _MOVED_REFERENCES.rows(procedures=list(texts)):
        moved[pin_id, version_id].append(procedure_id)
    if not moved:
        return {}
    versions = _SIGNATURES.rows(versions=list({version for _pin, version in moved}))
    signatures = {pk: read_stored(text) for pk, text in versions}
    pins_by_id = {pin.pk: pin for pin in pins}
    issues: defaultdict[int, list[Issue]] = defaultdict(list)
    for (key, version), procedures in moved.items():
        if (pin := pins_by_id.get(key)) is None:
            continue
        before, after = signatures[version], pin.version.decoded()
        changes = diff.compare(before, after).changes
        if impact.concerns_lines(changes):
            move = move_between(pin, before, after, changes, version=pin.version)
            for procedure in procedures:
                issues[procedure] += [
                    Issue(
                        line=line.line,
                        code="line_broken",
                        severity="error",
                        message=Wording(_("This line {effect}"), {"effect": line.message}),
                        fix=Wording(_("Change the line. If it is right as it stands, save the text again.")),
                    )
                    for line in impact.impacts(texts[procedure], move)
                    if line.breaks
                ]
    return issues


_MOVED_REFERENCES: PreparedQuery[tuple[int, int, int]] = PreparedQuery(
    lambda: (
        ProcedureReference.objects.filter(
            is_any_of("designer_procedurereference.procedure_id", "procedures"), pin__removed_at=None
        )
        .exclude(version=F("pin__version"))
        .exclude(version=None)
        .order_by("pin", "version", "procedure")
        .values_list("pin", "version", "procedure")
        .distinct()
    )
)
_SIGNATURES: PreparedQuery[tuple[int, str]] = PreparedQuery(
    lambda: (
        ToolVersion.objects.filter(is_any_of("catalog_toolversion.id", "versions"))
        .order_by()
        .values_list("pk", "signature")
    )
)
