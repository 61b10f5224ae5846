"""Every way in which a tool can change, with what it does to callers and readers, there and back."""

import json

import pytest

from catalog.rules.diff import compare
from protocols import parameters as json_schema
from protocols.signature import AllowedValue, Annotations, Parameter, Requirements, Signature

BREAKS_CALLERS = ("breaks_callers", "breaking")
BREAKS_READERS = ("breaks_readers", "breaking")
RISK = ("widens_risk", "notice")
NEEDS_MORE = ("widens_risk", "breaking")
ADDED = ("compatible", "compatible")
MORE_FITS = ("compatible", "notice")
FINE = ("compatible", "notice")
TEXT = ("text", "notice")
COSMETIC = ("cosmetic", "notice")
NOTHING = (None, "none")

TEXTUAL = {"type": "string"}
WHOLE = {"type": "integer"}
OPEN = {"type": "object", "properties": {"a": TEXTUAL, "b": WHOLE}}
CLOSED = OPEN | {"additionalProperties": False}
LIST = {"type": "array", "items": TEXTUAL}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": TEXTUAL}}


def tool(**fields):
    return Signature(**({"name": "book", "description": "Books a table."} | fields))


def make_input(name="city", **fields):
    return Parameter(
        **({"id": "p1", "name": name, "type": "string", "required": True, "description": ""} | fields)
    )


def takes(schema):
    shape = json_schema.read_schema(schema, "inputSchema", whole_name="input")
    return tool(inputs=shape.parameters, schema_rest=shape.rest)


def gives(schema):
    shape = json_schema.read_schema(schema, "outputSchema", whole_name="output")
    return tool(outputs=shape.parameters, outputs_rest=shape.rest)


def member(schema, *, required=False, **members):
    """An object with one member, as deep as a vendor may put it."""
    needed = {"required": ["x"]} if required else {}
    return {"type": "object", "properties": {"x": schema}} | needed | members


def of_list(*names):
    return make_input(type="enum", allowed_values=tuple(AllowedValue(name) for name in names))


def on_input(one, other):
    return takes(member(one)), takes(member(other))


def on_output(one, other):
    return gives(member(one)), gives(member(other))


def kind(word):
    return {"type": "object", "properties": {"kind": {"const": word}}, "required": ["kind"]}


# name: (one, other), what it does from one to other, what it does back
TOOLS = {
    "name": ((tool(), tool(name="reserve")), BREAKS_CALLERS, BREAKS_CALLERS),
    "kind": ((tool(), tool(kind="agent")), BREAKS_CALLERS, BREAKS_CALLERS),
    "title": ((tool(), tool(title="Book")), TEXT, TEXT),
    "description": ((tool(), tool(description="Books.")), TEXT, TEXT),
    "picture": ((tool(), tool(img="https://v.example/a.png")), TEXT, TEXT),
    "tags": ((tool(), tool(tags=("food",))), TEXT, TEXT),
    "unknown members": ((tool(), tool(rest={"_meta": {"a": 1}})), COSMETIC, COSMETIC),
    "read only to not": (
        (tool(annotations=Annotations(read_only=True)), tool(annotations=Annotations(read_only=False))),
        RISK,
        RISK,
    ),
    "read only to silence": ((tool(annotations=Annotations(read_only=True)), tool()), RISK, RISK),
    "harmless to destructive": (
        (tool(annotations=Annotations(destructive=False)), tool(annotations=Annotations(destructive=True))),
        RISK,
        RISK,
    ),
    "silence to destructive": ((tool(), tool(annotations=Annotations(destructive=True))), RISK, RISK),
    "idempotent to not": (
        (tool(annotations=Annotations(idempotent=True)), tool(annotations=Annotations(idempotent=False))),
        RISK,
        RISK,
    ),
    "closed to open world": (
        (tool(annotations=Annotations(open_world=False)), tool(annotations=Annotations(open_world=True))),
        RISK,
        RISK,
    ),
    "read only false to silence": ((tool(annotations=Annotations(read_only=False)), tool()), FINE, RISK),
    "idempotent false to silence": ((tool(annotations=Annotations(idempotent=False)), tool()), FINE, RISK),
    "a scope": ((tool(), tool(requirements=Requirements(scopes=("read",)))), NEEDS_MORE, FINE),
    "another scope": (
        (tool(requirements=Requirements(scopes=("a",))), tool(requirements=Requirements(scopes=("b",)))),
        NEEDS_MORE,
        NEEDS_MORE,
    ),
    "a secret": ((tool(), tool(requirements=Requirements(secrets=("key",)))), NEEDS_MORE, FINE),
    "a user": ((tool(), tool(requirements=Requirements(user=True))), NEEDS_MORE, FINE),
    "the order of scopes": (
        (
            tool(requirements=Requirements(scopes=("a", "b"))),
            tool(requirements=Requirements(scopes=("b", "a"))),
        ),
        COSMETIC,
        COSMETIC,
    ),
}

