"""What a person should look at in text that a model will read. Pure rules; they know no Django.

`inspect` gives the alarms of one signature, at most one for each code. Rules raise attention; they do
not find polite English. What protects an agent is that a person approves exact bytes.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from catalog.rules.inspection import characters, markup, prose, shape
from catalog.rules.inspection.alarms import (
    SEVERITIES,
    SIGNATURE_RULES,
    TEXT_RULES,
    Alarm,
    Severity,
    TextRule,
    worst,
)
from catalog.rules.inspection.characters import excerpt, spelled
from catalog.rules.inspection.folding import BOUNDARY, folded
from catalog.rules.inspection.letters import LOOKS_LIKE, MIXED, latin, legible
from catalog.rules.inspection.texts import Text, texts
from core.invisible_characters import HIDDEN, Found, decoded_tags, hidden, name_of
from protocols.signature import Signature

__all__ = ["REVISION", "SEVERITIES", "Alarm", "Severity", "inspect", "spelled", "texts", "worst"]

# Raise by one when rules change, so that what was inspected before is inspected again.
REVISION = 4

_ODD = re.compile(f"[{''.join(map(chr, LOOKS_LIKE))}]|{HIDDEN.pattern}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_BETWEEN = f"\n{BOUNDARY}\n"

del markup, prose, shape  # imported for the rules that they enter


def inspect(signature: Signature) -> list[Alarm]:
    alarms = [Alarm(rule.code, *verdict) for rule in SIGNATURE_RULES if (verdict := rule.judge(signature))]
    found = _Findings()
    # Most tools are told apart here, by looking once at all of their texts together.
    every = list(texts(signature))
    forms = _Forms(_BETWEEN.join([_read(text.value) for text in every]))
    rules = [
        rule
        for rule in TEXT_RULES
        if (not rule.needs or _holds(forms.folded if rule.folds else forms.lowered, rule.needs))
        and rule.find(forms.of(rule))
    ]
    if rules or any(map(_is_odd, every)):
        for text in every:
            _look(text, rules, found)
    return [*alarms, *found.alarms()]


def _is_odd(text: Text) -> bool:
    if text.value.isascii():
        return not text.value.isprintable() and bool(_CONTROL.search(text.value))
    return bool(_ODD.search(text.value))


class _Forms:
    """One text in each form that rules ask for, made when the first one does."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.lowered = plain.lower()

    @cached_property
    def folded(self) -> str:
        return folded(self.plain)

    def of(self, rule: TextRule) -> str:
        return self.folded if rule.folds else self.plain if rule.keeps_case else self.lowered


def _holds(text: str, needs: Iterable[str]) -> bool:
    # A plain loop, because this runs some eighty times for every tool.
    for need in needs:  # noqa: SIM110
        if need in text:
            return True
    return False


def _read(text: str) -> str:
    # What a model may make of it, hidden letters and look-alikes included.
    if text.isascii():
        return _CONTROL.sub("", text)  # the only hidden ones
    smuggled = decoded_tags(text)
    return f"{legible(text)} {smuggled}" if smuggled else legible(text)


class _Findings:
    """The worst hit for each code, and how many other places there were."""

    def __init__(self) -> None:
        self._worst: dict[str, tuple[Alarm, int]] = {}

    def add(self, alarm: Alarm) -> None:
        held, more = self._worst.get(alarm.code, (None, -1))
        is_worse = held is None or SEVERITIES.index(alarm.severity) > SEVERITIES.index(held.severity)
        self._worst[alarm.code] = (alarm if is_worse or held is None else held, more + 1)

    def alarms(self) -> Iterator[Alarm]:
        for alarm, more in self._worst.values():
            places = "" if not more else " And one more place." if more == 1 else f" And {more} more places."
            yield alarm._replace(message=alarm.message + places)


def _look(text: Text, rules: list[TextRule], found: _Findings) -> None:
    firsts: dict[str, Found] = {}
    for each in hidden(text.value):
        firsts.setdefault(each.kind.code, each)
    for each in firsts.values():
        found.add(_hidden(text, each))
    if not text.value.isascii() and (mixed := MIXED.search(text.value)):
        found.add(_mixed(text, *mixed.span()))
    forms = _Forms(_read(text.value))
    for rule in rules:
        read = forms.of(rule)
        if hit := rule.find(read):
            is_plain = not rule.folds and len(forms.plain) == len(read)
            where = excerpt(forms.plain if is_plain else read, hit.start, hit.end)
            message = f"The {text.where} {hit.says or rule.says}: {where}."
            found.add(Alarm(rule.code, hit.severity or rule.severity, message))


def _hidden(text: Text, found: Found) -> Alarm:
    what = found.kind.description
    if said := decoded_tags(text.value[found.start : found.end]):
        what = f"{what}, spelling “{said[:80]}”"
    where = excerpt(text.value, found.start, found.end)
    return Alarm(
        found.kind.code, characters.SEVERITIES[found.kind], f"The {text.where} holds {what}: {where}."
    )


def _mixed(text: Text, start: int, end: int) -> Alarm:
    letter = next(character for character in text.value[start:end] if ord(character) in LOOKS_LIKE)
    return Alarm(
        "MIXED_SCRIPT",
        "high" if text.is_name else "medium",
        f"The {text.where} holds {name_of(letter)}, which looks like “{latin(letter)}”: "
        f"{excerpt(text.value, start, end)}.",
    )
