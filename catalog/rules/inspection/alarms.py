"""Alarms, and the tables in which rules register themselves."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from protocols.signature import Signature

Severity = Literal["low", "medium", "high"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high")


class Alarm(NamedTuple):
    """An alarm. `message`: one sentence, in which invisible characters are written out."""

    code: str
    severity: Severity
    message: str


class AlarmMatch(NamedTuple):
    """A match in a text. `severity` and `claim` replace those of the rule."""

    start: int
    end: int
    severity: Severity | None = None
    claim: str = ""

    @classmethod
    def search(cls, pattern: re.Pattern[str], text: str) -> "AlarmMatch | None":
        match = pattern.search(text)
        return cls(match.start(), match.end()) if match else None


class TextRule(NamedTuple):
    """A rule that reads one text at a time, and only texts that contain one of `needs`.

    claim: completes a sentence that begins with the position, as in "The description orders the model ...".
    keeps_case: the text is not lowered. folds: the text comes without markup and with single spaces
    (catalog/rules/inspection/folding.py). All texts come without hidden characters and with look-alikes
    replaced.
    """

    code: str
    severity: Severity
    claim: str
    needs: tuple[str, ...]
    find: Callable[[str], AlarmMatch | None]
    keeps_case: bool = False
    folds: bool = False


class SignatureRule(NamedTuple):
    """A rule that reads a whole signature and returns the severity and the message of its alarm."""

    code: str
    judge: Callable[[Signature], tuple[Severity, str] | None]


TEXT_RULES: list[TextRule] = []
SIGNATURE_RULES: list[SignatureRule] = []

_Find = Callable[[str], AlarmMatch | None]
_Judge = Callable[[Signature], tuple[Severity, str] | None]


def text_rule(
    code: str, severity: Severity, claim: str, *needs: str, keeps_case: bool = False, folds: bool = False
) -> Callable[[_Find], _Find]:
    def register(find: _Find) -> _Find:
        TEXT_RULES.append(TextRule(code, severity, claim, needs, find, keeps_case, folds))
        return find

    return register


def signature_rule(code: str) -> Callable[[_Judge], _Judge]:
    def register(judge: _Judge) -> _Judge:
        SIGNATURE_RULES.append(SignatureRule(code, judge))
        return judge

    return register


def worst(alarms: "list[Alarm] | tuple[Alarm, ...]") -> Severity | None:
    return max((alarm.severity for alarm in alarms), key=SEVERITIES.index, default=None)
