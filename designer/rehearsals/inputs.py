"""Whether a sentence says the values that a call is expected to get. Pure.

No model is asked: a value counts as said where the sentence holds it. For one of a list that is its name,
for a number any number of the sentence, for a date the same day in digits or with its month by name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from catalog.search import words
from designer.rehearsals.results import InputAnswer
from designer.signatures.effective import Effective
from protocols.signature import Parameter

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?")
_NUMBER_WORDS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4}))?"
_DATES = (
    re.compile(r"(?<!\d)(?P<year>\d{4})-(?P<number>\d{2})-(?P<day>\d{2})(?!\d)"),
    re.compile(rf"\b{_DAY}\.?\s+(?:of\s+)?{_MONTH}{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}{_YEAR}\b", re.IGNORECASE),
)
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?", re.ASCII)


def judge(says: str, expected: Mapping[str, Any], tool: Effective) -> tuple[InputAnswer, ...]:
    """By the names that a model is shown."""
    shown = {each.shown_name: each.parameter for each in tool.inputs}
    shown |= {each.alias: each.parameter for each in tool.inputs}
    wanted = sorted(expected.items())
    return tuple(_judged(says, name, value, tool.name, shown.get(name)) for name, value in wanted)


def _judged(says: str, name: str, value: Any, tool: str, parameter: Parameter | None) -> InputAnswer:
    if parameter is None:
        message = f"“{tool}” shows no input “{name}”."
    elif parameter.type == "enum" and value not in [each.name for each in parameter.allowed_values]:
        message = f"“{name}” does not take “{value}”."
    elif not is_said(says, value, parameter):
        message = f"The sentence does not say “{value}” for “{name}”."
    else:
        message = ""
    return InputAnswer(name=name, expected=value, right=not message, message=message)


def is_said(says: str, value: Any, parameter: Parameter) -> bool:
    if isinstance(value, bool):
        # No sentence says it so; that it names the input has to do.
        return _holds(words.words(says.lower()), words.words(parameter.name))
    if isinstance(value, int | float):
        return float(value) in set(_numbers(says))
    if not isinstance(value, str):
        return False
    if parameter.type != "enum" and (found := _ISO_DATE.fullmatch(value)):
        year, month, day = map(int, found.groups())
        return any(said in ((year, month, day), (None, month, day)) for said in _dates(says))
    spoken = [word.lower() for word in words.words(says)]
    return _holds(spoken, words.words(value)) or value.lower() in says.lower()


def _numbers(says: str) -> Iterator[float]:
    for found in _NUMBER.findall(says):
        yield float(found.replace(",", ""))
    for word in words.words(says.lower()):
        if word in _NUMBER_WORDS:
            yield float(_NUMBER_WORDS[word])


def _dates(says: str) -> Iterator[tuple[int | None, int, int]]:
    # Year, where one is said, month and day.
    for pattern in _DATES:
        for found in pattern.finditer(says):
            parts = found.groupdict()
            named = parts.get("month")
            month = _MONTHS.index(named.lower()) + 1 if named else int(parts["number"])
            year = int(parts["year"]) if parts.get("year") else None
            try:
                date(year or 2000, month, int(parts["day"]))
            except ValueError:
                continue
            yield year, month, int(parts["day"])


def _holds(spoken: Sequence[str], wanted: Sequence[str]) -> bool:
    length = len(wanted)
    places = range(len(spoken) - length + 1)
    return length > 0 and any(list(spoken[at : at + length]) == list(wanted) for at in places)
