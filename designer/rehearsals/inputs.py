"""Check whether a sentence contains the values that a call is expected to pass. Pure.

No model is involved: a value passes if the sentence contains it. For an allowed value that is its name, for a
number any number of the sentence, for a date the same day in digits or with the month by name.
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


def check_inputs(sentence: str, expected: Mapping[str, Any], effective: Effective) -> tuple[InputAnswer, ...]:
    """Check the expected values, by the input names that a model sees."""
    parameters = {tool_input.shown_name: tool_input.parameter for tool_input in effective.inputs}
    parameters |= {tool_input.alias: tool_input.parameter for tool_input in effective.inputs}
    tool, answers = effective.name, []
    for name, value in sorted(expected.items()):
        parameter = parameters.get(name)
        if parameter is None:
            message = f"“{tool}” has no input “{name}”."
        elif parameter.type == "enum" and value not in [allowed.name for allowed in parameter.allowed_values]:
            message = f"“{name}” does not accept “{value}”."
        elif not contains_value(sentence, value, parameter):
            message = f"The phrase does not contain “{value}” for “{name}”."
        else:
            message = ""
        answers.append(InputAnswer(name=name, expected=value, right=not message, message=message))
    return tuple(answers)


def contains_value(sentence: str, value: Any, parameter: Parameter) -> bool:
    if isinstance(value, bool):
        # A sentence rarely contains a boolean, so it is enough that it names the input.
        return _contains_words(words.words(sentence.lower()), words.words(parameter.name))
    if isinstance(value, int | float):
        numbers = {float(digits.replace(",", "")) for digits in _NUMBER.findall(sentence)}
        numbers |= {
            float(_NUMBER_WORDS[word]) for word in words.words(sentence.lower()) if word in _NUMBER_WORDS
        }
        return float(value) in numbers
    if not isinstance(value, str):
        return False
    if parameter.type != "enum" and (iso_date := _ISO_DATE.fullmatch(value)):
        year, month, day = map(int, iso_date.groups())
        return any(
            stated_date in ((year, month, day), (None, month, day)) for stated_date in _find_dates(sentence)
        )
    sentence_words = [word.lower() for word in words.words(sentence)]
    return _contains_words(sentence_words, words.words(value)) or value.lower() in sentence.lower()


def _find_dates(sentence: str) -> Iterator[tuple[int | None, int, int]]:
    """Yield the year (None if the sentence has none), month and day."""
    for pattern in _DATES:
        for match in pattern.finditer(sentence):
            parts = match.groupdict()
            month_name = parts.get("month")
            month = _MONTHS.index(month_name.lower()) + 1 if month_name else int(parts["number"])
            year = int(parts["year"]) if parts.get("year") else None
            try:
                date(year or 2000, month, int(parts["day"]))
            except ValueError:
                continue
            yield year, month, int(parts["day"])


def _contains_words(sentence: Sequence[str], phrase: Sequence[str]) -> bool:
    length = len(phrase)
    starts = range(len(sentence) - length + 1)
    return length > 0 and any(list(sentence[start : start + length]) == list(phrase) for start in starts)
