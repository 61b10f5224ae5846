"""The parts of a signature that a document can express are read back equal, and the rest is a named loss.

`losses.json` of each protocol lists under `signature` the members of the normal form that its documents have
no place for; docs/protocols.md has the reasons."""

import fnmatch
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import protocols
from protocols.losses import losses
from protocols.signature import (
    PARAMETER_TYPES,
    AllowedValue,
    Annotations,
    Parameter,
    Requirements,
    Signature,
    to_json,
)
from tests.protocols.test_contract import FIXTURES
from tests.protocols.toy.client import Toy

IDENTITIES = {
    "a2t": ("3fa85f64-5717-4562-b3fc-2c963f66afa6", "3"),
    "acp": ("3fa85f64-5717-4562-b3fc-2c963f66afa6", "1.2.0"),
    "oxp": ("Kit.Sky", "1.2.0"),
    "toy": ("sky", ""),
}
ARRAY = {"type": "array", "items": {"type": "integer"}}
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)
texts = st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=20)
values = st.lists(names, min_size=1, max_size=3, unique=True)
flags = st.none() | st.booleans()


@st.composite
def parameters(draw):
    name, kind = draw(names), draw(st.sampled_from(PARAMETER_TYPES))
    title, description = draw(texts), draw(texts)
    low, size = draw(st.integers(-99, 99)), draw(st.integers(0, 99))
    number = (lambda value: value + 0.5) if kind == "number" else int
    has_bounds = kind in ("int", "number") and draw(st.booleans())
    allowed = draw(values) if kind == "enum" else []
    return Parameter(
        id=draw(st.sampled_from([name, f"id {name}"])),
        name=name,
        type=kind,
        required=draw(st.booleans()),
        description=description,
        title=title,
        allowed_values=tuple(AllowedValue(value, draw(texts)) for value in allowed),
        min=number(low) if has_bounds else None,
        max=number(low + size) if has_bounds else None,
        max_length=draw(st.none() | st.integers(1, 99)) if kind == "string" else None,
        schema={**ARRAY, "title": title, "description": description} if kind == "json" else None,
    )


lists = st.lists(parameters(), max_size=3, unique_by=lambda parameter: parameter.name).map(tuple)
signatures = st.builds(
    Signature,
    name=names,
    description=texts,
    title=texts,
    img=st.sampled_from(["", "https://x.example/y.png"]),
    tags=values.map(tuple),
    inputs=lists,
    outputs=lists,
    annotations=st.builds(Annotations, read_only=flags, destructive=flags),
    requirements=st.builds(
        Requirements, scopes=values.map(tuple), secrets=values.map(tuple), user=st.booleans()
    ),
)


def lost_paths(before, after):
    return losses(*(json.loads(to_json(signature_json)) for signature_json in (before, after)))


def expected_losses(name):
    return json.loads((FIXTURES / name / "losses.json").read_text(encoding="utf-8"))["signature"]


@pytest.mark.parametrize("name", IDENTITIES)
@given(signature=signatures)
def test_what_a_document_expresses_is_read_back_equal(name, signature):
    protocol = Toy() if name == "toy" else protocols.get(name)()
    tool_id, label = IDENTITIES[name]
    signature_read = protocol.read(protocol.write(signature, tool_id, label))
    patterns = expected_losses(name)
    surprises = [
        path
        for path in lost_paths(signature, signature_read)
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
    ]
    assert surprises == []
    # Nothing more is lost the second time.
    assert protocol.read(protocol.write(signature_read, tool_id, label)) == signature_read
