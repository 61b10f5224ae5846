"""Parse and check the procedures of an agent. The number of queries does not grow with them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from core.compiled_queries import PreparedQuery, named_value
from core.content_cache import ContentCache
from designer.models import Agent, Pin, Procedure
from designer.pins import pinned_signatures
from designer.procedures import broken_lines, issues, lint, references, vocabulary
from designer.procedures.issues import Issue
from designer.procedures.references import Piece, Vocabulary
from people.models import User

# The key of a text that is not a procedure yet.
NEW = 0

# By all that the issues of a text depend on. A vocabulary has the texts of 50 tools.
_lint_results: ContentCache[Sequence[Issue]] = ContentCache(size=100)


@dataclass(frozen=True)
class CheckedProcedures:
    """The parsed texts and the issues of procedures, by the primary key of the procedure.

    `of_agent`: issues of the whole agent.
    """

    vocabulary: Vocabulary
    pieces: Mapping[int, Sequence[Piece]]
    remarks: Mapping[int, Sequence[Issue]]
    of_agent: Sequence[Issue]


def check_agent(
    agent: Agent,
    user: User,
    *,
    typed_texts: Mapping[int, str] | None = None,
    pins: Sequence[Pin] | None = None,
) -> CheckedProcedures:
    """Check the agent's procedures.

    typed_texts: replace the stored texts, by the procedure's primary key; the key NEW is a new procedure.

    Tools of other agents are named as far as `user` may see them. `pins`: those of
    `pinned_signatures.read_items`, if they were read.
    """
    pins = pinned_signatures.read_items([agent]) if pins is None else pins
    stored = dict(_STORED_TEXTS.rows(agent=agent.pk))
    texts = stored | dict(typed_texts or {})
    # An edited text uses names for what the stored text refers to by id, including removed things.
    names = vocabulary.vocabulary_of(agent, texts=[*stored.values(), *texts.values()], pins=pins)
    return check_texts(agent, user, texts, names, pins)


_STORED_TEXTS: PreparedQuery[tuple[int, str]] = PreparedQuery(
    lambda: Procedure.objects.live().filter(agent=named_value("agent")).values_list("pk", "text")
)


def check_texts(
    agent: Agent, user: User, texts: Mapping[int, str], agent_vocabulary: Vocabulary, pins: Iterable[Pin]
) -> CheckedProcedures:
    """Check the texts of procedures.

    texts: by the primary key of the procedure. They may refer to the names in `agent_vocabulary`.
    pins: the pins of the agent, as `pinned_signatures.read_items` returns them.
    """
    pieces = {key: references.parse(text, agent_vocabulary) for key, text in texts.items()}
    names: set[str] = set().union(*(lint.unknown_names(text_pieces) for text_pieces in pieces.values()))
    elsewhere = vocabulary.find_elsewhere(names, agent, user)
    stored_texts = {key: references.stored_text(text_pieces) for key, text_pieces in pieces.items()}
    broken_line_issues = broken_lines.remarks(stored_texts, pins)
    remarks = {
        key: issues.in_order(
            [
                *_lint_results.get(
                    (text, agent_vocabulary, frozenset(elsewhere.items())),
                    partial(lint.lint, pieces[key], agent_vocabulary, elsewhere),
                ),
                *broken_line_issues.get(key, ()),
            ]
        )
        for key, text in texts.items()
    }
    return CheckedProcedures(
        vocabulary=agent_vocabulary,
        pieces=pieces,
        remarks=remarks,
        of_agent=lint.unreferenced_issues(pieces.values(), agent_vocabulary),
    )
