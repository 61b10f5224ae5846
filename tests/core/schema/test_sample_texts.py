"""Sample texts of each piece of a pattern, and how often a piece is repeated."""

import string
from random import Random

import pytest

from core.schema import sample_texts
from core.schema.sample_texts import ANY, PRINTABLE, WORD, UnwritablePatternError


class RecordedChance(Random):
    """Takes the first of what is offered, or the last, and the largest number; records the offers."""

    def __init__(self, place: int = 0) -> None:
        super().__init__(1)
        self.place, self.offers, self.counts = place, [], []

    def choice(self, seq):
        self.offers.append(list(seq))
        return seq[self.place]

    def randint(self, a, b):
        self.counts.append((a, b))
        return a if self.place == 0 else b


def ignore(steps: int) -> None:
    """Count no work."""


def without(characters: str) -> str:
    return "".join(character for character in PRINTABLE if character not in characters)


@pytest.mark.parametrize(
    ("piece", "characters"),
    [
        (".", ANY),
        (r"\d", "0123456789"),
        (r"\w", WORD),
        (r"\s", " "),
        (r"\D", without(string.digits)),
        (r"\W", without(WORD)),
        (r"\S", without(" ")),
        (r"\n", "\n"),
        (r"\r", "\r"),
        (r"\t", "\t"),
        (r"\f", "\f"),
        (r"\v", "\v"),
        (r"\0", "\0"),
        (r"\x4a", "J"),
        (r"\u00e9", "é"),
        (r"\u{1F600}", "😀"),
        (r"\x{41}", "A"),
        (r"\.", "."),
        (r"\-", "-"),
        (r"\p{L}", string.ascii_letters),
        (r"\p{Letter}", string.ascii_letters),
        (r"\p{Lu}", string.ascii_uppercase),
        (r"\p{Ll}", string.ascii_lowercase),
        (r"\p{M}", "\u0301\u0308"),
        (r"\p{Nd}", string.digits),
        (r"\p{P}", ".,-"),
        (r"\p{S}", "+=$"),
        (r"\p{Zs}", " "),
        (r"\P{Lu}", without(string.ascii_uppercase)),
        (r"\P{N}", without(string.digits)),
        ("[abc]", "abc"),
        ("[a-e]", "abcde"),
        ("[a-cx-z5]", "abcxyz5"),
        ("[a-]", "a-"),
        ("[-a]", "-a"),
        (r"[\d-x]", string.digits + "-x"),
        (r"[\]\\]", "]\\"),
        (r"[\x41-\x43]", "ABC"),
        (r"[\b]", "\b"),
        (r"[\n-\r]", "\n\x0b\x0c\r"),
        ("[^a-z]", without(string.ascii_lowercase)),
        (r"[^\w]", without(WORD)),
        ("[a^]", "a^"),
        ("[\u0100-\u1000]", "".join(map(chr, range(0x100, 0x100 + 301)))),
        ("[\ud7ff-\ud801]", "\ud7ff"),
    ],
)
def test_a_piece_offers_exactly_its_characters(piece, characters):
    chance = RecordedChance()
    text = sample_texts.text(f"^{piece}$", chance, ignore)
    # The sequence itself is the only one of its alternatives.
    assert chance.offers == [list(characters), [(characters[0], None)]]
    assert text == characters[0]


@pytest.mark.parametrize(
    "pattern", ["^", "$", r"\b", r"\B", "()", "(?:)", "(?!a)", "(?<!a)", "(?<name>)", ""]
)
def test_anchors_and_what_may_not_come_next_write_nothing(pattern):
    assert sample_texts.text(pattern, Random(1), ignore) == ""


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("abc", "abc"),
        ("a{b", "a{b"),
        ("a{}", "a{}"),
        ("a{,2}", "a{,2}"),
        ("a{x}", "a{x}"),
        ("a{1,x}", "a{1,x}"),
        ("a]", "a]"),
        ("a}", "a}"),
        ("(ab)c", "abc"),
        ("(?:ab)c", "abc"),
        ("(?<name>ab)c", "abc"),
        ("a(?!x|y)b", "ab"),
        ("a(?<!x|y)b", "ab"),
        ("a{3}", "aaa"),
        ("(ab){2}c", "ababc"),
        ("a{2}?b", "aab"),
        ("a{0}b", "b"),
        ("a{2,2}", "aa"),
        (r"a\bb", "ab"),
        ("é{2}", "éé"),
    ],
)
def test_a_pattern_without_a_choice_has_one_text(pattern, text):
    assert [sample_texts.text(pattern, Random(seed), ignore) for seed in range(3)] == [text] * 3


