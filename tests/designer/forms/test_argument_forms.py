"""Whatever was sent once, its form sends again; whatever a vendor answers can be kept and shown."""

import json
import string

import pytest
from django.forms import CheckboxSelectMultiple, MultipleChoiceField
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec import json as fast_json

from catalog.models.calls import Result
from execution.calls import results
from execution.forms.argument_forms import ArgumentsForm
from protocols import parameters
from protocols.call_outcome import Ask, Outcome
from protocols.list_pages import Note
from protocols.signature import AllowedValue, Parameter, Signature

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=10,
)
NAMES = st.text(string.printable, min_size=1, max_size=10)


@st.composite
def inputs_with_values(draw) -> tuple[Parameter, object]:
    kind = draw(st.sampled_from(["string", "int", "number", "boolean", "enum", "json", "lines", "ticks"]))
    allowed = tuple(map(AllowedValue, draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))))
    value = draw(
        {
            "string": TEXTS,
            "int": st.integers(-(10**30), 10**30),
            "number": NUMBERS,
            "boolean": st.booleans(),
            "enum": st.sampled_from([allowed_value.name for allowed_value in allowed]),
            "json": DOCUMENTS.filter(lambda document: document is not None),
            "lines": st.lists(TEXTS, max_size=3),
            "ticks": st.lists(st.sampled_from([allowed_value.name for allowed_value in allowed]), max_size=4),
        }[kind]
    )
    schema = {"type": "string", "format": "x-line"} if kind == "string" and draw(st.booleans()) else None
    if kind in ("lines", "ticks"):
        items = (
            {"enum": [allowed_value.name for allowed_value in allowed]}
            if kind == "ticks"
            else {"type": "string"}
        )
        schema = {"type": "array", "items": items}
    parameter = Parameter(
        id=draw(NAMES),
        name=draw(NAMES),
        type="json" if kind in ("lines", "ticks") else kind,
        required=draw(st.booleans()),
        description=draw(TEXTS),
        allowed_values=allowed if kind == "enum" else (),
        max_length=draw(st.none() | st.integers(300, 400)) if kind == "string" else None,
        schema=schema,
    )
    return parameter, value


def as_a_browser_sends(form: ArgumentsForm) -> dict[str, object]:
    """Submit every field unchanged: line ends become CR LF, and a field of one line has none."""
    fields = {}
    for name, field in form.fields.items():
        value = form[name].value()
        if isinstance(value, bool):
            fields |= {name: "on"} if value else {}
            continue
        if isinstance(field, MultipleChoiceField):
            fields[name] = [option for option, _ in field.choices if option in (value or [])]
            continue
        lines = (
            (str(value) if value is not None else "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        )
        fields[name] = ("" if field.widget.__class__.__name__ == "TextInput" else "\r\n").join(lines)
    return fields


@given(st.lists(inputs_with_values(), max_size=4, unique_by=lambda pair: pair[0].name))
def test_what_an_earlier_call_sent_its_form_sends_again(pairs):
    signature = Signature(name="t", description="", inputs=tuple(parameter for parameter, _ in pairs))
    arguments = {parameter.name: value for parameter, value in pairs}

    again = ArgumentsForm(
        as_a_browser_sends(ArgumentsForm(signature=signature, initial_values=arguments)), signature=signature
    )

    assert again.is_valid(), again.errors.as_text()
    assert json.dumps(again.arguments, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def field_of(schema, typed=None, *, default=UNSET):
    parameter = Parameter(
        id="0", name="tags", type="json", required=False, description="", schema=schema, default=default
    )
    form = ArgumentsForm(
        None if typed is None else {"input-0": typed},
        signature=Signature(name="t", description="", inputs=(parameter,)),
    )
    return form, form["input-0"]


TITLED = {"anyOf": [{"const": "fish-1", "title": "Tuna"}, {"const": "fish-2", "title": "Salmon"}]}


@pytest.mark.parametrize(
    "items", [{"type": "string", "enum": ["fish-1", "fish-2"]}, TITLED, {"oneOf": TITLED["anyOf"]}]
)
def test_some_of_several_texts_are_ticked(items):
    form, field = field_of({"type": "array", "items": items, "maxItems": 1}, ["fish-2"], default=["fish-1"])
    assert isinstance(field.field.widget, CheckboxSelectMultiple)
    assert field.help_text == "Up to 1 of them.\nDefault: fish-1."
    assert form.is_valid(), form.errors
    assert form.arguments == {"tags": ["fish-2"]}
    assert dict(field.field.choices)["fish-1"] == ("Tuna" if "enum" not in items else "fish-1")
    assert form.rows()[0][2] is None
    many, _ = field_of({"type": "array", "items": items, "maxItems": 1}, ["fish-1", "fish-2"])
    assert not many.is_valid()
    assert not field_of({"type": "array", "items": items}, ["fish-3"])[0].is_valid()
    assert field_of({"type": "array", "items": items}, [])[0].is_valid()


@pytest.mark.parametrize("may_be_null", [False, True])
def test_any_texts_are_written_one_in_each_line(may_be_null):
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 2}
    schema = {"anyOf": [schema, {"type": "null"}], "default": None} if may_be_null else schema
    form, field = field_of(schema, "north\r\n\r\n  south, and west\r\n")
    assert field.help_text.startswith("One in each line. At least 2 of them.")
    assert form.is_valid(), form.errors
    assert form.arguments == {"tags": ["north", "  south, and west"]}
    assert not field_of(schema, "north")[0].is_valid()


REFERRED = {
    "$defs": {
        "tags": {"type": "array", "items": {"$ref": "#tag"}},
        "tag": {"$anchor": "tag", "enum": ["a", "b"]},
    }
}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/tags"},
        {"allOf": [{"$ref": "#/$defs/tags"}, {"maxItems": 1}]},
        {"type": ["array", "null"], "items": {"$ref": "#tag"}},
        {"anyOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"type": "null"}]},
    ],
)
def test_a_list_is_ticked_however_its_schema_is_spelled(schema):
    shape = parameters.read_schema(
        {"type": "object", "properties": {"tags": schema}} | REFERRED, "s", whole_name="v"
    )
    signature = Signature(name="t", description="", inputs=shape.parameters, schema_rest=shape.rest)

    form = ArgumentsForm({"input-0": ["b"]}, signature=signature)

    assert [value for value, _ in form["input-0"].field.choices] == ["a", "b"]
    assert form.is_valid(), form.errors
    assert form.arguments == {"tags": ["b"]}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "array"},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array", "items": {"enum": [1, "2"]}},
        {"type": "array", "items": {"enum": []}},
        {"type": "array", "items": {"anyOf": [{"const": [1]}, {"const": "2"}]}},
        {"type": "array", "items": {"type": "string", "pattern": "^a"}},
        {"type": "array", "items": {"type": "string"}, "contains": {"const": "a"}},
        {"type": "array", "items": {"anyOf": [{"const": "a"}, {"type": "null"}]}},
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        {"type": ["array", "string"], "items": {"type": "string"}},
    ],
)
def test_other_lists_are_written_as_json(schema):
    assert "JSON" in field_of(schema)[1].help_text


