"""Names that are one slip of the finger apart. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from catalog.rules.inspection.letters import spelling

# Below this, words that mean different things are one letter apart: get and set, in and on.
MIN_LENGTH, MAX_LENGTH = 5, 128


def near(names: Iterable[str], known: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each of `names` with one of `known` that is one letter more, less, other or swapped away."""
    # Style makes no difference: sendMoney is not near send_money, it is the same (see `letters.spelling`).
    by_piece: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in known:
        written = _plain(name)
        for piece in _pieces(written):
            by_piece[piece].append((written, name))
    for name in names:
        written = _plain(name)
        told = (
            other
            for piece in _pieces(written)
            for said, other in by_piece.get(piece, ())
            if is_one_slip(written, said)
        )
        yield from ((name, other) for other in islice(told, 1))


def is_one_slip(one: str, other: str) -> bool:
    """One letter put in, left out, replaced, or swapped with the next."""
    if one == other:
        return False
    shorter, longer = sorted((one, other), key=len)
    at = next((n for n, letter in enumerate(shorter) if letter != longer[n]), len(shorter))
    if len(shorter) < len(longer):
        return shorter[at:] == longer[at + 1 :]
    is_swapped = one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]
    return is_swapped or one[at + 1 :] == other[at + 1 :]


def _plain(name: str) -> str:
    return spelling(name).replace("_", "")


def _pieces(written: str) -> Iterator[str]:
    # The name, and the name without any one of its letters: names one slip apart share one of these.
    if MIN_LENGTH <= len(written) <= MAX_LENGTH:
        yield written
        yield from (written[:at] + written[at + 1 :] for at in range(len(written)))
