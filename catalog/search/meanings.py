"""Meanings of tools and questions: vectors of tools are made after the index, and compared with questions.

Words find what people name, meanings what they describe. A vector is made of the effective text, in the
process of this host that `catalog.meaning` describes; where that does not answer, words alone do.
"""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from django.conf import settings

from catalog.meaning import client
from catalog.meaning.messages import (
    FindNearest,
    OtherTools,
    Prepare,
    ReadState,
    Reply,
    Similarities,
    StoredState,
    StoreTexts,
)
from catalog.meaning.models import ADDRESS, is_address
from catalog.meaning.process import MeaningProcess
from catalog.search import changes, index, words
from catalog.search.changes import IndexState
from catalog.search.cosines import Cosines
from catalog.search.fit import Concept
from catalog.search.index import IndexedTool
from catalog.search.scope import Scope

NONE = "none"
# Raise it when a release makes other texts of the same tools.
TEXT_RECIPE = 1
# A question waits for one batch at most.
BATCH = 48
# A description states the purpose first.
MAX_DESCRIPTION = 150
STORE_SECONDS, FIND_SECONDS = 30.0, 0.25
# A model behind an address is farther away.
FIND_SECONDS_BY_ADDRESS = 1.0
# The nearest tools that words may not have found; many more under filters that only the database knows.
NEAREST, NEAREST_FILTERED = 50, 1_000
# Farther ones have nothing to do with the question, or with the nearest.
MIN_COSINE, MIN_SHARE_OF_BEST = 0.3, 0.5
# How much meanings count in a question of at most eight words: more where no tool has most of its words, and
# most where fewer than half of its words are known, as in other languages. The words of a longer question
# state more than its meaning.
_WEIGHT, _WEIGHT_OF_UNCOVERED, _WEIGHT_OF_FOREIGN = 0.4, 0.6, 0.9
_MIN_COVERED = 0.65
_MAX_CONCEPTS = 8
# The score of the best tool where words find none.
_SCALE = 5.0


def is_compared() -> bool:
    """Return whether this installation compares meanings."""
    return bool(settings.SEARCH_MEANING != NONE)


def read_stored_state() -> StoredState | None:
    """Return the state of the vectors of this host, None if its process does not answer."""
    reply = client.send_now(Path(settings.SEARCH_DIRECTORY), ReadState(), FIND_SECONDS)
    return reply if isinstance(reply, StoredState) else None


def start_process() -> MeaningProcess | None:
    """Return the process that compares meanings, None if this installation compares none."""
    if not is_compared():
        return None
    name = ADDRESS if is_address(settings.SEARCH_MEANING) else settings.SEARCH_MEANING
    return MeaningProcess(Path(settings.SEARCH_DIRECTORY), name, settings.BASE_DIR)


def follow(ends: float = math.inf) -> bool:
    """Make vectors of what changed, until the time `ends`; return whether some are missing.

    Raises MeaningUnavailableError.
    """
    stored = _store(ReadState())
    state, moment = changes.read_state(stored.state), changes.database_moment()
    recipe = f"{TEXT_RECIPE} {stored.recipe}"
    if state is None or state.recipe != recipe or not changes.is_usable(state, moment):
        state = changes.first_state(moment, recipe)
        _store(StoreTexts([], [], [], [], [], state.dump(), is_start=True))
    for _ in index.follow_changes(_write_texts, state, moment, ends, BATCH):
        pass
    return time.monotonic() > ends


def _store(request: ReadState | StoreTexts) -> StoredState:
    reply = client.send(Path(settings.SEARCH_DIRECTORY), request, STORE_SECONDS)
    if not isinstance(reply, StoredState):
        raise client.MeaningUnavailableError("Its reply is of another release.")
    return reply


def _write_texts(rows: list[IndexedTool], removed: Collection[int], state: IndexState) -> None:
    texts, names = [], []
    for row in rows:
        signature = index.decode_signature(row.signature)
        name = " ".join(words.words(signature.name))
        names.append(name)
        texts.append(f"{row.vendor_name} {name}. {signature.description[:MAX_DESCRIPTION]}")
    tools, endpoints = [row.tool for row in rows], [row.endpoint for row in rows]
    _store(StoreTexts(tools, endpoints, texts, names, list(removed), state.dump()))


