import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rules.diff import CLASSES, Change, compare
from protocols.signature import AllowedValue, Annotations, Parameter, Requirements, Signature

BREAKING, NOTICE, COMPATIBLE = "breaking", "notice", "compatible"


def parameter(name="city", **fields):
    facts = {"id": "p1", "type": "string", "required": True, "description": ""} | fields
    return Parameter(name=name, **facts)


def optional(name="city", **fields):
    return parameter(name, required=False, **fields)


def tool(**fields):
    return Signature(**({"name": "lookup_weather", "description": "Says the weather."} | fields))


def takes(*inputs):
    return tool(inputs=inputs)


def gives(*outputs):
    return tool(outputs=outputs)


def values(*names):
    return tuple(AllowedValue(name, f"About {name}.") for name in names)


def one_of(*names, **fields):
    return parameter(type="enum", allowed_values=values(*names), **fields)


def number(**fields):
    return parameter("days", type="int", **fields)


def shaped(schema):
    return parameter(type="json", schema=schema)


DAYS, PLACE = "inputs/days", "inputs/city"
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
OBJECT_WITH_B = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
OBJECT_A_REQUIRED = OBJECT | {"required": ["a"]}
OBJECT_A_NUMBER = {"type": "object", "properties": {"a": {"type": "number"}}}

