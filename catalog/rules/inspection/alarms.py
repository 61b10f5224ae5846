"""What a rule says when it fires, and the tables that rules enter themselves in."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from protocols.signature import Signature

Severity = Literal["low", "medium", "high"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high")


class Alarm(NamedTuple):
    """`message` is one sentence for a person; invisible characters are spelled out in it."""

    code: str
    severity: Severity
    message: str


class Hit(NamedTuple):
    """Where in a text. `severity` and `says` replace the rule's own when they are given."""

    start: int
    end: int
    severity: Severity | None = None
    says: str = ""


class TextRule(NamedTuple):
    """Looks at one text at a time, and only when it holds one of `needs`.

    `says` goes on after the place, as in "The description tells the model ...". Texts come without
    hidden characters, in the letters that they look like, and in small letters unless `keeps_case`. With
    `folds` they come without markup and with single blanks, too (catalog/rules/inspection/folding.py).
    """

    code: str
    severity: Severity
    says: str
    needs: tuple[str, ...]
    find: Callable[[str], Hit | None]
    keeps_case: bool = False
    folds: bool = False


class SignatureRule(NamedTuple):
    """Looks at a signature as a whole and says what is wrong with it."""

    code: str
    judge: Callable[[Signature], tuple[Severity, str] | None]


TEXT_RULES: list[TextRule] = []
SIGNATURE_RULES: list[SignatureRule] = []

_Find = Callable[[str], Hit | None]
_Judge = Callable[[Signature], tuple[Severity, str] | None]


def text_rule(
    code: str, severity: Severity, says: str, *needs: str, keeps_case: bool = False, folds: bool = False
) -> Callable[[_Find], _Find]:
    def enter(find: _Find) -> _Find:
        TEXT_RULES.append(TextRule(code, severity, says, needs, find, keeps_case, folds))
        return find

    return enter


def signature_rule(code: str) -> Callable[[_Judge], _Judge]:
    def enter(judge: _Judge) -> _Judge:
        SIGNATURE_RULES.append(SignatureRule(code, judge))
        return judge

    return enter


def worst(alarms: "list[Alarm] | tuple[Alarm, ...]") -> Severity | None:
    return max((alarm.severity for alarm in alarms), key=SEVERITIES.index, default=None)
