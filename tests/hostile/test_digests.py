"""The digest of a tool covers its values, not their spelling (V3).

PEGBOARD_MUTATIONS=1000 tries so many documents instead of 100.
"""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import canonical_json, strict_json
from core.canonical_json import canonical
from core.outbound.errors import ProtocolViolationError

EXAMPLES = int(os.environ.get("PEGBOARD_MUTATIONS", "100"))

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.floats(-1e9, 1e9, allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(texts, values, min_size=1, max_size=6)


def turned(value):
    """The same with the members of every object the other way round."""
    if isinstance(value, dict):
        return {name: turned(item) for name, item in reversed(value.items())}
    return [turned(item) for item in value] if isinstance(value, list) else value


def digest(text):
    return canonical_json.digest(strict_json.loads(text.encode()))


@given(document=documents, indent=st.sampled_from([None, 0, 3]), is_escaped=st.booleans())
@settings(max_examples=EXAMPLES)
def test_order_white_space_and_escapes_make_no_difference(document, indent, is_escaped):
    otherwise = json.dumps(
        turned(document), indent=indent, ensure_ascii=is_escaped, separators=(" , ", "  :  ")
    )
    assert digest(otherwise) == digest(json.dumps(document, ensure_ascii=not is_escaped))


@given(document=documents, other=documents)
@settings(max_examples=EXAMPLES // 2)
def test_what_says_something_else_has_another_digest(document, other):
    is_same = canonical(document) == canonical(other)
    assert (digest(json.dumps(document)) == digest(json.dumps(other))) == is_same


@given(document=documents)
@settings(max_examples=EXAMPLES // 5)
def test_a_key_that_stands_twice_is_refused(document):
    name, value = next(iter(document.items()))
    members = json.dumps(document)[1:]
    twice = f"{{{json.dumps(name)}: {json.dumps(value)}, {members}"
    with pytest.raises(ProtocolViolationError) as refused:
        strict_json.loads(twice.encode())
    assert refused.value.code == "JSON_DUPLICATE"
