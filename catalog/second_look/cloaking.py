"""What it means that another client is shown another document than we are, and how that is said. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from catalog.rules.diff import Comparison
from catalog.rules.diff.changes import Effect
from catalog.rules.inspection import Severity
from catalog.rules.inspection.texts import by_place
from core.outbound.errors import ProtocolError, UnavailableError, printable
from protocols.signature import Signature

CODE = "CLOAKING"
_ALIKE = 49  # characters of a digest, so that two of them fit into what identifies a finding
_ONLY_MORE: frozenset[Effect] = frozenset({"compatible"})
_HARMLESS: frozenset[Effect] = frozenset({"compatible", "cosmetic"})


def subject(ours: str, theirs: str) -> str:
    """What makes it the same finding again: both digests."""
    return f"{ours[:_ALIKE]}:{theirs[:_ALIKE]}"


def says_the_same(theirs: Signature, ours: Signature, comparison: Comparison) -> bool:
    """Written otherwise at most, and not in one word that a model reads."""
    return comparison.effects <= {"cosmetic"} and by_place(theirs) == by_place(ours)


def verdict(comparison: Comparison, *, name: str, label: str, client: str) -> tuple[Severity, str]:
    """How severe it is, and the sentence. `comparison` goes from what `client` is shown to what we are.

    An honest vendor may show less to a user who has not paid. Another text, or a parameter that is there for
    them alone, has no such reason.
    """
    what = f"version {printable(label)} of “{printable(name, 200)}”" if label else f"“{printable(name, 200)}”"
    pins = "Agents that pinned it keep their version."
    if comparison.effects <= _ONLY_MORE:
        says = f"The vendor shows {client} less of {what} than us, and nothing else."
        return "medium", f"{says} That may be a matter of the plan: then accept it. {pins}"
    if comparison.effects <= _HARMLESS:
        says = f"The vendor writes {what} for {client} otherwise than for us, though calls stay the same."
        return "medium", f"{says} Compare the two. {pins}"
    return "high", f"The vendor shows {client} other content for {what} than us. Compare the two. {pins}"


@dataclass(slots=True)
class Sight:
    """What one client was shown. Counts are of the tools that the vendor lists for us, which are `of`.

    `fresh` differ and were not told before, `known` were, `unsteady` are not the same from one list to
    the next, `left` would be too many to tell at once.
    """

    client: str
    of: int
    shown: int = 0
    fresh: int = 0
    known: int = 0
    unsteady: int = 0
    unreadable: int = 0
    left: int = 0
    error: ProtocolError | None = field(default=None)

    @property
    def others(self) -> int:
        return self.fresh + self.known

    @property
    def is_refused(self) -> bool:
        """No list for strangers: the usual answer of an honest vendor, and it will be the same tomorrow."""
        return self.error is not None and not isinstance(self.error, UnavailableError)

    @property
    def is_open(self) -> bool:
        """Whether a look tomorrow may say more."""
        return bool(self.unsteady or self.left or (self.error and not self.is_refused))

    def says(self) -> str:
        who = self.client[:1].upper() + self.client[1:]
        if self.error:
            what = "is shown no list" if self.is_refused else "could not read the list"
            return f"{who} {what}: {self.error.message}"
        return " ".join([f"{who} is shown {self._shown()}.", *self._remarks()])

    def _shown(self) -> str:
        tools = f"{self.shown:,} of the {self.of:,} tools that we are shown"
        if self.shown == 0:
            return f"none of the {self.of:,} tools that we are shown"
        if self.others:
            seen_before = "" if not self.known else f" ({self.known:,} known from before)"
            return f"{tools}, {self.others:,} of them with other content{seen_before}"
        if self.is_open or self.unreadable:
            return tools
        return f"{tools}, {'and it is' if self.shown == 1 else 'all of them'} the same"

    def _remarks(self) -> Iterable[str]:
        if self.unsteady:
            changed = f"{self.unsteady:,} changed from one list to the next"
            yield f"{changed}, so nothing can be said of them yet. Pegboard looks again tomorrow."
        if self.unreadable:
            yield f"{self.unreadable:,} cannot be read as they are shown there."
        if self.left:
            yield f"{self.left:,} more seem to differ and are looked at tomorrow."


def says(sights: Sequence[Sight]) -> str:
    return " ".join(sight.says() for sight in sights)
