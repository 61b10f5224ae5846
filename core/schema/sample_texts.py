"""Texts that match a regular expression as JSON Schema has them (ECMA-262), by chance. Pure.

A pattern with a part that cannot be written forwards (what has to come next, a reference back) raises
UnwritablePatternError: its caller tries other texts, or says that it has none. What may not come next is
passed over: few of the texts that are made up here have it.
"""

import string
from collections.abc import Callable
from random import Random

MAX_TEXT = 2_000
MAX_GROUPS = 50
MAX_STEPS = 20_000
# How often what may be repeated without end is, and how often more than it has to be what is counted.
MANY = 4
MANY_COUNTED = 8
# By chance, before a text is written as short as the pattern allows and then as long as is asked for.
TRIES = 3
WORD = string.ascii_letters + string.digits + "_"
SPACE = " "
ANY = string.ascii_letters + string.digits + " -_.,"
PRINTABLE = "".join(map(chr, range(32, 127)))
CLASSES = {"d": string.digits, "w": WORD, "s": SPACE}
CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
# By the first letter of a Unicode category, which is as much as a made-up text needs.
CATEGORIES = {
    "L": string.ascii_letters,
    "M": "\u0301\u0308",
    "N": string.digits,
    "P": ".,-",
    "S": "+=$",
    "Z": " ",
}


# Halves of characters, which no text holds.
SURROGATES = range(0xD800, 0xE000)


class UnwritablePatternError(Exception):
    """No text can be written from this pattern."""


def text(
    pattern: str,
    chance: Random,
    count: Callable[[int], None],
    min_length: int = 0,
    max_length: int | None = None,
) -> str:
    """Return a text with a match of `pattern`, of the stated length if possible.

    count: called for each step. It may raise an error to stop.
    """
    for _ in range(TRIES):
        text = _SampleTextWriter(pattern, chance, count).write()
        if len(text) >= min_length and (max_length is None or len(text) <= max_length):
            return text
    least = _SampleTextWriter(pattern, chance, count, missing=0).write()
    text = _SampleTextWriter(pattern, chance, count, missing=max(min_length - len(least), 0)).write()
    # If the pattern has an open end, the missing characters are added there.
    missing = min_length - len(text)
    if missing > 0 and not pattern.endswith("$"):
        text += "".join(chance.choices(string.ascii_lowercase, k=missing))
    elif missing > 0 and not pattern.startswith("^"):
        text = "".join(chance.choices(string.ascii_lowercase, k=missing)) + text
    return text


