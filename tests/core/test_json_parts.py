"""JSON of which some parts cannot be read."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.json_parts import BrokenPart, UnreadableTextError, find_broken, parse
from core.outbound.errors import ProtocolViolationError
from core.strict_json import loads_answer, loads_list, unstorable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_text_without_a_fault_is_read_as_python_reads_it(value, indent, is_ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert parse(text) == json.loads(text)


@example("1,")
@example("[],\n")
@example(",")
@given(st.text(alphabet='[]{},:"\\truenalsf019-.eE \n\t', max_size=30))
def test_any_text_is_read_as_python_reads_it_or_refused(text):
    try:
        value = parse(text)
    except UnreadableTextError:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        return
    if find_broken(value) is None:
        assert value == json.loads(text)


WRONG_VALUES = (
    *("undefined", "True", "nul", "01", "+1", ".5", "1.", "0x10", "'a'"),
    *('"a\nb"', '"a\0b"', r'"\x41"', r'"\u12"', '"\\\n"', '{"a\nb": 1}', r'{"\x": 1, "\x": 2}'),
    *("[1,]", '{"a": 1,}', '{"a": 1, "b": }', "[[1,], 2]"),
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("NaN", "JSON_SYNTAX"),
        ("Infinity", "JSON_SYNTAX"),
        ("-Infinity", "JSON_SYNTAX"),
        ("9" * 5_000, "JSON_NUMBER"),
        ("-" + "9" * 100_000, "JSON_NUMBER"),
        ('{"a": 1, "a": 1}', "JSON_DUPLICATE"),
        (r'{"a": 1, "b": {}, "\u0061": 2}', "JSON_DUPLICATE"),
        ("[" * 900 + "]" * 900, "JSON_DEPTH"),
        ('{"a":' * 900 + "1" + "}" * 900, "JSON_DEPTH"),
        ("[" * 200_000 + "]" * 200_000, "JSON_DEPTH"),
        ('[{"]": [' * 900 + "]}]" * 900, "JSON_DEPTH"),
        *((text, "JSON_SYNTAX") for text in WRONG_VALUES),
        ('"caf\udce9"', "NOT_UTF8"),
        ('{"caf\udce9": 1}', "NOT_UTF8"),
    ],
)
def test_fault_costs_the_entry_that_it_is_in(text, code):
    page = f'{{"items": [{{"id": 1}}, {{"id": 2, "x": {text}}}, {{"id": 3}}], "next": "a"}}'
    body = page.encode(errors="surrogateescape")
    document = loads_list(body)
    items = document.value["items"]
    assert [item["id"] for item in items] == [1, 2, 3]
    problems = [document.problem_in(item) for item in items]
    assert [problem and problem[0] for problem in problems] == [None, code, None]
    assert document.value["next"] == "a"


def test_key_twice_costs_its_value_so_that_no_one_of_two_is_taken():
    entry = loads_list(b'[{"id": "a", "id": "b", "c": 1}]').value[0]
    assert isinstance(entry["id"], BrokenPart)
    assert entry["c"] == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"items": [NaN]}', "JSON_SYNTAX"),
        (b'{"items": [], "next": NaN}', "JSON_SYNTAX"),
        (b'{"items": [], "items": []}', "JSON_DUPLICATE"),
        (b'{"items": [{"a": NaN}]', "JSON_SYNTAX"),
        (b'{"items": [{"a": NaN},]}', "JSON_SYNTAX"),
        (b'{"items": [{"a": NaN, "b" 1}]}', "JSON_SYNTAX"),
        (b'{"items": [{"a": NaN}}', "JSON_SYNTAX"),
        (b'{"items": [{"a": NaN, "b": "c}]}', "JSON_SYNTAX"),
        (b'{"items": [{"a": 1,,}]}', "JSON_SYNTAX"),
        (b'{"items": [{"a": NaN}]},', "JSON_SYNTAX"),
        (b'{"items": [{"a": 1}], "ne\nxt": "a"}', "JSON_SYNTAX"),
        (b'{"items": [{"a": "\xff"}], "next": "\xff"}', "NOT_UTF8"),
        ('{"items": [{"a": 1}]}'.encode("utf-16"), "NOT_UTF8"),
        (b"[" * 900 + b"]" * 900, "JSON_DEPTH"),
    ],
)
def test_fault_outside_of_entries_costs_the_list(body, code):
    with pytest.raises(ProtocolViolationError) as caught:
        loads_list(body)
    assert caught.value.code == code


def test_last_of_two_values_counts_where_that_is_wanted():
    twice = []
    assert parse('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', twice.append) == {"a": 3, "b": {"c": 2}}
    assert twice == ["c", "a"]


@pytest.mark.parametrize("odd", [r"\u0000", r"\ud83d", r"\ude00"])
def test_answer_is_read_with_a_replacement(odd):
    answer = loads_answer(f'{{"a{odd}": ["b{odd}", 1, "c"]}}'.encode())
    assert (answer.value, answer.is_repaired) == ({"a\ufffd": ["b\ufffd", 1, "c"]}, True)
    assert unstorable(answer.value) is None
    assert not loads_answer(rb'["\ud83d\ude00 \\\\u0000"]').is_repaired


@pytest.mark.parametrize("odd", [b"\0", b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
def test_answer_with_bytes_that_are_no_text_is_read_with_a_replacement(odd):
    answer = loads_answer(b'{"a' + odd + b'": ["b\\n' + odd + b'c", 1]}')
    ((name, (text, number)),) = answer.value.items()
    assert (name.strip("\ufffd"), text.replace("\ufffd", ""), number) == ("a", "b\nc", 1)
    assert answer.is_repaired
    assert unstorable(answer.value) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'\xff{"a": 1}', "NOT_UTF8"),
        (b'{"a": 1}\0', "JSON_SYNTAX"),
        ('["a"]'.encode("utf-16"), "NOT_UTF8"),
        ('["a"]'.encode("utf-16-le"), "NOT_UTF8"),
        (b'["a" "b"]', "JSON_SYNTAX"),
        (b'["a", NaN', "JSON_SYNTAX"),
    ],
)
def test_answer_that_cannot_be_taken_apart_is_refused(body, code):
    with pytest.raises(ProtocolViolationError) as caught:
        loads_answer(body)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e400", "Infinity"),
        ("-1e400", "-Infinity"),
        ("9" * 5_000, "9" * 5_000),
        ("undefined", "undefined"),
        ('{"b": 1, "b": 2}', {"b": 2}),
        ('"a\nb"', "a\nb"),
        (r'"C:\dir\x \\y \u0041"', "C:\\dir\\x \\y A"),
        ("[1,]", [1]),
    ],
)
def test_value_of_an_answer_that_is_not_json_becomes_its_text(text, value):
    answer = loads_answer(f'{{"a": {text}, "n": 1}}'.encode())
    assert answer.value == {"a": value, "n": 1}
    assert answer.is_repaired or value == {"b": 2}


def test_part_of_an_answer_that_is_too_deep_is_cut():
    answer = loads_answer(b'{"a": ' + b"[" * 900 + b"]" * 900 + b', "n": 1}')
    assert (answer.value["n"], answer.is_repaired) == (1, True)
    assert unstorable(answer.value) is None
