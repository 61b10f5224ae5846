"""Results are evaluated once for each content: verdicts on tools once for each set of rules."""

from dataclasses import replace

from core.content_cache import ContentCache, digest
from designer.exports import base
from designer.exports.base import carried
from tests.designer.exports.formats import FORMATS
from tests.designer.exports.test_exports import make_release
from tests.designer.exports.test_round_trip import tool_of
from tests.designer.exports.test_schemas import signature_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}, "required": ["a"]}


def counting(monkeypatch):
    evaluated = []
    evaluate = base.FormatLimits.remarks_on

    def count(limits, signature):
        evaluated.append((signature.name, limits))
        return evaluate(limits, signature)

    monkeypatch.setattr(base.FormatLimits, "remarks_on", count)
    return evaluated


def test_equal_tool_is_evaluated_once_for_each_format(monkeypatch):
    evaluated = counting(monkeypatch)
    limits = [replace(FORMATS[name].limits) for name in ("gemini", "openai-strict")]
    remarks = []
    for _ in range(3):
        release = make_release(signature_of(SCHEMA))  # equal, and another object each time
        remarks.append([carried(release, limits).remarks for limits in limits])
    assert remarks[0] == remarks[1] == remarks[2]
    assert len(evaluated) == 2


def test_changed_tool_is_evaluated_again(monkeypatch):
    evaluated = counting(monkeypatch)
    limits = replace(FORMATS["gemini"].limits)
    open_pattern = {**SCHEMA, "properties": {"a": {"type": "string"}}}
    codes = [
        [remark.code for remark in carried(make_release(signature_of(schema)), limits).remarks]
        for schema in (SCHEMA, open_pattern)
    ]
    assert codes == [["keywords_left_out"], []]
    assert len(evaluated) == 2


def test_changed_rules_are_not_answered_from_the_verdicts_of_others():
    release = make_release(signature_of(SCHEMA))
    strict = FORMATS["openai-strict"].limits
    blocking = replace(strict, input_types=frozenset({"int"}))
    assert carried(release, strict).is_whole
    assert not carried(release, blocking).is_whole


def test_least_recently_used_result_is_dropped():
    cache, evaluated = ContentCache(size=2), []
    for key in (b"1", b"2", b"1", b"3", b"1", b"2"):
        cache.get(key, lambda key=key: evaluated.append(key))
    assert evaluated == [b"1", b"2", b"3", b"2"]


def test_digest_depends_on_the_order_of_members():
    first, second = tool_of(SCHEMA), tool_of({**SCHEMA, "properties": {"b": {}, "a": {}}})
    assert digest(first) == digest(tool_of(SCHEMA))
    assert digest(first) != digest(second)
    assert digest({"a": 1, "b": 2}) != digest({"b": 2, "a": 1})
