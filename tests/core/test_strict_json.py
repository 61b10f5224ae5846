import json
import math
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolViolationError
from core.outbound.reply import Reply
from core.strict_json import loads, loads_list, may_hold_unstorable, require_json, require_list, unstorable

UNSTORABLE_CODES = {"JSON_NUL", "JSON_SURROGATE", "JSON_NUMBER"}


def fault(body, **options):
    with pytest.raises(ProtocolViolationError) as violation:
        loads(body, **options)
    return violation.value.code, violation.value.message


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, -0.5, 1e3, true, false, null, "x"]}', {"a": [1, -0.5, 1000.0, True, False, None, "x"]}),
        (b" \t\r\n[]\n", []),
        (b'"top"', "top"),
        (b"\xef\xbb\xbf{}", {}),
        (rb'"\ud83d\ude00 \u00e9 \\u0000 \/"', "😀 é \\u0000 /"),
        (rb'"\\\ud83d\ude00"', "\\😀"),
        ('"é漢😀"'.encode(), "é漢😀"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"1" + b"0" * 4299, 10**4299),
        (b"[1e308, 1.5E+3, 0.000001e-400, 1e-999]", [1e308, 1500.0, 0.0, 0.0]),
        (b'"a1e400 and 2E999"', "a1e400 and 2E999"),
        (b"[" * 200 + b"]" * 200, None),
    ],
)
def test_sound_document_is_read(body, value):
    assert value is None or loads(body) == value
    loads(body)


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        (b"", "JSON_SYNTAX", "at char 0"),
        (b"{", "JSON_SYNTAX", "at char 1"),
        (b"nul", "JSON_SYNTAX", "at char 0"),
        (b"[1,]", "JSON_SYNTAX", "at char"),
        (b'{"a":1,}', "JSON_SYNTAX", "at char"),
        (b"{'a':1}", "JSON_SYNTAX", "at char 1"),
        (b"[01]", "JSON_SYNTAX", "at char 2"),
        (b"[+1]", "JSON_SYNTAX", "at char 1"),
        (b"[1.]", "JSON_SYNTAX", "at char 2"),
        (b"[.5]", "JSON_SYNTAX", "at char 1"),
        (b"[0x1]", "JSON_SYNTAX", "at char 2"),
        (b'["a\tb"]', "JSON_SYNTAX", "at char"),
        (b'["a\x00b"]', "NOT_UTF8", "UTF-16"),
        (b'[1,2,"a\x00b"]', "JSON_SYNTAX", "at char"),
        (rb'["\x"]', "JSON_SYNTAX", "at char"),
        (rb'["\u12"]', "JSON_SYNTAX", "at char"),
        (b"/* c */ []", "JSON_SYNTAX", "at char 0"),
        (b'{"a":1} {"b":2}', "JSON_SYNTAX", "at char 8"),
        ('["é", x]'.encode(), "JSON_SYNTAX", "at char 6"),
        (b"[NaN]", "JSON_SYNTAX", "NaN"),
        (b"[Infinity]", "JSON_SYNTAX", "Infinity"),
        (b"[-Infinity]", "JSON_SYNTAX", "-Infinity"),
        (b"<html></html>", "JSON_SYNTAX", "at char 0"),
        (b'["\xe9"]', "NOT_UTF8", "byte 2"),
        (b'["\xed\xa0\x80"]', "NOT_UTF8", "byte 2"),
        (b'["\xc0\x80"]', "NOT_UTF8", "byte 2"),
        ('{"a":1}'.encode("utf-16"), "NOT_UTF8", "byte 0"),
        ('{"a":1}'.encode("utf-16-le"), "NOT_UTF8", "UTF-16"),
        ('{"a":1}'.encode("utf-16-be"), "NOT_UTF8", "UTF-16"),
        ('{"a":1}'.encode("utf-32"), "NOT_UTF8", "byte 0"),
        (b'{"name":1,"name":2}', "JSON_DUPLICATE", '"name"'),
        (b'{"name":1,"name":1}', "JSON_DUPLICATE", '"name"'),
        (rb'{"name":1,"n\u0061me":2}', "JSON_DUPLICATE", '"name"'),
        (b'[{"x":{"b\\n\\u202e":1,"b\\n\\u202e":2}}]', "JSON_DUPLICATE", r'"b\n\u202e"'),
        (b"[" * 210 + b"]" * 210, "JSON_DEPTH", "nested"),
        (b"[" * 200_000 + b"]" * 200_000, "JSON_DEPTH", "nested"),
        (b'{"a":' * 200_000, "JSON_DEPTH", "nested"),
        (b"[" * 300 + b"x", "JSON_DEPTH", "nested"),
        (rb'["\ud800", ' + b"[" * 100_000 + b"]" * 100_000 + b"]", "JSON_DEPTH", "nested"),
        (b"[" + b"9" * 4301 + b"]", "JSON_NUMBER", "4,301 digits"),
        (b"-" + b"9" * 5_000_000, "JSON_NUMBER", "digits"),
        (b"[1e400]", "JSON_NUMBER", "too large"),
        (b"[-1E+309]", "JSON_NUMBER", "too large"),
        (b"[1.5e0999]", "JSON_NUMBER", "too large"),
        (b"[" + b"9" * 400 + b".0]", "JSON_NUMBER", "too large"),
        (b"[" + b"9" * 250 + b"e99]", "JSON_NUMBER", "too large"),
        (b"1e" + b"9" * 100_000, "JSON_NUMBER", "too large"),
        (rb'["a\u0000b"]', "JSON_NUL", r'"a\x00b"'),
        (rb'{"a\u0000b": 1}', "JSON_NUL", r'"a\x00b"'),
        (rb'["\\\u0000"]', "JSON_NUL", "NUL"),
        (rb'["\ud83d"]', "JSON_SURROGATE", r"\ud83d"),
        (rb'["\ude00\ud83d"]', "JSON_SURROGATE", r"\ude00"),
        (rb'{"k\uDBFF": "\uDBFF\uDBFF\uDFFF"}', "JSON_SURROGATE", r"k\udbff"),
        (rb'["\ud83d\u0041"]', "JSON_SURROGATE", r"\ud83dA"),
        (rb'["\ud83d\ude00\ude00"]', "JSON_SURROGATE", r"\ude00"),
    ],
)
def test_fault_is_named(body, code, detail):
    code_found, message = fault(body)
    assert code_found == code
    assert detail in message
    assert message.isprintable()


