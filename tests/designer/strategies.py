"""Signatures and releases as Hypothesis sees them: any text, any type, any limit."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from designer.exports.document import SCHEMA, ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.signatures import model_names
from designer.signatures.effective import effective
from designer.signatures.words import EffectWords, OutputWords, ParameterWords, ValueWords, Words
from protocols import parameters as json_schema
from protocols.signature import PARAMETER_TYPES, AllowedValue, Annotations, Parameter, Signature

characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
texts = st.text(characters, max_size=30)
wire_names = st.one_of(
    st.sampled_from(
        ["City", "city", "CITY", "due date", "due-date", "due_date", "città", "天气", "9lives", "-x"]
    ),
    st.text(characters, min_size=1, max_size=80),
)
numbers = st.integers(-1000, 100_000)
allowed_values = st.builds(
    AllowedValue,
    st.one_of(st.sampled_from(["OPEN", "NOT_OPEN", "open"]), st.text(characters, min_size=1)),
    texts,
)


@st.composite
def parameters(draw: Any) -> list[Parameter]:
    chosen_names = draw(st.lists(wire_names, unique=True, max_size=5))
    return [draw(_parameter(f"p{index}", name)) for index, name in enumerate(chosen_names)]


def _parameter(id_: str, name: str) -> st.SearchStrategy[Parameter]:
    return st.builds(
        Parameter,
        id=st.just(id_),
        name=st.just(name),
        type=st.sampled_from(PARAMETER_TYPES),
        required=st.booleans(),
        description=texts,
        title=texts,
        allowed_values=st.lists(allowed_values, max_size=3, unique_by=lambda value: value.name).map(tuple),
        min=st.none() | numbers,
        max=st.none() | numbers | st.floats(-5, 5),
        max_length=st.none() | st.integers(0, 500),
        default=st.just(UNSET) | texts | st.none(),
        schema=st.sampled_from([None, True, False, {"type": "array", "items": {"type": "string"}}]),
    ).map(_without_what_its_type_lacks)


def _without_what_its_type_lacks(parameter: Parameter) -> Parameter:
    fields = {name: getattr(parameter, name) for name in parameter.__struct_fields__}
    if parameter.type != "enum":
        fields["allowed_values"] = ()
    if parameter.type not in ("int", "number"):
        fields["min"] = fields["max"] = None
    if parameter.type != "string":
        fields["max_length"] = None
    if parameter.type != "json":
        fields["schema"] = None
    return Parameter(**fields)


annotations = st.builds(
    Annotations, read_only=st.none() | st.booleans(), destructive=st.none() | st.booleans()
)
signatures = st.builds(
    Signature,
    name=wire_names,
    description=st.one_of(texts, st.just("long " * 500)),
    title=texts,
    img=st.sampled_from(["", "https://img.example/a.png", "javascript:alert(1)", "https://a b"]),
    tags=st.lists(texts, max_size=3).map(tuple),
    inputs=parameters().map(tuple),
    outputs=parameters().map(tuple),
    annotations=annotations,
)


def with_schemas(schema: Any, outputs: Any) -> Signature:
    inputs_read = json_schema.read_schema(schema, "input", whole_name="input")
    outputs_read = json_schema.read_schema(outputs, "output", whole_name="value")
    return Signature(
        name="tool",
        description="Reads a schema",
        inputs=inputs_read.parameters,
        schema_rest=inputs_read.rest,
        outputs=outputs_read.parameters,
        outputs_rest=outputs_read.rest,
    )


# As vendors write them; what a broken schema becomes is not for an export to mend.
_a = {"type": "string", "pattern": "^a", "description": "The a"}
SCHEMAS: list[Any] = [
    {"type": "object"},
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": _a, "b": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"minimum": 1}}},
    {"type": "object", "properties": {"due date": _a, "b": {"$ref": "#/properties/due%20date"}}},
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": True}, "required": ["b", "a"]},
    {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["x"]}]},
    {"type": "object", "properties": {"child": {"$ref": "#"}}, "unevaluatedProperties": False},
    {"type": "object", "properties": {"": {}, "a": {}}, "required": ["a"]},
    {"properties": {"a": {"anyOf": [{"type": "integer", "description": "N"}, {"type": "null"}]}}},
    {"type": "object", "properties": None, "required": None},
    {
        "type": "array",
        "items": {"$ref": "#/$defs/a"},
        "$defs": {"a": {"type": "array", "items": {"$ref": "#"}}},
    },
    {"type": "string", "enum": ["a", "b"]},
    {},
    True,
    False,
]
schema_signatures = st.builds(with_schemas, st.sampled_from(SCHEMAS), st.sampled_from(SCHEMAS))
any_signatures = signatures | schema_signatures


@st.composite
def tunings(draw: Any, signature: Signature) -> Words:
    """Any words, whether they fit or not."""
    chosen_names = draw(_some(p.name for p in signature.inputs))
    values = {p.name: [value.name for value in p.allowed_values] for p in signature.inputs}
    about_values = st.builds(ValueWords, description=st.none() | texts, hidden=st.none() | st.booleans())
    words = {}
    for name in chosen_names:
        tuned_values = draw(_some(values[name]))
        words[name] = draw(
            st.builds(
                ParameterWords,
                name=st.none() | st.sampled_from(["place", "city", "Due_date", "b", "no name", ""]),
                description=st.none() | texts,
                hidden=st.none() | st.booleans(),
                preset=st.just(UNSET) | texts | numbers | st.booleans() | st.sampled_from(["OPEN", "open"]),
                values=st.fixed_dictionaries(dict.fromkeys(tuned_values, about_values)),
            )
        )
    out = st.builds(OutputWords, description=st.none() | texts, hidden=st.none() | st.booleans())
    return Words(
        title=draw(st.none() | texts),
        description=draw(st.none() | texts),
        parameters=words,
        outputs={name: draw(out) for name in draw(_some(p.name for p in signature.outputs))},
        effects=draw(st.none() | st.builds(EffectWords, destructive=st.none() | st.booleans())),
    )


def _some(names: Iterable[str]) -> st.SearchStrategy[list[str]]:
    options = list(names)
    return st.lists(st.sampled_from(options), unique=True) if options else st.just([])


@st.composite
def releases(draw: Any) -> ReleaseDocument:
    tools, names = [], set()
    signatures = draw(st.lists(any_signatures, min_size=1, max_size=4))
    for number, signature in enumerate(signatures, start=1):
        name = model_names.propose(signature.name, names, vendor="vendor")
        names.add(name)
        words = draw(tunings(signature))
        tools.append(
            ReleasedTool(
                id=number,
                tool_id=draw(st.uuids().map(str) | wire_names),
                vendor="vendor",
                endpoint="https://tools.example/v1",
                protocol="a2t",
                version=ReleasedVersion(
                    ordinal=number, label=draw(st.sampled_from(["", "7", "0", "1.2"])), digest="0"
                ),
                signature=effective(signature, name=name, agent_tuning=words),
                tuning={"agent": words},
            )
        )
    agent = ReleasedAgent(slug="agent", name="Agent", description="")
    return ReleaseDocument(schema=SCHEMA, agent=agent, number=1, tools=tuple(tools))