PARAMETERS = {
    "an optional input": ((tool(), tool(inputs=(make_input(required=False),))), ADDED, BREAKS_CALLERS),
    "a required input": ((tool(), tool(inputs=(make_input(),))), BREAKS_CALLERS, BREAKS_CALLERS),
    "an input's name": (
        (tool(inputs=(make_input("city"),)), tool(inputs=(make_input("town"),))),
        BREAKS_CALLERS,
        BREAKS_CALLERS,
    ),
    "an input's need": (
        (tool(inputs=(make_input(required=False),)), tool(inputs=(make_input(),))),
        BREAKS_CALLERS,
        FINE,
    ),
    "an output": ((tool(), tool(outputs=(make_input(required=False),))), ADDED, BREAKS_READERS),
    "an output's name": (
        (tool(outputs=(make_input("city"),)), tool(outputs=(make_input("town"),))),
        BREAKS_READERS,
        BREAKS_READERS,
    ),
    "an output's promise": (
        (tool(outputs=(make_input(),)), tool(outputs=(make_input(required=False),))),
        BREAKS_READERS,
        FINE,
    ),
    "an input's value": (
        (tool(inputs=(of_list("A"),)), tool(inputs=(of_list("A", "B"),))),
        MORE_FITS,
        BREAKS_CALLERS,
    ),
    "an output's value": ((tool(outputs=(of_list("A"),)), tool(outputs=(of_list("A", "B"),))), FINE, FINE),
    "a list of values for any text": (
        (tool(inputs=(of_list("A"),)), tool(inputs=(make_input(),))),
        MORE_FITS,
        BREAKS_CALLERS,
    ),
    "an input's type": (
        (tool(inputs=(make_input(),)), tool(inputs=(make_input(type="boolean"),))),
        BREAKS_CALLERS,
        BREAKS_CALLERS,
    ),
    "a whole number to any number": (
        (tool(inputs=(make_input(type="int"),)), tool(inputs=(make_input(type="number"),))),
        MORE_FITS,
        BREAKS_CALLERS,
    ),
    "a whole number that comes back": (
        (tool(outputs=(make_input(type="int"),)), tool(outputs=(make_input(type="number"),))),
        BREAKS_READERS,
        FINE,
    ),
    "an output that was a document": (
        (tool(outputs=(make_input(type="json"),)), tool(outputs=(make_input(),))),
        BREAKS_READERS,
        BREAKS_READERS,
    ),
    "a type that cannot be read": (
        (tool(inputs=(make_input(),)), tool(inputs=(make_input(type="json", unsupported_type="list"),))),
        BREAKS_CALLERS,
        BREAKS_CALLERS,
    ),
    "a maximum": (
        (tool(inputs=(make_input(type="int", max=9),)), tool(inputs=(make_input(type="int", max=99),))),
        MORE_FITS,
        BREAKS_CALLERS,
    ),
    "a maximum that is now stated": (
        (
            tool(inputs=(make_input(type="int", max=65535, max_defaulted=True),)),
            tool(inputs=(make_input(type="int", max=65535),)),
        ),
        COSMETIC,
        COSMETIC,
    ),
    "the longest text": (
        (tool(inputs=(make_input(max_length=5),)), tool(inputs=(make_input(max_length=9),))),
        MORE_FITS,
        BREAKS_CALLERS,
    ),
    "a default": (
        (tool(inputs=(make_input(default="a"),)), tool(inputs=(make_input(default="b"),))),
        FINE,
        FINE,
    ),
    "an input's description": (
        (tool(inputs=(make_input(),)), tool(inputs=(make_input(description="Where."),))),
        TEXT,
        TEXT,
    ),
    "an input's title": (
        (tool(inputs=(make_input(),)), tool(inputs=(make_input(title="City"),))),
        TEXT,
        TEXT,
    ),
    "unknown members of an input": (
        (tool(inputs=(make_input(),)), tool(inputs=(make_input(rest={"unit": "C"}),))),
        COSMETIC,
        COSMETIC,
    ),
    "the order of inputs": (
        (
            tool(inputs=(make_input(), make_input("day", id="p2"))),
            tool(inputs=(make_input("day", id="p2"), make_input())),
        ),
        COSMETIC,
        COSMETIC,
    ),
}

