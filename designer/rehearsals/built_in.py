"""The judge without a model: ranks the tools with the catalog's own search over the text that a model reads.
Pure.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

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
    results = []
    for sentence in sentences:
        scores = dict(zip(by_name, index.scores(sentence.says), strict=True))
        expected_score = scores.get(sentence.expected, 0.0)
        rivals = [(score, name) for name, score in scores.items() if score and name != sentence.expected]
        # Rivals with equal scores: the first by name.
        rival_score, rival = max(rivals, key=itemgetter(0), default=(0.0, ""))
        # A tool has to be ahead to be chosen: of two with equal scores, a model may choose either.
        is_ahead = expected_score > rival_score
        chosen_tool = sentence.expected if is_ahead else rival
        best_score = max(expected_score, rival_score)
        results.append(
            SentenceResult(
                rehearsal=sentence.id,
                says=sentence.says,
                expected=sentence.expected,
                chosen=chosen_tool,
                margin=round((expected_score - rival_score) / best_score, 3) if best_score else 0.0,
                choices={chosen_tool: 1},
                inputs=inputs.check_inputs(sentence.says, sentence.inputs, by_name[chosen_tool])
                if is_ahead
                else (),
                message=sentence.explain_miss(chosen_tool, none="No tool matches this phrase."),
            )
        )
    return results