def test_long_names_are_cut_in_messages():
    key = b'"' + b"k" * 100_000 + b'"'
    code, message = fault(b"{%s:1,%s:2}" % (key, key))
    assert code == "JSON_DUPLICATE"
    assert len(message) < 200


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (rb'{"name": "a\u0000b"}', "JSON_NUL"),
        (rb'{"a\u0000b": 1}', "JSON_NUL"),
        (rb'{"name": ["\ud800"]}', "JSON_SURROGATE"),
        (rb'{"\udfff": 1}', "JSON_SURROGATE"),
        (b'{"max": 1e400}', "JSON_NUMBER"),
    ],
)
def test_bad_item_costs_only_itself(item, code):
    body = b'{"items": [{"name": "good"}, %s, {"name": "\xf0\x9f\x98\x80"}]}' % item
    items = loads(body, allow_unstorable=True)["items"]
    assert may_hold_unstorable(body)
    assert [problem and problem[0] for problem in map(unstorable, items)] == [None, code, None]
    assert fault(body)[0] == code


def test_two_bad_items_of_different_kinds_are_both_found():
    body = rb'[1e400, "\ud800", "\u0000", 5]'
    problems = [unstorable(item) for item in loads(body, allow_unstorable=True)]
    assert [problem and problem[0] for problem in problems] == [
        "JSON_NUMBER",
        "JSON_SURROGATE",
        "JSON_NUL",
        None,
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"1e400",
        b"-1E+400",
        b"[1e400]",
        b"[0,1.5e400]",
        b'{"a":1e0400}',
        b"[\n-12.75e999]",
        b"1" * 400,
        b"[%s.%se200]" % (b"1" * 150, b"1" * 150),
    ],
)
def test_number_that_may_be_too_large_is_looked_at(body):
    assert may_hold_unstorable(body)


