"""Names that differ by one typing error. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from catalog.rules.inspection.letters import spelling

# Shorter words often differ by one letter and mean different things: get and set, in and on.
MIN_LENGTH, MAX_LENGTH = 5, 128


def near(names: Iterable[str], known_names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each of `names` that is one typing error away from one of `known_names`, with that name."""
    # Style does not count: sendMoney and send_money are the same name (see `letters.spelling`).
    by_piece: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in known_names:
        plain = _plain(name)
        for piece in _pieces(plain):
            by_piece[piece].append((plain, name))
    for name in names:
        plain = _plain(name)
        neighbours = (
            known_name
            for piece in _pieces(plain)
            for known_plain, known_name in by_piece.get(piece, ())
            if is_one_slip(plain, known_plain)
        )
        yield from ((name, neighbour) for neighbour in islice(neighbours, 1))


def is_one_slip(one: str, other: str) -> bool:
    """Return whether one letter is inserted, omitted, replaced, or swapped with the next."""
    if one == other:
        return False
    shorter, longer = sorted((one, other), key=len)
    index = next(
        (position for position, letter in enumerate(shorter) if letter != longer[position]), len(shorter)
    )
    if len(shorter) < len(longer):
        return shorter[index:] == longer[index + 1 :]
    is_swapped = (
        one[index : index + 2] == other[index : index + 2][::-1] and one[index + 2 :] == other[index + 2 :]
    )
    return is_swapped or one[index + 1 :] == other[index + 1 :]


def _plain(name: str) -> str:
    return spelling(name).replace("_", "")


def _pieces(name: str) -> Iterator[str]:
    """Yield the name, and the name without each one of its letters. Near names share a piece."""
    if MIN_LENGTH <= len(name) <= MAX_LENGTH:
        yield name
        yield from (name[:index] + name[index + 1 :] for index in range(len(name)))