# name: (one schema, the other), as an input there and back, as an output there and back
SCHEMAS = {
    "whole to any number": (WHOLE, {"type": "number"}, MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    "one type more": (
        TEXTUAL,
        {"type": ["string", "integer"]},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "null as well": (TEXTUAL, {"type": ["string", "null"]}, MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    "null in the older way": (
        TEXTUAL,
        TEXTUAL | {"nullable": True},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "another type": (TEXTUAL, WHOLE, *(BREAKS_CALLERS,) * 2, *(BREAKS_READERS,) * 2),
    "anything": (LIST, {}, MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    "nothing at all": (TEXTUAL, False, BREAKS_CALLERS, MORE_FITS, FINE, BREAKS_READERS),
    "a value": ({"enum": [1]}, {"enum": [1, 2]}, MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    "a constant": ({"const": "a"}, {"const": "b"}, BREAKS_CALLERS, BREAKS_CALLERS, FINE, FINE),
    "no list any more": ({"enum": ["a", 1]}, {}, MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    "text for a number": ({"enum": ["1", 2]}, {"enum": [1, 2]}, BREAKS_CALLERS, BREAKS_CALLERS, FINE, FINE),
    "a list whose values all fit": (
        {"enum": ["a", "bb", 3]},
        {"type": ["string", "integer"], "maxLength": 2, "minimum": 3, "multipleOf": 3},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a list of which one value does not fit": (
        {"enum": ["a", "bbb"]},
        TEXTUAL | {"maxLength": 2},
        *(BREAKS_CALLERS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a list of numbers of which one does not fit": (
        {"enum": [1, 7.5]},
        {"type": "number", "exclusiveMinimum": 1},
        *(BREAKS_CALLERS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a minimum": (WHOLE, WHOLE | {"minimum": 1}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "a higher minimum": (
        WHOLE | {"minimum": 1},
        WHOLE | {"minimum": 2},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "an open limit": (
        {"type": "number", "minimum": 1},
        {"type": "number", "exclusiveMinimum": 1},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "an open limit in the older way": (
        {"type": "number", "maximum": 1},
        {"type": "number", "maximum": 1, "exclusiveMaximum": True},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "the shortest text": (TEXTUAL, TEXTUAL | {"minLength": 1}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "the longest text": (
        TEXTUAL | {"maxLength": 9, "pattern": "a"},
        TEXTUAL | {"maxLength": 5, "pattern": "a"},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "a step": (
        WHOLE | {"multipleOf": 2},
        WHOLE | {"multipleOf": 4},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "a step beside": (WHOLE | {"multipleOf": 2}, WHOLE | {"multipleOf": 3}, *(RISK,) * 4),
    "a pattern": (TEXTUAL, TEXTUAL | {"pattern": "^a"}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "another pattern": (TEXTUAL | {"pattern": "^a"}, TEXTUAL | {"pattern": "^b"}, *(RISK,) * 4),
    "a format": (TEXTUAL, TEXTUAL | {"format": "date"}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "another format": (TEXTUAL | {"format": "date"}, TEXTUAL | {"format": "time"}, *(RISK,) * 4),
    "a wider format": (
        WHOLE | {"format": "int32"},
        WHOLE | {"format": "int64"},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "an optional member of an open object": (
        {"type": "object", "properties": {"a": TEXTUAL}},
        OPEN,
        *(ADDED, BREAKS_CALLERS, ADDED, BREAKS_READERS),
    ),
    "an optional member of a closed object": (
        {"type": "object", "properties": {"a": TEXTUAL}, "additionalProperties": False},
        CLOSED,
        *(ADDED, BREAKS_CALLERS, ADDED, BREAKS_READERS),
    ),
    "a required member": (
        {"type": "object", "properties": {"a": TEXTUAL}},
        OPEN | {"required": ["b"]},
        *(BREAKS_CALLERS, BREAKS_CALLERS, ADDED, BREAKS_READERS),
    ),
    "a member's need": (OPEN, OPEN | {"required": ["a"]}, BREAKS_CALLERS, MORE_FITS, FINE, BREAKS_READERS),
    "the need of a member without a schema": (
        OPEN,
        OPEN | {"required": ["z"]},
        *(BREAKS_CALLERS, MORE_FITS, FINE, BREAKS_READERS),
    ),
    "a member's type": (
        OPEN,
        OPEN | {"properties": {"a": WHOLE, "b": WHOLE}},
        *(BREAKS_CALLERS,) * 2,
        *(BREAKS_READERS,) * 2,
    ),
    "an object that closes": (OPEN, CLOSED, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "the type of other members": (
        {"type": "object", "additionalProperties": WHOLE},
        {"type": "object", "additionalProperties": {"type": "number"}},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "a member that other members were": (
        {"type": "object", "properties": {"a": TEXTUAL}, "additionalProperties": WHOLE},
        {"type": "object", "properties": {"a": TEXTUAL, "b": TEXTUAL}, "additionalProperties": WHOLE},
        *(RISK, BREAKS_CALLERS, ADDED, BREAKS_READERS),
    ),
    "the fewest members": (OPEN, OPEN | {"minProperties": 1}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "members by pattern": (
        OPEN,
        OPEN | {"patternProperties": {"^x-": TEXTUAL}},
        *(RISK, MORE_FITS, FINE, RISK),
    ),
    "members by pattern in a closed object": (
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^x-": TEXTUAL}},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "members by pattern that were others": (
        {"type": "object", "additionalProperties": WHOLE},
        {"type": "object", "additionalProperties": WHOLE, "patternProperties": {"^x": {"type": "number"}}},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "members by pattern beside named ones": (
        OPEN | {"additionalProperties": WHOLE},
        OPEN | {"additionalProperties": WHOLE, "patternProperties": {"^x": {"type": "number"}}},
        *(RISK,) * 4,
    ),
    "what one member asks of the others": (
        OPEN,
        OPEN | {"dependentSchemas": {"a": {"required": ["b"]}}},
        *(RISK, MORE_FITS, FINE, RISK),
    ),
    "members that nothing has looked at": (
        {"type": "object", "anyOf": [OPEN, {"required": ["z"]}], "unevaluatedProperties": False},
        {"type": "object", "anyOf": [OPEN, {"required": ["y"]}], "unevaluatedProperties": False},
        *(BREAKS_CALLERS,) * 2,
        *(BREAKS_READERS,) * 2,
    ),
    "names of members": (OPEN, OPEN | {"propertyNames": {"maxLength": 3}}, RISK, MORE_FITS, FINE, RISK),
    "one member needing another": (
        OPEN,
        OPEN | {"dependentRequired": {"a": ["b"]}},
        *(RISK, MORE_FITS, FINE, RISK),
    ),
    "the type of items": (
        LIST,
        {"type": "array", "items": WHOLE},
        *(BREAKS_CALLERS,) * 2,
        *(BREAKS_READERS,) * 2,
    ),
    "items of any type": (LIST, {"type": "array"}, MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    "the most items": (LIST, LIST | {"maxItems": 3}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "the fewest items": (LIST, LIST | {"minItems": 1}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "items that all differ": (LIST, LIST | {"uniqueItems": True}, BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    "the type of the first item": (
        LIST | {"prefixItems": [TEXTUAL]},
        LIST | {"prefixItems": [WHOLE]},
        *(BREAKS_CALLERS,) * 2,
        *(BREAKS_READERS,) * 2,
    ),
    "an item that has to be there": (LIST, LIST | {"contains": {"const": "a"}}, RISK, MORE_FITS, FINE, RISK),
    "an item of a wider type that has to be there": (
        LIST | {"contains": WHOLE},
        LIST | {"contains": {"type": "number"}},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "how many such items": (
        LIST | {"contains": WHOLE},
        LIST | {"contains": WHOLE, "minContains": 2},
        *(RISK,) * 4,
    ),
    "items after the first, in the older way": (
        {"type": "array", "items": [TEXTUAL], "additionalItems": WHOLE},
        {"type": "array", "prefixItems": [TEXTUAL], "items": {"type": "number"}},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "a branch told apart by its kind": (
        {"oneOf": [kind("a"), kind("b")]},
        {"oneOf": [kind("b"), kind("c"), kind("a")]},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a branch": (
        {"anyOf": [OPEN, LIST]},
        {"anyOf": [OPEN, LIST, {"type": "object", "required": ["z"]}]},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a branch of another type": (
        {"anyOf": [CLOSED, LIST]},
        {"anyOf": [CLOSED, LIST, TEXTUAL | {"enum": ["a"]}]},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "a union instead of its only branch": (
        CLOSED,
        {"anyOf": [CLOSED, LIST, {"enum": ["a"]}]},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "a wider branch": (
        {"anyOf": [OPEN, {"enum": ["a"]}]},
        {"anyOf": [OPEN, {"enum": ["a", "b"]}]},
        *(MORE_FITS, BREAKS_CALLERS, FINE, FINE),
    ),
    "a branch where only one may fit": (
        {"oneOf": [OPEN, {"type": "object", "required": ["y"]}]},
        {"oneOf": [OPEN, {"type": "object", "required": ["y"]}, {"type": "object", "required": ["z"]}]},
        *(RISK, BREAKS_CALLERS, RISK, RISK),
    ),
    "a branch that no other one overlaps": (
        {"oneOf": [OPEN, {"enum": ["a"]}]},
        {"oneOf": [OPEN, {"enum": ["a"]}, LIST]},
        *(MORE_FITS, BREAKS_CALLERS, BREAKS_READERS, FINE),
    ),
    "a condition": (OPEN, OPEN | {"if": {"required": ["a"]}, "then": CLOSED}, RISK, MORE_FITS, FINE, RISK),
    "what holds on a condition": (
        OPEN | {"if": {"required": ["a"]}, "then": {"minProperties": 2}},
        OPEN | {"if": {"required": ["a"]}, "then": {"minProperties": 3}},
        *(BREAKS_CALLERS, MORE_FITS, FINE, FINE),
    ),
    "what must not be": (TEXTUAL, TEXTUAL | {"not": {"const": "a"}}, RISK, MORE_FITS, FINE, RISK),
    "something else that must not be": (
        TEXTUAL | {"not": {"const": "a"}},
        TEXTUAL | {"not": {"const": "b"}},
        *(RISK,) * 4,
    ),
    "a rule that also holds": (
        OPEN,
        OPEN | {"allOf": [{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]},
        *(RISK, MORE_FITS, FINE, RISK),
    ),
    "a reference to nowhere": (
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b"},
        *(RISK,) * 4,
    ),
    "a title inside": (
        OPEN,
        OPEN | {"properties": {"a": TEXTUAL | {"title": "A"}, "b": WHOLE}},
        *(TEXT,) * 4,
    ),
    "a description inside": (
        LIST,
        {"type": "array", "items": TEXTUAL | {"description": "One."}},
        *(TEXT,) * 4,
    ),
    "examples": (TEXTUAL, TEXTUAL | {"examples": ["Omaha"]}, *(TEXT,) * 4),
    "a comment": (TEXTUAL, TEXTUAL | {"$comment": "Later."}, *(COSMETIC,) * 4),
    "a default inside": (
        OPEN,
        OPEN | {"properties": {"a": TEXTUAL | {"default": "x"}, "b": WHOLE}},
        *(FINE,) * 4,
    ),
    "a member that no dialect knows": (TEXTUAL, TEXTUAL | {"x-order": 3}, *(COSMETIC,) * 4),
}

# name: (one schema, the other) that accept the same values and have the same meaning
SAME = {
    "the order of needed members": (OPEN | {"required": ["a", "b"]}, OPEN | {"required": ["b", "a"]}),
    "the order of types": ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
    "the order of branches": ({"anyOf": [OPEN, LIST]}, {"anyOf": [LIST, OPEN]}),
    "a list with one type": (TEXTUAL, {"type": ["string"]}),
    "types as a union": ({"type": ["string", "null"]}, {"anyOf": [TEXTUAL, {"type": "null"}]}),
    "a constant as a list": ({"const": "a"}, {"enum": ["a"]}),
    "what holds anyway": (OPEN, OPEN | {"additionalProperties": True, "minProperties": 0}),
    "true and an empty schema": ({"type": "array", "items": True}, {"type": "array", "items": {}}),
    "a whole number above 0": (WHOLE | {"exclusiveMinimum": 0}, WHOLE | {"minimum": 1}),
    "parts put together": (OPEN | {"required": ["a"]}, {"allOf": [OPEN, {"required": ["a"]}]}),
    "a rule about another type": (TEXTUAL, TEXTUAL | {"minimum": 3}),
    "a reference into a list": (
        {"type": "array", "prefixItems": [TEXTUAL, TEXTUAL]},
        {"type": "array", "prefixItems": [TEXTUAL, {"$ref": "#/properties/x/prefixItems/0"}]},
    ),
    "a list with null in the older way": (
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "string", "nullable": True, "enum": ["a", None]},
    ),
    "every type": ({}, {"type": ["null", "boolean", "object", "array", "string", "number"]}),
}
ANCHORED = {"$ref": "#here", "$defs": {"a": TEXTUAL | {"$anchor": "here"}}}
CHOICES = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
UNSEEN = {
    "one and one point zero": ({"enum": [1]}, {"enum": [1.0]}),
    "the order of constants in a union": ({"anyOf": CHOICES}, {"anyOf": CHOICES[::-1]}),
    "the order of constants that exclude each other": ({"oneOf": CHOICES}, {"oneOf": CHOICES[::-1]}),
    "the order of dependent names": (
        OPEN | {"dependentRequired": {"a": ["b", "c"]}},
        OPEN | {"dependentRequired": {"a": ["c", "b"]}},
    ),
    "a definition that nothing uses": (OPEN, OPEN | {"$defs": {"a": TEXTUAL}}),
    "the name of an anchor": (ANCHORED, json.loads(json.dumps(ANCHORED).replace("here", "there"))),
}


@pytest.mark.parametrize("case", [*TOOLS, *PARAMETERS])
def test_a_change_of_a_tool_has_its_effect_and_its_reverse_the_reverse(case):
    (one, other), forth, back = (TOOLS | PARAMETERS)[case]
    assert verdict(one, other) == forth
    assert verdict(other, one) == back


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_change_of_a_schema_counts_one_way_for_inputs_and_the_other_for_outputs(case):
    one, other, *expected = SCHEMAS[case]
    forward, back = on_input(one, other), on_output(one, other)
    verdicts = [verdict(*forward), verdict(*reversed(forward)), verdict(*back), verdict(*reversed(back))]
    assert verdicts == expected


@pytest.mark.parametrize("case", UNSEEN)
def test_a_spelling_that_no_model_and_no_call_can_distinguish_is_no_change(case):
    one, other = UNSEEN[case]
    for pair in (on_input(one, other), on_output(one, other)):
        assert verdict(*pair) == verdict(*reversed(pair)) == NOTHING
    for pair in ((takes(one), takes(other)), (gives(one), gives(other))):
        assert verdict(*pair) == verdict(*reversed(pair)) == NOTHING


@pytest.mark.parametrize("case", SAME)
def test_another_way_to_write_the_same_is_cosmetic(case):
    one, other = SAME[case]
    for pair in (on_input(one, other), on_output(one, other)):
        assert verdict(*pair) == verdict(*reversed(pair)) == COSMETIC


def verdict(old, new):
    """The worst effect and the class."""
    comparison = compare(old, new)
    order = ["breaks_callers", "breaks_readers", "widens_risk", "compatible", "text", "cosmetic"]
    assert all(change.sentence.endswith(".") and len(change.sentence) < 320 for change in comparison.changes)
    return min(comparison.effects, key=order.index, default=None), comparison.class_


def test_the_tables_hold_many_changes():
    assert len(TOOLS) + len(PARAMETERS) + len(SCHEMAS) >= 80
