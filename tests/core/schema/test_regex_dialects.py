"""A regular expression compiles in a dialect or not, whatever a vendor writes."""

import pytest

from core.schema import regex_dialects
from core.schema.regex_dialects import MAX_PATTERN, compiles


@pytest.mark.parametrize(
    ("pattern", "dialects"),
    [
        ("^[a-z]+$", {"ecma", "python", "linear", "re2"}),
        ("([", set()),
        (r"\p{L}+", {"ecma", "linear", "re2"}),
        ("^(?!a)b", {"ecma", "python"}),
        (r"(a)\1", {"ecma", "python"}),
        ("(?<name>a)", {"ecma", "linear", "re2"}),
        ("a{99999999999}", set()),
        ("(" * 3_000 + ")" * 3_000, set()),
        ("a" * (MAX_PATTERN + 1), set()),
        ("a++b", set()),
        ("a{2}{3}", set()),
        ("a*+", set()),
        ("(?>a)b", set()),
        ("a+?b??c{2}?", {"ecma", "python", "linear", "re2"}),
        (r"[+*]+\++[^?+]?", {"ecma", "python", "linear", "re2"}),
        (r"[\u4e00-\u9fa5]+", {"ecma", "python", "linear"}),
        ("a{1,1000}", {"ecma", "python", "linear", "re2"}),
        ("a{1,1001}", {"ecma", "python", "linear"}),
    ],
    ids=lambda text: text[:30] if isinstance(text, str) else "",
)
def test_dialects_differ(pattern, dialects):
    assert {
        dialect for dialect in ("ecma", "python", "linear", "re2") if compiles(pattern, dialect)
    } == dialects


def test_only_some_large_patterns_of_a_schema_are_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        regex_dialects, "compiles", lambda pattern, dialect, limit: compiled.append(limit) or len(pattern) < 9
    )

    patterns = [*(f"^large{n:03}$" for n in range(2_000)), "^small$"]

    unreadable = regex_dialects.unreadable_patterns(patterns, ["ecma"])

    assert [compiled.count(limit) for limit, _ in regex_dialects.ATTEMPTS] == [1_000, 30, 4]
    assert regex_dialects.unreadable_patterns(["^small$", *patterns], ["ecma"]) == unreadable - {"^small$"}


def test_long_patterns_count_as_several(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        regex_dialects, "compiles", lambda pattern, dialect, limit: compiled.append((pattern, limit))
    )
    long_patterns = [f"^{number:03}{'(a|b)?' * 166}$" for number in range(300)]
    regex_dialects.unreadable_patterns(["^a$", *long_patterns, "^b$"], ["ecma"])

    tried_first = [pattern for pattern, limit in compiled if limit == regex_dialects.ATTEMPTS[0][0]]
    assert tried_first == ["^a$", *long_patterns[:24]]
