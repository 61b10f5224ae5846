"""Lines that a move of a pin has broken, until a user saves the text again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from django.db.models import F

from catalog.models import ToolVersion
from catalog.rules import diff
from catalog.rules.diff import Change
from core.outbound.errors import printable
from designer.models import Pin, ProcedureReference
from designer.pins import pinned_signatures
from designer.procedures import impact, vocabulary
from designer.procedures.lint import Issue
from designer.signatures import model_names
from designer.signatures.effective import effective
from protocols.signature import Signature


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
        version=f"version {printable(version.name, 60)}",
        before=before,
        after=after,
        changes=changes,
        now=vocabulary.known_tool(pin, current),
        then=vocabulary.known_tool(pin, moved),
    )


def remarks(texts: Mapping[int, str]) -> dict[int, list[Issue]]:
    """Return the issues of broken lines in stored texts, by the primary keys of their procedures.

    One query if no pin has moved since the texts were saved.
    """
    moved = _moved_since_saved(texts)
    if not moved:
        return {}
    versions = ToolVersion.objects.defer("raw").in_bulk({version for _, *pair in moved for version in pair})
    concerned = {}
    for key in moved:
        changes = diff.compare(*(versions[version].decoded() for version in key[1:])).changes
        if impact.concerns_lines(changes):
            concerned[key] = changes
    rows = Pin.objects.filter(pk__in={pin for pin, *_ in concerned})
    pins = {pin.pk: pin for pin in pinned_signatures.with_signatures(rows)} if concerned else {}
    issues: defaultdict[int, list[Issue]] = defaultdict(list)
    for key, changes in concerned.items():
        pin, before, after = pins[key[0]], versions[key[1]], versions[key[2]]
        move = move_between(pin, before.decoded(), after.decoded(), changes, version=after)
        for procedure in moved[key]:
            issues[procedure] += [
                Issue(
                    line=line.line,
                    code="line_broken",
                    severity="error",
                    message=f"This line {line.message}",
                    fix="Change the line. If it is right as it stands, save the text again.",
                )
                for line in impact.impacts(texts[procedure], move)
                if line.breaks
            ]
    return issues


def _moved_since_saved(procedures: Collection[int]) -> dict[tuple[int, int, int], list[int]]:
    """Return, by pin, the version that texts were written for and that of the pin, the procedures with such
    a text.
    """
    rows = (
        ProcedureReference.objects.filter(procedure__in=procedures, pin__removed_at=None)
        .exclude(version=F("pin__version"))
        .exclude(version=None)
        .order_by("pin", "version", "procedure")
        .values_list("pin", "version", "pin__version", "procedure")
        .distinct()
    )
    procedures_by_version: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for *key, procedure in rows:
        procedures_by_version[key[0], key[1], key[2]].append(procedure)
    return procedures_by_version
