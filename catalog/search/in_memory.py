"""The catalog's ranking over tools that its index does not hold: those of one agent, as models see them.

Pure, like `question` and `ranking`, which do all of the weighing: `stemming.stems` of `words_in` come in as
an argument. A word is as rare as it is among these tools.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from catalog.search import question, ranking, searched_texts, words
from catalog.search.vocabulary import Known
from protocols.signature import Signature


def words_in(signatures: Iterable[Signature], texts: Iterable[str]) -> set[str]:
    """Return the words whose stems are needed to rank these tools for these texts."""
    tool_texts = [
        text for signature in signatures for part in searched_texts.read_texts(signature) for _, text in part
    ]
    word_runs = {run for text in (*tool_texts, *texts) for run in words.runs(text)}
    return {word for run in word_runs for word in words.with_compound(run)} | words.SYNONYMS.keys()


class InMemoryIndex:
    def __init__(self, signatures: Sequence[Signature], stems: Mapping[str, str]) -> None:
        self._stems = stems
        self._vectors: list[bytes] = []
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        for place, signature in enumerate(signatures):
            # The same as `index` writes of a tool.
            texts = searched_texts.read_texts(signature)
            frequencies: defaultdict[str, float] = defaultdict(float)
            stops: set[str] = set()
            for weight, text in texts.prose:
                for run in words.runs(text):
                    for word in words.with_compound(run):
                        frequencies[stems[word] or word] += weight
                        if not stems[word]:
                            stops.add(word)
            for weight, text in texts.fields:
                for term in self._plain(text):
                    frequencies[term] += weight
            strengths = ranking.impacts(frequencies, stops)
            self._vectors.append(ranking.pack(self._plain(signature.name), strengths))
            for term in strengths:
                self._holders[term].append(place)

    def scores(self, text: str) -> list[float]:
        """Return the score of each tool for `text`, in the order of the tools; 0 without any of its words."""
        parsed_question = question.read(text)
        known_words = {}
        for word in parsed_question.words:
            stem = self._stems[word]
            holder_count = len(self._holders.get(stem or word, ()))
            known_words[word] = Known(stem or word, holder_count, is_stop=not stem)
        terms = question.weigh(parsed_question, known_words, {})
        count = len(self._vectors)
        gains = ranking.by_key(ranking.find_gains(terms.stress, terms.found_in, count))
        stresses = ranking.by_key(terms.stress)
        tool_scores = [0.0] * count
        for place in {place for term in terms.stress for place in self._holders.get(term, ())}:
            tool_scores[place] = ranking.score(self._vectors[place], gains, stresses)
        return tool_scores

    def _plain(self, text: str) -> list[str]:
        text_words = [word for run in words.runs(text) for word in words.parts(run)]
        return [stem for word in text_words if (stem := self._stems[word])]