@pytest.mark.parametrize(
    ("pattern", "counts", "longest"),
    [
        ("a*", [(0, 4)], "aaaa"),
        ("a+", [(0, 4)], "aaaaa"),
        ("a?", [(0, 1)], "a"),
        ("a*?b", [(0, 4), (0, 0)], "aaaab"),
        ("a{2,}", [(0, 4)], "aaaaaa"),
        ("a{2,3}", [(0, 1)], "aaa"),
        ("a{1,100}", [(0, 8)], "a" * 9),
        ("a{2000}", [(0, 0)], "a" * 2000),
        ("(ab)?", [(0, 0), (0, 0), (0, 1)], "ab"),
    ],
)
def test_a_piece_is_repeated_within_its_bounds(pattern, counts, longest):
    chance = RecordedChance(-1)
    assert sample_texts.text(pattern, chance, ignore) == longest
    assert chance.counts[: len(counts)] == counts


def test_alternatives_are_offered_in_their_order():
    chance = RecordedChance(-1)
    assert sample_texts.text("a|b(c|d)|e", chance, ignore) == "e"
    assert chance.offers == [[("c", None), ("d", None)], [("a", None), ("bd", None), ("e", None)]]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?=a)b",
            "(?<=a)b",
            "(?<=>a)b",
            "(" * 50 + "a" + ")" * 50,
            "(?i)a",
            "(?",
            "(?<name",
            "(?!a",
            "(a",
            "a)",
            "[a",
            "[]",
            "[",
            "[^",
            "\\",
        ),
        *("*a", "+", "?a", "(*)", r"\1", r"\k<a>", r"\p", r"\p{", r"\pL", r"\p{Q}", r"\xZZ", r"\u12G4"),
        *(r"\u{110000}", r"\u{}", r"\u{41", r"\ud800", "a{2001}", "a{3,2}", "a{2000}b", "[\ud800]", "[z-a]"),
    ],
)
def test_a_pattern_that_cannot_be_written_forwards_is_refused(pattern):
    with pytest.raises(UnwritablePatternError) as refused:
        sample_texts.text(pattern, Random(1), ignore)
    assert str(refused.value) == pattern


def test_groups_are_nested_to_a_limit():
    assert sample_texts.text("(" * 49 + "a" + ")" * 49, Random(1), ignore) == "a"


def test_groups_after_other_groups_are_nested_to_the_same_limit():
    count = sample_texts.MAX_GROUPS
    with pytest.raises(UnwritablePatternError):
        sample_texts.text("((a)" * count + ")" * count, Random(1), ignore)


def test_groups_beside_each_other_are_not_nested():
    assert sample_texts.text("(a)" * 60, Random(1), ignore) == "a" * 60


@pytest.mark.parametrize(
    ("pattern", "min_length", "max_length", "text"),
    [
        ("a{2}", 5, None, "aaaoh"),
        ("a{2}$", 5, None, "utfaa"),
        ("^a{2}$", 5, None, "aa"),
        ("^a{2,9}$", 7, 7, "aaaaaaa"),
        ("^(ab){1,9}$", 7, 8, "abababab"),
        ("^a*b{0,3}$", 6, 6, "aaaaaa"),
        ("^a{1,9}$", 1, 1, "a"),
        ("^a{0,2}b{0,2}c{0,2}$", 6, None, "aabbcc"),
    ],
)
def test_a_text_grows_to_the_least_length(pattern, min_length, max_length, text):
    assert sample_texts.text(pattern, Random(4), ignore, min_length, max_length) == text


def test_each_step_is_counted():
    steps = []
    sample_texts.text("ab[c-d]", Random(1), steps.append)
    assert steps == [1, 1, 1, 0]
    steps.clear()
    sample_texts.text("[\u0100-\u1000]", Random(1), steps.append)
    assert steps == [1, 3]


def test_steps_end_at_a_limit():
    assert sample_texts.text("(^{1000}){19}", Random(1), ignore) == ""
    with pytest.raises(UnwritablePatternError):
        sample_texts.text("(^{1000}){20}", Random(1), ignore)
