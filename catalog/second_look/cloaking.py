"""Rules for documents that a vendor shows to another client in another form: severity and message. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from catalog.rules.diff import SignatureDifference
from catalog.rules.diff.changes import Effect
from catalog.rules.inspection import Severity
from catalog.rules.inspection.texts import by_place
from core.outbound.errors import ProtocolError, UnavailableError, printable
from protocols.signature import Signature

CODE = "CLOAKING"
_ALIKE = 49  # characters of a digest, so that two of them fit into the subject of a finding
_ONLY_MORE: frozenset[Effect] = frozenset({"compatible"})
_HARMLESS: frozenset[Effect] = frozenset({"compatible", "cosmetic"})


def subject(own_digest: str, other_digest: str) -> str:
    """Return the subject of a finding: both digests, so that the same difference is found only once."""
    return f"{own_digest[:_ALIKE]}:{other_digest[:_ALIKE]}"


def is_same_for_models(
    other_signature: Signature, own_signature: Signature, comparison: SignatureDifference
) -> bool:
    """Return whether a model reads the same words in both signatures, and calls are the same."""
    return comparison.effects <= {"cosmetic"} and by_place(other_signature) == by_place(own_signature)


def verdict(comparison: SignatureDifference, *, name: str, label: str, client: str) -> tuple[Severity, str]:
    """Return the severity and the message. comparison: from the other client's document to Pegboard's.

    An honest vendor may show less to a user who has not paid. Other texts, or a parameter that only the other
    client has, have no such reason.
    """
    what = f"version {printable(label)} of “{printable(name, 200)}”" if label else f"“{printable(name, 200)}”"
    pins = "Agents that pinned it keep their version."
    if comparison.effects <= _ONLY_MORE:
        sentence = f"The vendor shows {client} less of {what} than us, and nothing else."
        return "medium", f"{sentence} That may be a matter of the plan: then accept it. {pins}"
    if comparison.effects <= _HARMLESS:
        sentence = f"The vendor describes {what} differently to {client} than to us, but calls stay the same."
        return "medium", f"{sentence} Compare the two. {pins}"
    return "high", f"The vendor shows {client} other content for {what} than us. Compare the two. {pins}"


@dataclass(slots=True)
class Sight:
    """The result for one other client, as counts of tools.

    listed_count: the tools that the vendor lists for Pegboard; the other counts are parts of it.
    new_count: differ and were not reported before. known_count: differ and were reported.
    unsteady: change from one list to the next. left_count: differ, beyond the limit of one look.
    """

    client: str
    listed_count: int
    shown_count: int = 0
    new_count: int = 0
    known_count: int = 0
    unsteady: int = 0
    unreadable: int = 0
    left_count: int = 0
    error: ProtocolError | None = field(default=None)

    @property
    def others(self) -> int:
        return self.new_count + self.known_count

    @property
    def is_refused(self) -> bool:
        """Return whether the vendor refuses the client, as honest vendors do. Another look would not help."""
        return self.error is not None and not isinstance(self.error, UnavailableError)

    @property
    def is_open(self) -> bool:
        """Return whether another look tomorrow may have a result."""
        return bool(self.unsteady or self.left_count or (self.error and not self.is_refused))

    def summary(self) -> str:
        who = self.client[:1].upper() + self.client[1:]
        if self.error:
            what = "is shown no list" if self.is_refused else "could not read the list"
            return f"{who} {what}: {self.error.message}"
        counts = f"{self.shown_count:,} of the {self.listed_count:,} tools that we are shown"
        if self.shown_count == 0:
            counts = f"none of the {self.listed_count:,} tools that we are shown"
        elif self.others:
            seen_before = "" if not self.known_count else f" ({self.known_count:,} known from before)"
            counts += f", {self.others:,} of them with other content{seen_before}"
        elif not self.is_open and not self.unreadable:
            counts += f", {'and it is' if self.shown_count == 1 else 'all of them'} the same"
        sentences = [f"{who} is shown {counts}."]
        if self.unsteady:
            changed = f"{self.unsteady:,} changed from one list to the next"
            sentences.append(f"{changed}, so they cannot be compared yet. Pegboard checks again tomorrow.")
        if self.unreadable:
            sentences.append(f"{self.unreadable:,} cannot be read as they are shown there.")
        if self.left_count:
            sentences.append(f"{self.left_count:,} more seem to differ and are checked tomorrow.")
        return " ".join(sentences)


def summary(sights: Sequence[Sight]) -> str:
    return " ".join(sight.summary() for sight in sights)
