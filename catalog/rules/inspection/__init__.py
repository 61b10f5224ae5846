"""Rules that raise alarms about text that a model will read. Pure, without Django.

`inspect` returns the alarms of a signature, at most one for each code. The rules draw attention and cannot
recognise harmful text that reads like normal English. The protection of an agent is the approval of exact
bytes.
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
from catalog.rules.inspection.characters import excerpt, spell_out_hidden
from catalog.rules.inspection.folding import BOUNDARY, fold_text
from catalog.rules.inspection.letters import LOOKS_LIKE, MIXED, latin, legible
from catalog.rules.inspection.texts import Text, texts
from core.invisible_characters import HIDDEN, HiddenCharacters, decoded_tags, find_hidden, name_of
from core.translatable import mark
from protocols.signature import Signature

__all__ = ["REVISION", "SEVERITIES", "Alarm", "Severity", "inspect", "spell_out_hidden", "texts", "worst"]

# Increment it when rules change: everything is then inspected again.
REVISION = 4

_ODD = re.compile(f"[{''.join(map(chr, LOOKS_LIKE))}]|{HIDDEN.pattern}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_BETWEEN = f"\n{BOUNDARY}\n"

del markup, prose, shape  # imported because they register rules


def inspect(signature: Signature) -> list[Alarm]:
    alarms = [Alarm(rule.code, *verdict) for rule in SIGNATURE_RULES if (verdict := rule.judge(signature))]
    worst_alarms = _WorstAlarms()
    # One pass over all texts together excludes most rules, and for most tools all of them.
    all_texts = list(texts(signature))
    forms = _Forms(_BETWEEN.join([_readable(text.value) for text in all_texts]))
    rules = [
        rule
        for rule in TEXT_RULES
        if (not rule.needs or _contains_any(forms.folded if rule.folds else forms.lowered, rule.needs))
        and rule.find(forms.form_for(rule))
    ]
    if rules or any(
        not value.isprintable() and _CONTROL.search(value) if value.isascii() else _ODD.search(value)
        for value in (text.value for text in all_texts)
    ):
        for text in all_texts:
            _inspect_text(text, rules, worst_alarms)
    return [*alarms, *worst_alarms.alarms()]


class _Forms:
    """One text in each form that rules read. The folded form is computed on demand."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.lowered = plain.lower()

    @cached_property
    def folded(self) -> str:
        return fold_text(self.plain)

    def form_for(self, rule: TextRule) -> str:
        return self.folded if rule.folds else self.plain if rule.keeps_case else self.lowered


def _contains_any(text: str, needs: Iterable[str]) -> bool:
    # A plain loop is faster, and this runs about eighty times for every tool.
    for need in needs:  # noqa: SIM110
        if need in text:
            return True
    return False


def _readable(text: str) -> str:
    """Return the text as a model may read it, with hidden letters decoded and look-alikes replaced."""
    if text.isascii():
        return _CONTROL.sub("", text)  # ASCII has no other hidden characters
    hidden_text = decoded_tags(text)
    return f"{legible(text)} {hidden_text}" if hidden_text else legible(text)


class _WorstAlarms:
    """The worst alarm for each code, with the number of other places."""

    def __init__(self) -> None:
        self._worst: dict[str, tuple[Alarm, int]] = {}

    def add(self, alarm: Alarm) -> None:
        previous, others = self._worst.get(alarm.code, (None, -1))
        is_worse = previous is None or SEVERITIES.index(alarm.severity) > SEVERITIES.index(previous.severity)
        self._worst[alarm.code] = (alarm if is_worse or previous is None else previous, others + 1)

    def alarms(self) -> Iterator[Alarm]:
        for alarm, others in self._worst.values():
            places = (
                "" if not others else " And one more place." if others == 1 else f" And {others} more places."
            )
            yield alarm._replace(message=alarm.message + places)


def _inspect_text(text: Text, rules: list[TextRule], worst_alarms: _WorstAlarms) -> None:
    position = text.where
    first_by_code: dict[str, HiddenCharacters] = {}
    for hidden_run in find_hidden(text.value):
        first_by_code.setdefault(hidden_run.kind.code, hidden_run)
    for code, run in first_by_code.items():
        description = run.kind.description
        if hidden_text := decoded_tags(text.value[run.start : run.end]):
            description = mark(f"{description}, spelling “{hidden_text[:80]}”")
        message = f"The {position} contains {description}: {excerpt(text.value, run.start, run.end)}."
        worst_alarms.add(Alarm(code, characters.SEVERITIES[run.kind], message))
    if not text.value.isascii() and (mixed := MIXED.search(text.value)):
        letter = next(character for character in mixed[0] if ord(character) in LOOKS_LIKE)
        look_alike = mark(f"{name_of(letter)}, which looks like “{latin(letter)}”")
        message = f"The {position} contains {look_alike}: {excerpt(text.value, *mixed.span())}."
        worst_alarms.add(Alarm("MIXED_SCRIPT", "high" if text.is_name else "medium", message))
    forms = _Forms(_readable(text.value))
    for rule in rules:
        form = forms.form_for(rule)
        if hit := rule.find(form):
            is_plain = not rule.folds and len(forms.plain) == len(form)
            quote = excerpt(forms.plain if is_plain else form, hit.start, hit.end)
            claim = hit.claim or rule.claim
            message = f"The {position} {claim}: {quote}."
            worst_alarms.add(Alarm(rule.code, hit.severity or rule.severity, message))
