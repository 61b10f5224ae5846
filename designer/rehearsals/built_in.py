"""The judge without a model: ranks the tools with the catalog's own search over the text that a model reads.
Pure.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from catalog.search.in_memory import InMemoryIndex, words_in
from designer.pins import token_budget
from designer.rehearsals import inputs
from designer.rehearsals.results import Sentence, SentenceResult
from designer.signatures.effective import Effective
from protocols.signature import Signature

NAME = "built-in"


def as_shown(tool: Effective) -> Signature:
    """Return the signature under the name that a model sees."""
    return replace(token_budget.shown_signature(tool), name=tool.name)


def words_of(tools: Sequence[Effective], sentences: Sequence[Sentence]) -> set[str]:
    """Return the words whose stems `choose` needs."""
    return words_in(map(as_shown, tools), [sentence.says for sentence in sentences])


def choose(
    tools: Sequence[Effective], sentences: Sequence[Sentence], stems: Mapping[str, str]
) -> list[SentenceResult]:
    index = InMemoryIndex([as_shown(tool) for tool in tools], stems)
    by_name = {tool.name: tool for tool in tools}
    return [_rank_tools(sentence, by_name, index.scores(sentence.says)) for sentence in sentences]


def _rank_tools(
    sentence: Sentence, tools: Mapping[str, Effective], scores: Sequence[float]
) -> SentenceResult:
    score_by_tool = dict(zip(tools, scores, strict=True))
    expected_score = score_by_tool.get(sentence.expected, 0.0)
    rivals = [(score, name) for name, score in score_by_tool.items() if score and name != sentence.expected]
    # Rivals with equal scores: the first by name.
    rival_score, rival = max(rivals, key=lambda score_and_name: score_and_name[0], default=(0.0, ""))
    # A tool has to be ahead to be chosen: of two with equal scores, a model may choose either.
    chosen_tool = sentence.expected if expected_score > rival_score else rival
    input_answers = (
        inputs.check_inputs(sentence.says, sentence.inputs, tools[sentence.expected])
        if expected_score > rival_score
        else ()
    )
    return SentenceResult(
        rehearsal=sentence.id,
        says=sentence.says,
        expected=sentence.expected,
        chosen=chosen_tool,
        margin=round((expected_score - rival_score) / max(expected_score, rival_score), 3)
        if expected_score or rival_score
        else 0.0,
        choices={chosen_tool: 1},
        inputs=input_answers,
        message=sentence.explain_miss(chosen_tool, none="No tool matches this phrase."),
    )