class _SampleTextWriter:
    """Reads a pattern once from left to right, and writes as it goes.

    What may be repeated is repeated by chance; where `missing` is given, no more often than it has to be,
    until so many characters more are written.
    """

    def __init__(
        self, pattern: str, chance: Random, count: Callable[[int], None], *, missing: int | None = None
    ) -> None:
        self.pattern, self.chance, self.count = pattern, chance, count
        self.at = self.depth = self.steps = 0
        self.missing = missing

    def write(self) -> str:
        written = self.alternatives()
        if self.at < len(self.pattern):
            raise UnwritablePatternError(self.pattern)
        return written

    def alternatives(self) -> str:
        self.depth += 1
        if self.depth > MAX_GROUPS:
            raise UnwritablePatternError(self.pattern)
        missing = self.missing
        written = [(self.sequence(), self.missing)]
        while self.peek() == "|":
            self.at += 1
            self.missing = missing
            written.append((self.sequence(), self.missing))
        self.depth -= 1
        chosen, self.missing = self.chance.choice(written)
        return chosen

    def sequence(self) -> str:
        parts: list[str] = []
        length = 0
        while (sign := self.peek()) and sign not in "|)":
            pieces = self.repeated()
            parts += pieces
            length += sum(map(len, pieces))
            if length > MAX_TEXT:
                raise UnwritablePatternError(self.pattern)
        return "".join(parts)

    def repeated(self) -> list[str]:
        """Write the next piece as often as its quantifier asks."""
        begins, missing = self.at, self.missing
        pieces = [self.piece()]
        least, most = self.times()
        goes_on = self.at
        if missing is None:
            usual = MANY if most is None else min(most - least, MANY_COUNTED)
            least = most = least + self.chance.randint(0, usual)
        if not least:
            pieces, self.missing = [], missing
        while len(pieces) < least or (self.missing and (most is None or len(pieces) < most)):
            self.at, missing = begins, self.missing
            pieces.append(self.piece())
            if len(pieces) > least and missing is not None:
                # All of it is more than there has to be, whatever of it grew.
                self.missing = max(missing - len(pieces[-1]), 0)
                if not pieces[-1]:
                    break
        self.at = goes_on
        return pieces

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        if not (sign := self.peek()):
            raise UnwritablePatternError(self.pattern)
        self.at += 1
        return sign

    def piece(self) -> str:
        self.steps += 1
        self.count(1)
        if self.steps > MAX_STEPS:
            raise UnwritablePatternError(self.pattern)
        sign = self.take()
        if sign in "^$":
            return ""
        if sign == ".":
            return self.chance.choice(ANY)
        if sign == "[":
            return self.chance.choice(self.bracket())
        if sign == "\\":
            characters = self.escaped()
            if any(ord(each) in SURROGATES for each in characters):
                raise UnwritablePatternError(self.pattern)
            return self.chance.choice(characters or [""])
        if sign == "(":
            return self.group()
        if sign in "*+?":
            raise UnwritablePatternError(self.pattern)
        return sign

    def group(self) -> str:
        if self.peek() == "?":
            self.at += 1
            kind = self.take()
            if kind == "<" and self.peek() not in ("=", "!"):
                while self.take() != ">":
                    pass
            elif kind == "!" or (kind == "<" and self.peek() == "!"):
                return self.passed_over()
            elif kind != ":":
                raise UnwritablePatternError(self.pattern)
        written = self.alternatives()
        if self.take() != ")":
            raise UnwritablePatternError(self.pattern)
        return written

    def passed_over(self) -> str:
        missing = self.missing
        self.alternatives()
        self.missing = missing
        if self.take() != ")":
            raise UnwritablePatternError(self.pattern)
        return ""

    def times(self) -> tuple[int, int | None]:
        """Return the least and the largest number of repetitions; None: without end."""
        sign = self.peek()
        counted = self.counted() if sign == "{" else None
        if counted is None and sign not in ("*", "+", "?"):
            return 1, 1
        if counted is None:
            self.at += 1
            counted = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        if self.peek() == "?":
            self.at += 1
        return counted

    def counted(self) -> tuple[int, int | None] | None:
        ends = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : max(ends, 0)].partition(",")
        if ends < 0 or not least.isdecimal() or (most and not most.isdecimal()):
            return None  # a brace that stands for itself
        self.at = ends + 1
        minimum = int(least)
        maximum = minimum if not comma else int(most) if most else None
        if minimum > MAX_TEXT or (maximum is not None and maximum < minimum):
            raise UnwritablePatternError(self.pattern)
        return minimum, maximum

    def escaped(self) -> list[str]:
        """Return the characters that an escape means; none for an anchor."""
        sign = self.take()
        if sign in CLASSES:
            return list(CLASSES[sign])
        if sign.lower() in CLASSES:
            return [each for each in PRINTABLE if each not in CLASSES[sign.lower()]]
        if sign in "bB":
            return []
        if sign in CONTROLS:
            return [CONTROLS[sign]]
        if sign in "xu":
            return [self.numbered(2 if sign == "x" else 4)]
        if sign in "pP":
            return self.category(is_negated=sign == "P")
        if sign.isdecimal() or sign == "k":
            raise UnwritablePatternError(self.pattern)
        return [sign]

    def numbered(self, digits: int) -> str:
        number_text = self.pattern[self.at : self.at + digits]
        if self.peek() == "{":
            ends = self.pattern.find("}", self.at)
            number_text, digits = self.pattern[self.at + 1 : max(ends, 0)], ends + 1 - self.at
        try:
            sign = chr(int(number_text, 16))
        except (ValueError, OverflowError):
            raise UnwritablePatternError(self.pattern) from None
        self.at += digits
        return sign

    def category(self, *, is_negated: bool) -> list[str]:
        if self.take() != "{":
            raise UnwritablePatternError(self.pattern)
        ends = self.pattern.find("}", self.at)
        name, self.at = self.pattern[self.at : max(ends, 0)], ends + 1
        signs = CATEGORIES.get(name[:1])
        if ends < 0 or signs is None:
            raise UnwritablePatternError(self.pattern)
        narrowed = {"Lu": str.isupper, "Ll": str.islower}.get(name)
        characters = [each for each in signs if narrowed is None or narrowed(each)]
        return [each for each in PRINTABLE if each not in characters] if is_negated else characters

    def bracket(self) -> list[str]:
        is_negated = self.peek() == "^"
        self.at += is_negated
        signs: list[str] = []
        while (sign := self.take()) != "]":
            characters = self.escaped() or ["\b"] if sign == "\\" else [sign]
            if len(characters) == 1 and self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                last = self.take()
                highest = (self.escaped() or ["\b"])[0] if last == "\\" else last
                # The first of a wide range are as good as all.
                few = min(ord(highest), ord(characters[0]) + 300)
                characters = [chr(each) for each in range(ord(characters[0]), few + 1)]
            signs += [each for each in characters if ord(each) not in SURROGATES]
            self.count(len(characters) // 100)
        if is_negated:
            signs = [each for each in PRINTABLE if each not in signs]
        if not signs:
            raise UnwritablePatternError(self.pattern)
        return signs