@given(st.lists(TEXTS, max_size=6), st.data())
def test_whatever_is_typed_is_read_or_refused_in_words(typed, data):
    kinds = ["string", "int", "number", "boolean", "enum", "json"]
    inputs = tuple(
        Parameter(
            id=str(n), name=str(n), type=data.draw(st.sampled_from(kinds)), required=False, description=""
        )
        for n in range(len(typed))
    )
    form = ArgumentsForm(
        {f"input-{n}": text for n, text in enumerate(typed)},
        signature=Signature(name="t", description="", inputs=inputs),
    )

    assert form.is_valid() or all(form.errors.values())
    assert form.as_p()


ODD = st.text(max_size=50) | st.sampled_from(["\0", "\ud800", "a\udfffb", "<script>"])
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | ODD,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(ODD, below, max_size=4),
    max_leaves=15,
)
VALUE = Template("{% load calls %}{% output_value value %}")


@given(st.dictionaries(ODD, ANY, max_size=4), ODD)
def test_whatever_a_vendor_answers_is_kept_and_shown_as_text(outputs, text):
    outcome = Outcome(
        "tool_error",
        outputs=outputs,
        error={"code": text, "message": text, "fields": {text: text}, "more": outputs},
        notes=[Note(text, text)],
        asks=[Ask(text, text, {"type": text}, text)],
        resume=outputs,
    )

    stored = results.encode_result(outcome, [results.attempt(outcome, [], 0, 0)])
    result = fast_json.decode(stored, type=Result)

    assert stored.isascii() or stored.encode()
    assert "\0" not in stored
    assert result.outputs.keys() == {name.encode(errors="replace").decode() for name in outputs}
    html = VALUE.render(Context({"value": result.outputs}))
    assert "<script" not in html


def test_shared_definitions_are_not_shown_for_each_of_very_many_inputs():
    definitions = {"Place": {"properties": {f"p{n}": {"type": "string"} for n in range(1_000)}}}
    shape = parameters.read_schema(
        {
            "type": "object",
            "properties": {f"x{n}": {"$ref": "#/$defs/Place"} for n in range(900)},
            "$defs": definitions,
        },
        "inputSchema",
        whole_name="input",
    )
    form = ArgumentsForm(
        signature=Signature(name="t", description="", inputs=shape.parameters, schema_rest=shape.rest)
    )

    schemas = [schema for _, _, schema in form.rows()]

    assert schemas[0] == {"$ref": "#/$defs/Place", "$defs": definitions}
    assert (schemas[-1], len(json.dumps(schemas)) < 200_000) == ({"$ref": "#/$defs/Place"}, True)
