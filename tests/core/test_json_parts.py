"""JSON of which some parts cannot be read."""

import json

import pytest
from hypothesis import given
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
    ],
)
def test_fault_costs_the_entry_that_it_is_in(text, code):
    body = f'{{"items": [{{"id": 1}}, {{"id": 2, "x": {text}}}, {{"id": 3}}], "next": "a"}}'.encode()
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
        (b'{"items": [{"a": NaN, "b": nul}]}', "JSON_SYNTAX"),
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
        (b'["\xff", NaN]', "NOT_UTF8"),
        (rb'["\u0000", 1e400]', "JSON_NUMBER"),
        (rb'["\u0000", ' + b"[" * 100 + b"]" * 100 + b"]", "JSON_DEPTH"),
        (rb'["\u0000", NaN]', "JSON_SYNTAX"),
    ],
)
def test_answer_with_another_fault_is_refused(body, code):
    with pytest.raises(ProtocolViolationError) as caught:
        loads_answer(body)
    assert caught.value.code == code
