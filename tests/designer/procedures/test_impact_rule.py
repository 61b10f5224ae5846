"""A version that removes members breaks exactly the lines that use them."""

from hypothesis import given
from hypothesis import strategies as st

from catalog.rules import diff
from designer.procedures import impact
from designer.procedures.references import KnownInput, KnownOutput, VocabularyTool
from protocols.signature import Signature
from tests.factories import make_parameter, make_signature

NAMES = tuple("abcdef")


def known_tool(signature: Signature) -> VocabularyTool:
    return VocabularyTool(
        pin=7,
        name=signature.name,
        inputs=tuple(KnownInput(id=parameter.id, name=parameter.name) for parameter in signature.inputs),
        outputs=tuple(KnownOutput(id=output.id, name=output.name) for output in signature.outputs),
    )


def with_members(inputs: list[str], outputs: list[str]) -> Signature:
    def optional(names):
        return tuple(make_parameter(name, required=False) for name in names)

    return make_signature("look_up", inputs=optional(inputs), outputs=optional(outputs))


members = st.lists(st.sampled_from(NAMES), unique=True)
places = st.tuples(st.sampled_from(["in", "out", "other", "words"]), st.sampled_from(NAMES))


@given(members, members, st.lists(places, max_size=12))
def test_exactly_the_lines_that_use_what_is_gone_are_named(inputs, outputs, written_lines):
    forms = {
        "in": "Give {{in:7/{}}}.",
        "out": "Say {{out:7/{}}}.",
        "other": "Say {{out:77/{}}}.",
        "words": "{}",
    }
    text = "\n".join(forms.get(kind, "{}").format(name) for kind, name in written_lines)
    before, after = with_members(list(NAMES), list(NAMES)), with_members(inputs, outputs)
    comparison = diff.compare(before, after)
    move = impact.Move(
        version="2",
        before=before,
        after=after,
        changes=comparison.changes,
        now=known_tool(before),
        then=known_tool(after),
    )

    impacts = impact.impacts(text, move)

    names_by_kind = {"in": inputs, "out": outputs}
    expected = [
        line
        for line, (kind, name) in enumerate(written_lines, 1)
        if kind in names_by_kind and name not in names_by_kind[kind]
    ]
    assert [row.line for row in impacts] == expected
    assert all(row.breaks for row in impacts)