# name: (one, other, path, (kind, class) from one to other, (kind, class) back)
PAIRS = {
    "an optional input": (
        tool(),
        takes(optional()),
        PLACE,
        ("added", COMPATIBLE),
        ("removed", BREAKING),
    ),
    "a required input": (
        tool(),
        takes(parameter()),
        PLACE,
        ("added", BREAKING),
        ("removed", BREAKING),
    ),
    "an output": (
        tool(),
        gives(optional()),
        "outputs/city",
        ("added", COMPATIBLE),
        ("removed", BREAKING),
    ),
    "an input's need": (
        takes(optional()),
        takes(parameter()),
        f"{PLACE}/required",
        ("required", BREAKING),
        ("optional", NOTICE),
    ),
    "an output's presence": (
        gives(optional()),
        gives(parameter()),
        "outputs/city/required",
        ("required", NOTICE),
        ("optional", BREAKING),
    ),
    "an input's type": (
        takes(parameter(type="string")),
        takes(parameter(type="boolean")),
        f"{PLACE}/type",
        ("retyped", BREAKING),
        ("retyped", BREAKING),
    ),
    "an output's type": (
        gives(parameter(type="int")),
        gives(parameter(type="number")),
        "outputs/city/type",
        ("retyped", BREAKING),
        ("narrowed", NOTICE),
    ),
    "a type that cannot be read": (
        takes(parameter(type="json", unsupported_type="list")),
        takes(parameter(type="json", unsupported_type="map")),
        f"{PLACE}/type",
        ("retyped", BREAKING),
        ("retyped", BREAKING),
    ),
    "a json type that is now supported": (
        takes(parameter(type="json", unsupported_type="json")),
        takes(parameter(type="json")),
        f"{PLACE}/type",
        ("retyped", BREAKING),
        ("retyped", BREAKING),
    ),
    "an input's description": (
        takes(parameter(description="Where.")),
        takes(parameter(description="In which city.")),
        f"{PLACE}/description",
        ("text", NOTICE),
        ("text", NOTICE),
    ),
    "an output's description": (
        gives(parameter(description="Where.")),
        gives(parameter(description="In which city.")),
        "outputs/city/description",
        ("text", NOTICE),
        ("text", NOTICE),
    ),
    "an input's title": (
        takes(parameter(title="")),
        takes(parameter(title="City")),
        f"{PLACE}/title",
        ("text", NOTICE),
        ("text", NOTICE),
    ),
    "an input's value": (
        takes(one_of("RAIN")),
        takes(one_of("RAIN", "SNOW")),
        f"{PLACE}/allowed_values/SNOW",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "an output's value": (
        gives(one_of("RAIN")),
        gives(one_of("RAIN", "SNOW")),
        "outputs/city/allowed_values/SNOW",
        ("widened", NOTICE),
        ("narrowed", NOTICE),
    ),
    "a value's description": (
        takes(parameter(type="enum", allowed_values=(AllowedValue("RAIN", "Wet."),))),
        takes(parameter(type="enum", allowed_values=(AllowedValue("RAIN", "Very wet."),))),
        f"{PLACE}/allowed_values/RAIN",
        ("text", NOTICE),
        ("text", NOTICE),
    ),
    "the order of values": (
        takes(one_of("RAIN", "SNOW")),
        takes(one_of("SNOW", "RAIN")),
        f"{PLACE}/allowed_values",
        ("reordered", NOTICE),
        ("reordered", NOTICE),
    ),
    "a list of values on text": (
        takes(parameter()),
        takes(parameter(allowed_values=values("RAIN"))),
        f"{PLACE}/allowed_values",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "a list of values on an output": (
        gives(parameter()),
        gives(parameter(allowed_values=values("RAIN"))),
        "outputs/city/allowed_values",
        ("narrowed", NOTICE),
        ("widened", NOTICE),
    ),
    "an input's max": (
        takes(number(max=7)),
        takes(number(max=14)),
        f"{DAYS}/max",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "whether an input has a max": (
        takes(number(max=7)),
        takes(number()),
        f"{DAYS}/max",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "an input's min": (
        takes(number(min=1)),
        takes(number(min=0)),
        f"{DAYS}/min",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "whether an input has a min": (
        takes(number(min=1)),
        takes(number()),
        f"{DAYS}/min",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "an input's longest text": (
        takes(parameter(max_length=10)),
        takes(parameter(max_length=20)),
        f"{PLACE}/max_length",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "whether an input has a longest text": (
        takes(parameter(max_length=10)),
        takes(parameter()),
        f"{PLACE}/max_length",
        ("widened", NOTICE),
        ("narrowed", BREAKING),
    ),
    "an output's max": (
        gives(number(max=7)),
        gives(number(max=14)),
        "outputs/days/max",
        ("widened", NOTICE),
        ("narrowed", NOTICE),
    ),
    "the protocol's max now stated": (
        takes(number(max=65535, max_defaulted=True)),
        takes(number(max=65535)),
        f"{DAYS}/max_defaulted",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "a max below the protocol's": (
        takes(number(max=65535, max_defaulted=True)),
        takes(number(max=9)),
        f"{DAYS}/max",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "a default": (
        takes(optional(default="Omaha")),
        takes(optional(default="Lincoln")),
        f"{PLACE}/default",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "whether there is a default": (
        takes(optional()),
        takes(optional(default=None)),
        f"{PLACE}/default",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "a default from true to one": (
        takes(optional(default=True)),
        takes(optional(default=1)),
        f"{PLACE}/default",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "the order of inputs": (
        takes(parameter(id="a"), parameter("day", id="b")),
        takes(parameter("day", id="b"), parameter(id="a")),
        "inputs",
        ("reordered", NOTICE),
        ("reordered", NOTICE),
    ),
    "the order of outputs": (
        gives(parameter(id="a"), parameter("day", id="b")),
        gives(parameter("day", id="b"), parameter(id="a")),
        "outputs",
        ("reordered", NOTICE),
        ("reordered", NOTICE),
    ),
    "the tool's name": (
        tool(name="lookup_weather"),
        tool(name="get_weather"),
        "name",
        ("renamed", BREAKING),
        ("renamed", BREAKING),
    ),
    "the tool's title": (tool(), tool(title="Weather"), "title", ("text", NOTICE), ("text", NOTICE)),
    "the tool's description": (
        tool(description="Old."),
        tool(description="New."),
        "description",
        ("text", NOTICE),
        ("text", NOTICE),
    ),
    "the picture": (
        tool(),
        tool(img="https://example.com/sun.png"),
        "img",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "the tags": (
        tool(tags=("sky",)),
        tool(tags=("sky", "rain")),
        "tags",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "an annotation": (
        tool(annotations=Annotations(read_only=True)),
        tool(annotations=Annotations(read_only=False)),
        "annotations/read_only",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "a permission": (
        tool(),
        tool(requirements=Requirements(scopes=("read",))),
        "requirements/scopes",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "a secret": (
        tool(),
        tool(requirements=Requirements(secrets=("key",))),
        "requirements/secrets",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "a user": (
        tool(),
        tool(requirements=Requirements(user=True)),
        "requirements/user",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "rules for all inputs": (
        tool(),
        tool(schema_rest={"additionalProperties": False}),
        "schema_rest/additionalProperties",
        ("narrowed", BREAKING),
        ("widened", NOTICE),
    ),
    "a property in a schema": (
        takes(shaped(OBJECT)),
        takes(shaped(OBJECT_WITH_B)),
        f"{PLACE}/schema/properties/b",
        ("added", COMPATIBLE),
        ("removed", BREAKING),
    ),
    "a required property of an input": (
        takes(shaped(OBJECT)),
        takes(shaped(OBJECT_A_REQUIRED)),
        f"{PLACE}/schema/properties/a/required",
        ("required", BREAKING),
        ("optional", NOTICE),
    ),
    "a required property of an output": (
        gives(shaped(OBJECT)),
        gives(shaped(OBJECT_A_REQUIRED)),
        "outputs/city/schema/properties/a/required",
        ("required", NOTICE),
        ("optional", BREAKING),
    ),
    "a type inside a schema": (
        takes(shaped(OBJECT)),
        takes(shaped(OBJECT_A_NUMBER)),
        f"{PLACE}/schema/properties/a/type",
        ("retyped", BREAKING),
        ("retyped", BREAKING),
    ),
    "a type inside a list": (
        takes(shaped({"type": "array", "items": OBJECT})),
        takes(shaped({"type": "array", "items": OBJECT_A_NUMBER})),
        f"{PLACE}/schema/items/properties/a/type",
        ("retyped", BREAKING),
        ("retyped", BREAKING),
    ),
    "words in a schema": (
        takes(shaped(OBJECT)),
        takes(shaped(OBJECT | {"description": "An object."})),
        f"{PLACE}/schema",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "a schema that is none": (
        takes(shaped(OBJECT | {"required": "a", "properties": []})),
        takes(shaped(OBJECT | {"required": [1], "properties": 5})),
        f"{PLACE}/schema",
        ("changed", NOTICE),
        ("changed", NOTICE),
    ),
    "whether an input has a schema": (
        takes(shaped(None)),
        takes(shaped(OBJECT)),
        f"{PLACE}/type",
        ("retyped", BREAKING),
        ("widened", NOTICE),
    ),
    "whether an output has a schema": (
        gives(shaped({})),
        gives(shaped(OBJECT)),
        "outputs/city/type",
        ("narrowed", NOTICE),
        ("retyped", BREAKING),
    ),
    "a schema that takes nothing": (
        takes(shaped(True)),
        takes(shaped(False)),
        f"{PLACE}/schema",
        ("retyped", BREAKING),
        ("widened", NOTICE),
    ),
}


def only(comparison):
    assert len(comparison.changes) == 1, comparison.changes
    return comparison.changes[0]


@pytest.mark.parametrize("case", PAIRS)
def test_a_change_and_its_reverse_get_their_class(case):
    one, other, path, forth, back = PAIRS[case]
    forward, again = only(compare(one, other)), only(compare(other, one))
    assert (forward.path, forward.kind, forward.class_) == (path, *forth)
    assert (again.path, again.kind, again.class_) == (path, *back)
    assert (forward.before, forward.after) == (again.after, again.before)


def test_a_new_name_for_the_same_id_is_a_rename_that_breaks():
    change = only(compare(takes(parameter("city")), takes(parameter("town"))))
    assert change == Change("inputs/town/name", "renamed", "breaks_callers", BREAKING, "city", "town")


def test_the_same_name_under_a_new_id_is_another_parameter():
    changes = compare(takes(optional(id="a")), takes(optional(id="b"))).changes
    assert [(c.path, c.kind) for c in changes] == [("inputs/city", "added"), ("inputs/city", "removed")]


def test_two_parameters_that_swap_their_names_are_two_renames():
    old = takes(parameter("from", id="a"), parameter("to", id="b"))
    new = takes(parameter("to", id="a"), parameter("from", id="b"))
    assert [(c.path, c.kind) for c in compare(old, new).changes] == [
        ("inputs/to/name", "renamed"),
        ("inputs/from/name", "renamed"),
    ]


def test_limits_of_another_type_are_not_compared():
    change = only(compare(takes(number(max=5)), takes(parameter("days", max_length=9))))
    assert change.kind == "retyped"


def test_a_renamed_value_is_one_gone_and_one_come():
    comparison = compare(takes(one_of("RAIN")), takes(one_of("RAINFALL")))
    assert [(c.path.rpartition("/")[2], c.kind) for c in comparison.changes] == [
        ("RAINFALL", "widened"),
        ("RAIN", "narrowed"),
    ]


def test_the_class_of_a_comparison_is_that_of_its_worst_change():
    new = tool(description="Other words.", inputs=[optional()], outputs=[optional()])
    assert compare(tool(), new).class_ == NOTICE
    assert compare(tool(), takes(optional())).class_ == COMPATIBLE
    assert compare(new, tool()).class_ == BREAKING


def test_equal_signatures_have_no_changes():
    assert (compare(tool(), tool()).class_, compare(tool(), tool()).changes) == ("none", ())


def test_a_path_escapes_slashes_and_tildes_in_names():
    change = only(compare(tool(), takes(optional("km/h ~ mph"))))
    assert change.path == "inputs/km~1h ~0 mph"
    assert change.sentence == "The input “km/h ~ mph” was added and is optional."


def test_a_change_travels_as_json_under_the_contracts_names():
    change = only(compare(tool(name="a"), tool(name="b")))
    assert msgspec.to_builtins(change) == {
        "path": "name",
        "kind": "renamed",
        "effect": "breaks_callers",
        "class": "breaking",
        "before": "a",
        "after": "b",
    }


SENTENCES = [
    ("a required input", "The input “city” was added and is required.", "The input “city” was removed."),
    ("an output", "The output “city” was added.", "The output “city” was removed."),
    ("an input's need", "The input “city” is now required.", "The input “city” is now optional."),
    (
        "an input's type",
        "The type of input “city” is now “boolean”; it was “string”.",
        "The type of input “city” is now “string”; it was “boolean”.",
    ),
    (
        "an input's value",
        "The input “city” now accepts “SNOW”.",
        "The input “city” no longer accepts “SNOW”.",
    ),
    (
        "an output's value",
        "The output “city” can now be “SNOW”.",
        "The output “city” can no longer be “SNOW”.",
    ),
    (
        "an input's max",
        "The maximum of input “days” is now 14; it was 7.",
        "The maximum of input “days” is now 7; it was 14.",
    ),
    (
        "whether an input has a longest text",
        "The input “city” no longer has a maximum length; it was 10.",
        "The input “city” now has a maximum length: 10.",
    ),
    (
        "a list of values on text",
        "The input “city” is now limited to “RAIN”.",
        "The input “city” is no longer limited to “RAIN”.",
    ),
    ("the order of inputs", "The inputs are in another order.", "The inputs are in another order."),
    (
        "the tool's name",
        "The tool is now called “get_weather”; it was called “lookup_weather”.",
        "The tool is now called “lookup_weather”; it was called “get_weather”.",
    ),
    (
        "the tags",
        "The tags are now “sky”, “rain”; they were “sky”.",
        "The tags are now “sky”; they were “sky”, “rain”.",
    ),
    (
        "an annotation",
        "The vendor changed “only reads” from yes to no.",
        "The vendor changed “only reads” from no to yes.",
    ),
    (
        "a permission",
        "The permissions that a call needs are now “read”; they were nothing.",
        "The permissions that a call needs are now nothing; they were “read”.",
    ),
]


@pytest.mark.parametrize(("case", "forth", "back"), SENTENCES)
def test_a_change_says_itself_in_a_plain_sentence(case, forth, back):
    one, other, *_ = PAIRS[case]
    assert only(compare(one, other)).sentence == forth
    assert only(compare(other, one)).sentence == back


@pytest.mark.parametrize("case", PAIRS)
def test_every_sentence_is_one_line_with_an_end(case):
    one, other, *_ = PAIRS[case]
    for change in (*compare(one, other).changes, *compare(other, one).changes):
        assert change.sentence.endswith(".")
        assert len(change.sentence) < 200


def test_a_long_value_is_cut_in_a_sentence():
    old, new = takes(optional(default="a" * 500)), takes(optional(default={"b": 1}))
    sentence = only(compare(old, new)).sentence
    assert sentence == f"The default of input “city” is now b: 1; it was “{'a' * 59}…”."


NAMES = st.sampled_from(["city", "town", "a/b", "x~y", "{}"])
TEXTS = st.sampled_from(["", "One.", "Two."])
ALLOWED = st.lists(
    st.builds(AllowedValue, name=st.sampled_from(["A", "B", "C"]), description=TEXTS),
    unique_by=lambda value: value.name,
).map(tuple)
LIMITS = st.none() | st.integers(0, 3)
PARAMETERS = st.builds(
    Parameter,
    id=st.sampled_from(["1", "2", "3"]),
    name=NAMES,
    type=st.sampled_from(["string", "int", "enum", "json"]),
    required=st.booleans(),
    description=TEXTS,
    title=TEXTS,
    allowed_values=ALLOWED,
    min=LIMITS,
    max=LIMITS,
    max_defaulted=st.booleans(),
    max_length=LIMITS,
    default=st.sampled_from([msgspec.UNSET, None, "x", 5]),
    schema=st.sampled_from([None, True, False, OBJECT, OBJECT_WITH_B, OBJECT_A_REQUIRED]),
)
LISTS = st.lists(PARAMETERS, max_size=3, unique_by=lambda p: p.id).map(tuple)
SIGNATURES = st.builds(
    Signature,
    name=NAMES,
    description=TEXTS,
    title=TEXTS,
    tags=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
    inputs=LISTS,
    outputs=LISTS,
    annotations=st.builds(Annotations, read_only=st.none() | st.booleans()),
    requirements=st.builds(Requirements, scopes=st.sampled_from([(), ("a",), ("b", "a")])),
)


@given(SIGNATURES, SIGNATURES)
def test_there_is_a_change_exactly_when_something_differs(old, new):
    comparison = compare(old, new)
    assert bool(comparison.changes) == (old != new)
    assert comparison.class_ == max(
        (change.class_ for change in comparison.changes), key=CLASSES.index, default="none"
    )
    assert all(change.sentence and change.class_ != "none" for change in comparison.changes)


@given(SIGNATURES)
def test_nothing_differs_from_itself(signature):
    assert compare(signature, signature).changes == ()