@pytest.mark.parametrize("body", [b'{"a":1,"a":1}', b"[NaN]", b'["\xff"]', b"[" * 999, b"9" * 5000])
def test_unreadable_document_is_refused_whatever_is_allowed(body):
    assert fault(body, allow_unstorable=True) == fault(body)


@pytest.mark.parametrize(
    "body",
    [
        rb'["\u00e9\n\ud83d\ude00"]',
        b"[1e10, 1e99, 2.5e-300]",
        b'{"total": 12345678901234567890}',
        b'["cc06e060-396c-54cf-8d65-31c38a8c0fa5", "72363538-1205-52e7-1421-117764522408", "1e999"]',
        b"[]",
    ],
)
def test_ordinary_document_needs_no_closer_look(body):
    assert not may_hold_unstorable(body)


def nested(depth, value=None):
    for _ in range(depth):
        value = [value]
    return value


def test_value_may_be_nested_so_deep_and_no_deeper():
    assert unstorable(nested(64)) is None
    assert unstorable(nested(65))[0] == "JSON_DEPTH"
    assert unstorable({"a": nested(64)})[0] == "JSON_DEPTH"
    assert unstorable(nested(150))[0] == "JSON_DEPTH"


@pytest.mark.parametrize("value", [None, True, 0, 10**400, 1.5, "", "é😀", [], {}, {"a": [{"b": "c"}]}])
def test_ordinary_value_can_be_stored(value):
    assert unstorable(value) is None


def test_big_hostile_body_is_refused_with_little_work():
    started = time.process_time()
    assert fault(b'["' + b'\\"' * 4_000_000)[0] == "JSON_SYNTAX"
    assert fault(b"[" + b"[]," * 399_000)[0] == "JSON_SYNTAX"
    assert fault(b"[" + b"[]," * 3_000_000)[0] == "JSON_TOO_MANY"
    assert fault(b"[" + b"9" * 10_000_000)[0] == "JSON_NUMBER"
    assert time.process_time() - started < 5


text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=20,
)


