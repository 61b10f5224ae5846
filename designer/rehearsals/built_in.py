"""The judge that needs no model: the catalog's own ranking over the text that a model is shown. Pure."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from catalog.search.in_memory import InMemoryIndex, words_in
from designer import token_budget
from designer.rehearsals import inputs
from designer.rehearsals.results import Answer, Sentence
from designer.signatures.effective import Effective
from protocols.signature import Signature

NAME = "built-in"


def as_shown(tool: Effective) -> Signature:
    """By the name that a model is shown."""
    return replace(token_budget.shown(tool), name=tool.name)


def words_of(tools: Sequence[Effective], sentences: Sequence[Sentence]) -> set[str]:
    """The words whose stems `choose` has to be given."""
    return words_in(map(as_shown, tools), [each.says for each in sentences])


def choose(
    tools: Sequence[Effective], sentences: Sequence[Sentence], stems: Mapping[str, str]
) -> list[Answer]:
    index = InMemoryIndex([as_shown(tool) for tool in tools], stems)
    by_name = {tool.name: tool for tool in tools}
    return [_answer(each, by_name, index.scores(each.says)) for each in sentences]


def _answer(sentence: Sentence, tools: Mapping[str, Effective], scores: Sequence[float]) -> Answer:
    scored = dict(zip(tools, scores, strict=True))
    wanted = scored.get(sentence.expected, 0.0)
    others = [(score, name) for name, score in scored.items() if score and name != sentence.expected]
    # The first by name of several that answer it equally well.
    best, rival = max(others, key=lambda each: each[0], default=(0.0, ""))
    # What does not lead is not chosen: of two alike a model takes either.
    chosen = sentence.expected if wanted > best else rival
    judged = inputs.judge(sentence.says, sentence.inputs, tools[sentence.expected]) if wanted > best else ()
    return Answer(
        rehearsal=sentence.id,
        says=sentence.says,
        expected=sentence.expected,
        chosen=chosen,
        margin=round((wanted - best) / max(wanted, best), 3) if wanted or best else 0.0,
        choices={chosen: 1},
        inputs=judged,
        message=sentence.why_not(chosen, none="No tool has a word of this sentence."),
    )
