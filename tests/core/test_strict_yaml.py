"""YAML represents JSON, in one way only, and costs no more than its size."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core import strict_yaml
from core.outbound.errors import ProtocolViolationError
from tests.core.schema import schemas


def loads(body):
    repeated = []
    document = strict_yaml.loads(body, 1, repeated.append)
    return document.value, repeated


def value(text):
    return loads(text.encode())[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("''", ""),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        (".", "."),
        ("3.0.1", "3.0.1"),
        (".inf", ".inf"),
        ("-7", -7),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("!!int '7'", 7),
        ("! 7", "7"),
        ("!thing 7", "7"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_are_what_yaml_12_says(text, expected):
    scalar = value(text)
    assert (scalar, type(scalar)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200: {a: 1}", {"200": {"a": 1}}),
        ("yes: 1", {"yes": 1}),
        ("a:", {"a": None}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}", {"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}}),
        ("a: &x {k: 1}\nc: &y {k: 2}\nb: {<<: [*x, *y]}", {"a": {"k": 1}, "c": {"k": 2}, "b": {"k": 1}}),
        ("<<: text", {"<<": "text"}),
        ("&k key: *k", {"key": "key"}),
    ],
)
def test_collections_are_what_json_would_say(text, expected):
    assert value(text) == expected


def test_tags_build_nothing():
    assert value("!!python/object/apply:os.getcwd []") == []
    assert value("!!python/name:os.system ''") == ""


def test_key_that_stands_twice_is_told_and_the_last_one_counts():
    assert loads(b"a: 1\nb: {c: 1, c: 2}\na: 3") == ({"a": 3, "b": {"c": 2}}, ["c", "a"])


def bomb(anchors):
    lines = ["a0: &a0 " + "x" * 100]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, anchors)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[[[", "YAML_SYNTAX"),
        ("a: b: c", "YAML_SYNTAX"),
        ("", "YAML_SYNTAX"),
        ("--- 1\n--- 2\n", "YAML_SYNTAX"),
        ("? [a]\n: 1", "YAML_SYNTAX"),
        ("a: \x01", "YAML_SYNTAX"),
        ("*a", "YAML_ALIAS"),
        ("&a [*a]", "YAML_ALIAS"),
        ("[" * 200, "YAML_SYNTAX"),
        ("{a: " * 200, "YAML_SYNTAX"),
        (bomb(9), "JSON_TOO_MANY"),
        ("a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 1_000 + "]", "JSON_TOO_MANY"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused(text, code):
    with pytest.raises(ProtocolViolationError) as caught:
        value(text)
    assert caught.value.code == code
    assert caught.value.message.endswith(".")


def nested(value, levels):
    for _ in range(levels):
        (value,) = value.values() if isinstance(value, dict) else value
    return value


@pytest.mark.parametrize(
    ("text", "levels", "code"),
    [
        ("[" * 900 + "]" * 900, 99, "JSON_DEPTH"),
        ("\n - " + "- " * 900 + "x", 99, "JSON_DEPTH"),
        ("{a: " * 900 + "x" + "}" * 900, 99, "JSON_DEPTH"),
        ("[" + "9" * 5_000 + "]", 1, "JSON_NUMBER"),
    ],
)
def test_part_that_cannot_be_read_costs_itself_alone(text, levels, code):
    document = strict_yaml.loads(f"good: 1\nbad: {text}\nlast: [2]\n".encode(), 1, print)
    assert document.is_suspect
    assert nested(document.value["bad"], levels).code == code
    assert (document.value["good"], document.value["last"]) == (1, [2])


def test_other_encodings_are_refused():
    with pytest.raises(ProtocolViolationError) as caught:
        loads("a: ü".encode("latin-1"))
    assert caught.value.code == "NOT_UTF8"
    assert loads(b"\xef\xbb\xbfa: 1")[0] == {"a": 1}


# JSON's surrogate pairs, and line breaks that only YAML 1.1 knew, are written differently in YAML.
plain = st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | schemas.numbers | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
def test_json_is_read_as_json(document):
    text = json.dumps({"document": document})
    assert loads(text.encode()) == (json.loads(text), [])


class Quoting(yaml.SafeDumper):
    """Quotes every text: what this writer leaves bare, by YAML 1.1, may be a number by YAML 1.2."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@given(schemas.values)
def test_what_another_writer_wrote_is_read_as_it_was(document):
    text = yaml.dump({"document": document}, Dumper=Quoting, allow_unicode=True)
    assert value(text) == {"document": document}
