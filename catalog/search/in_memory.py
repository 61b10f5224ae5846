"""The catalog's ranking over tools that its index does not hold: those of one agent, as models see them.

Pure, like `question` and `ranking`, which do all of the weighing: `lexicon.stems` of `words_in` come in as an
argument. A word is as rare as it is among these tools.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from catalog.search import question, ranking, searched_texts, words
from catalog.search.vocabulary import Known
from protocols.signature import Signature


def words_in(signatures: Iterable[Signature], texts: Iterable[str]) -> set[str]:
    """All words that the ranking of these tools for these texts has to know the stems of."""
    told = [text for each in signatures for part in searched_texts.of(each) for _, text in part]
    found = {run for text in (*told, *texts) for run in words.runs(text)}
    return {word for run in found for word in words.with_compound(run)} | words.SYNONYMS.keys()


class InMemoryIndex:
    def __init__(self, signatures: Sequence[Signature], stems: Mapping[str, str]) -> None:
        self._stems = stems
        self._lexemes: defaultdict[str, int] = defaultdict(lambda: len(self._lexemes))
        self._vectors: list[bytes] = []
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        for place, signature in enumerate(signatures):
            strengths, name = self._strengths(signature)
            self._vectors.append(ranking.pack(name, strengths))
            for lexeme in strengths:
                self._holders[lexeme].append(place)

    def scores(self, text: str) -> list[float]:
        """How well each tool answers `text`, in the order of the tools; 0 where it has none of its words."""
        asked = question.read(text)
        terms = question.weigh(asked, {word: self._known(word) for word in asked.words}, {})
        count = len(self._vectors)
        gains = {
            lexeme: stress * ranking.rarity(terms.found_in[lexeme], count)
            for lexeme, stress in terms.stress.items()
        }
        found = [0.0] * count
        for place in {place for lexeme in gains for place in self._holders.get(lexeme, ())}:
            found[place] = ranking.score(self._vectors[place], gains, terms.stress)
        return found

    def _strengths(self, signature: Signature) -> tuple[dict[int, int], list[int]]:
        # The same as `index` writes of a tool, without its tags as they stand.
        texts = searched_texts.of(signature)
        frequencies: defaultdict[int, float] = defaultdict(float)
        stops: set[int] = set()
        for weight, text in texts.prose:
            for run in words.runs(text):
                for word in words.with_compound(run):
                    frequencies[self._lexeme(word)] += weight
                    if not self._stems[word]:
                        stops.add(self._lexeme(word))
        for weight, text in texts.fields:
            for lexeme in self._plain(text):
                frequencies[lexeme] += weight
        return ranking.impacts(frequencies, stops), self._plain(signature.name)

    def _plain(self, text: str) -> list[int]:
        found = [word for run in words.runs(text) for word in words.parts(run)]
        return [self._lexeme(word) for word in found if self._stems[word]]

    def _lexeme(self, word: str) -> int:
        return self._lexemes[self._stems[word] or word]

    def _known(self, word: str) -> Known:
        stem = self._stems[word]
        lexeme = self._lexemes.get(stem or word)
        holders = len(self._holders.get(lexeme, ())) if lexeme is not None else 0
        return Known(lexeme if holders else None, holders, not stem, stem or word)
