"""The procedures of an agent, read and checked, in a number of queries that does not grow with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from designer.models import Agent, Procedure
from designer.procedures import broken_lines, lint, references, vocabulary
from designer.procedures.lint import Remark
from designer.procedures.references import Piece, Vocabulary
from people.models import User

# The key of a text that is no procedure yet.
NEW = 0


@dataclass(frozen=True)
class Checked:
    """By the primary key of a procedure: its text in pieces, and what is remarked about it. `of_agent` are
    remarks about the agent as a whole.
    """

    vocabulary: Vocabulary
    pieces: Mapping[int, Sequence[Piece]]
    remarks: Mapping[int, Sequence[Remark]]
    of_agent: Sequence[Remark]


def check_agent(agent: Agent, user: User, *, typed: Mapping[int, str] | None = None) -> Checked:
    """`typed` stands in for the texts of these procedures; under the key NEW it is one that is not there yet.

    What other agents have is told as far as `user` may see it.
    """
    kept = {procedure.pk: procedure.text for procedure in Procedure.objects.live().filter(agent=agent)}
    texts = kept | dict(typed or {})
    # What is typed names by their names what the kept text names by identity, also what is gone.
    known = vocabulary.of_agent(agent, texts=[*kept.values(), *texts.values()])
    return check_texts(agent, user, texts, known)


def check_texts(agent: Agent, user: User, texts: Mapping[int, str], known: Vocabulary) -> Checked:
    """The same of texts, by the primary keys of their procedures, that may refer to what is `known`."""
    pieces = {key: references.parse(text, known) for key, text in texts.items()}
    names: set[str] = set().union(*(lint.unknown_names(each) for each in pieces.values()))
    elsewhere = vocabulary.elsewhere(names, agent, user)
    return Checked(
        vocabulary=known,
        pieces=pieces,
        remarks=_remarks(pieces, known, elsewhere),
        of_agent=lint.unreferenced(pieces.values(), known),
    )


def _remarks(
    pieces: Mapping[int, Sequence[Piece]], known: Vocabulary, elsewhere: Mapping[str, lint.Elsewhere]
) -> dict[int, list[Remark]]:
    """Return the remarks by procedure, in the order of each text."""
    broken = broken_lines.remarks({key: references.stored(each) for key, each in pieces.items()})
    return {
        key: lint.in_order([*lint.lint(each, known, elsewhere), *broken.get(key, ())])
        for key, each in pieces.items()
    }