class PendingComparison:
    """A question whose meaning another process compares, while its words are searched."""

    def __init__(self, text: str, rephrased: str, scope: Scope, clauses: Sequence[str] = ()) -> None:
        """Begin to compare the question.

        rephrased: the question with other words for what it names, "" if there are none.
        clauses: those of a story, each with other words.
        """
        self._conversation: client.QuickConversation | None = None
        if not is_compared():
            return
        is_filtered = bool(scope.tags or scope.version or scope.has_labels or scope.among is not None)
        endpoints = None if scope.endpoints is None else list(scope.endpoints)
        # UTF-8 has no half of a surrogate pair.
        text, rephrased, *clauses = (
            wording.encode(errors="replace").decode() for wording in (text, rephrased, *clauses)
        )
        limit = NEAREST_FILTERED if is_filtered else NEAREST
        request = FindNearest(text, endpoints, None, limit, rephrased, clauses)
        seconds = FIND_SECONDS_BY_ADDRESS if is_address(settings.SEARCH_MEANING) else FIND_SECONDS
        self._conversation = client.QuickConversation(Path(settings.SEARCH_DIRECTORY), request, seconds)

    def add_tools(self, tools: Collection[int]) -> None:
        """Name the tools to compare beside the nearest ones. Once, before the cosines are read."""
        if self._conversation:
            self._conversation.send(OtherTools(list(tools)))

    def read_cosines(self) -> Cosines:
        """Return the cosines of these tools and of the nearest; empty where meanings are not compared."""
        return _find_near(self._conversation.receive() if self._conversation else None)

    def close(self) -> None:
        if self._conversation:
            self._conversation.close()


def _find_near(reply: Reply | None) -> Cosines:
    """Return the cosines of a reply without the nearest tools that are far; empty without a reply."""
    if not isinstance(reply, Similarities):
        return Cosines({}, {})
    typed = {**reply.nearest, **reply.others}
    all_cosines = Cosines(typed, reply.rephrased or typed, reply.chore, reply.clauses or None)
    by_wording = all_cosines.find_nearest_wording()
    best = max((by_wording[tool] for tool in reply.nearest), default=0.0)
    near = {tool for tool in reply.nearest if by_wording[tool] >= max(MIN_COSINE, MIN_SHARE_OF_BEST * best)}
    return all_cosines.among(near | reply.others.keys())


def without_far(tools: list[int], exact: Collection[int], cosines: Mapping[int, float]) -> list[int]:
    """Return the tools without those that meanings alone have found, but the nearest of these."""
    near = sorted(
        (tool for tool in tools if tool in cosines and tool not in exact), key=lambda tool: -cosines[tool]
    )
    far = set(near[NEAREST:])
    return [tool for tool in tools if tool not in far]


def prepare() -> None:
    """Have the model loaded, because someone looks at the tools and is likely to ask."""
    if is_compared():
        client.send_now(Path(settings.SEARCH_DIRECTORY), Prepare(), FIND_SECONDS)


def fuse(
    scores: Mapping[int, float],
    cosines: Mapping[int, float],
    concepts: Sequence[Concept[bytes]],
    covered: float,
) -> dict[int, float]:
    """Return the scores by words and meanings together, on the scale of the scores by words.

    covered: the part of the question's weight that the best tool by words has.
    """
    known_count = sum(1 for concept in concepts if concept.terms or concept.groups)
    if 2 * known_count < len(concepts):
        weight = _WEIGHT_OF_FOREIGN
    else:
        weight = _WEIGHT if covered >= _MIN_COVERED else _WEIGHT_OF_UNCOVERED
        weight *= min(1.0, _MAX_CONCEPTS / max(len(concepts), 1))
    scale = max(scores.values(), default=0.0) or _SCALE
    nearest = max(cosines.values(), default=0.0)
    if nearest <= 0:
        return dict(scores)
    # A tool without a vector, as one that has just changed, is found by its words.
    fused = {
        tool: (1 - weight) * scores.get(tool, 0.0) + weight * scale * max(0.0, cosine) / nearest
        for tool, cosine in cosines.items()
    }
    return {**scores, **fused}