@given(values, st.booleans())
def test_what_json_can_say_comes_back_unchanged(value, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert loads(body) == value
    assert unstorable(value) is None


loose_text = st.text(st.sampled_from("a\0\ud83d\ude00\udfff\\u0d8é"))
loose = st.recursive(
    st.floats() | loose_text | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(loose_text, inner),
    max_leaves=10,
)


@given(loose)
@example(["\\\ud83d\ude00"])
def test_nothing_unstorable_slips_through(value):
    body = json.dumps(value).encode()
    if "NaN" in body.decode() or "Infinity" in body.decode():
        assert fault(body)[0] == "JSON_SYNTAX"
        return
    problem = unstorable(json.loads(body))
    assert may_hold_unstorable(body) or problem is None
    loads(body, allow_unstorable=True)
    if problem:
        assert fault(body)[0] in UNSTORABLE_CODES
    else:
        assert loads(body) == json.loads(body)


@given(
    st.integers(1, 400), st.integers(0, 400), st.integers(-400, 400), st.sampled_from(["e", "E", "e+", "E+0"])
)
def test_no_overflowing_number_slips_through(digits, decimals, exponent, mark):
    mark = mark if exponent >= 0 else "e"
    text = f"{'7' * digits}.{'3' * decimals}1{mark}{exponent}"
    if math.isinf(float(text)):
        assert fault(text.encode())[0] == "JSON_NUMBER"
    else:
        assert loads(text.encode()) == float(text)


alphabet = st.sampled_from(
    [b'"', b"\\", b"u0000", b"\\ud83d", b"\\ude00", b"1e400", b"[", b"]", b"{", b"}", b":", b","]
)


@given(st.binary(max_size=40) | st.lists(alphabet | st.binary(max_size=3), max_size=15).map(b"".join))
def test_any_bytes_are_read_as_python_reads_them_or_refused(body):
    try:
        value = loads(body)
    except ProtocolViolationError:
        return
    assert value == json.loads(body.removeprefix(b"\xef\xbb\xbf").decode())


def answer(body, kind="application/json"):
    return Reply(200, {"content-type": kind} if kind else {}, body, "https://api.example.com/tools")


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.api+json",
        "application/problem+json",
        "text/json",
        "text/plain;charset=utf-8",
        "",
    ],
)
def test_json_is_taken_under_any_fitting_type(kind):
    assert require_json(answer(b"[1]", kind)) == [1]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("text/html; charset=utf-8", "api.example.com sent a web page (text/html). Is the address right, "),
        ("application/xhtml+xml", "or is a login needed?"),
        ("application/xml", "api.example.com sent application/xml where JSON was expected."),
        ("image/png\x1b[31m", r"sent image/png\x1b[31m where"),
    ],
)
def test_other_types_are_refused(kind, sentence):
    with pytest.raises(ProtocolViolationError) as violation:
        require_json(answer(b"[1]", kind))
    assert violation.value.code == "NOT_JSON"
    assert sentence in violation.value.message


@pytest.mark.parametrize(
    "body", [b"<html></html>", b"\xef\xbb\xbf\r\n  <!doctype html>", b"<?xml version='1.0'?>"]
)
def test_web_page_under_a_false_name_is_known(body):
    with pytest.raises(ProtocolViolationError) as violation:
        require_json(answer(body, "application/json"))
    assert violation.value.code == "NOT_JSON"
    assert violation.value.message == (
        "api.example.com sent what looks like a web page. Is the address right, or is a login needed?"
    )


@pytest.mark.parametrize("body", [b"", b" \r\n"])
def test_empty_reply_is_not_an_empty_catalogue(body):
    with pytest.raises(ProtocolViolationError) as violation:
        require_json(answer(body))
    assert violation.value.code == "EMPTY_REPLY"


def test_reply_may_be_read_for_its_good_items():
    assert require_list(answer(rb'["\u0000", 1]')).value == ["\0", 1]
    with pytest.raises(ProtocolViolationError):
        require_json(answer(rb'["\u0000", 1]'))


VAST = {"schema": [{"a": 1, "b": 2}] * 300_000}


def test_an_item_of_too_many_values_costs_the_item_and_not_its_list():
    items = [{"name": "one"}, {"name": "vast", **VAST}, {"name": "two", "n": "nul \0"}]
    for place in (lambda tools: tools, lambda tools: {"id": 1, "result": {"tools": tools}, "next": None}):
        document = loads_list(json.dumps(place(items)).encode())
        read = document.value if isinstance(document.value, list) else document.value["result"]["tools"]
        assert [item["name"] for item in read] == ["one", "vast", "two"]
        codes = [(document.problem_in(item) or ("",))[0] for item in read]
        assert codes == ["", "JSON_TOO_MANY", "JSON_NUL"]


@pytest.mark.parametrize(
    "document",
    [VAST["schema"] * 2, [{"a": [1] * 99_000}] * 6, {"a": {"b": {"c": {"d": VAST}}}}, [VAST["schema"]]],
    ids=["small items", "large items", "deep", "list of lists"],
)
def test_a_list_of_too_many_values_in_all_is_not_read(document):
    with pytest.raises(ProtocolViolationError) as refused:
        loads_list(json.dumps(document).encode())
    assert refused.value.code == "JSON_TOO_MANY"
