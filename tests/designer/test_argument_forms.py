"""Whatever was sent once, its form sends again; whatever a vendor answers can be kept and shown."""

import json
import string

from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json as fast_json

from catalog.calls import results
from catalog.models.calls import Result
from catalog.protocols.base import Ask, Note, Outcome
from catalog.protocols.signature import AllowedValue, Parameter, Signature
from designer.argument_forms import ArgumentsForm

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
    kind = draw(st.sampled_from(["string", "int", "number", "boolean", "enum", "json"]))
    allowed = tuple(map(AllowedValue, draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))))
    value = draw(
        {
            "string": TEXTS,
            "int": st.integers(-(10**30), 10**30),
            "number": NUMBERS,
            "boolean": st.booleans(),
            "enum": st.sampled_from([each.name for each in allowed]),
            "json": DOCUMENTS.filter(lambda document: document is not None),
        }[kind]
    )
    parameter = Parameter(
        id=draw(NAMES),
        name=draw(NAMES),
        type=kind,
        required=draw(st.booleans()),
        description=draw(TEXTS),
        allowed_values=allowed if kind == "enum" else (),
        max_length=draw(st.none() | st.integers(300, 400)) if kind == "string" else None,
        schema={"type": "string", "format": "x-line"} if kind == "string" and draw(st.booleans()) else None,
    )
    return parameter, value


def as_a_browser_sends(form: ArgumentsForm) -> dict[str, object]:
    """Every field as it stands: line ends become CR LF, and there are none in a field of one line."""
    sent = {}
    for name, field in form.fields.items():
        value = form[name].value()
        if isinstance(value, bool):
            sent |= {name: "on"} if value else {}
            continue
        lines = (
            (str(value) if value is not None else "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        )
        sent[name] = ("" if field.widget.__class__.__name__ == "TextInput" else "\r\n").join(lines)
    return sent


@given(st.lists(inputs_with_values(), max_size=4, unique_by=lambda pair: pair[0].name))
def test_what_an_earlier_call_sent_its_form_sends_again(pairs):
    signature = Signature(name="t", description="", inputs=tuple(parameter for parameter, _ in pairs))
    sent = {parameter.name: value for parameter, value in pairs}

    again = ArgumentsForm(
        as_a_browser_sends(ArgumentsForm(signature=signature, given=sent)), signature=signature
    )

    assert again.is_valid(), again.errors.as_text()
    assert json.dumps(again.arguments, sort_keys=True) == json.dumps(sent, sort_keys=True)


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

    kept = results.kept(outcome, [results.attempt(outcome, [], 0, 0)])
    result = fast_json.decode(kept, type=Result)

    assert kept.isascii() or kept.encode()
    assert "\0" not in kept
    assert result.outputs.keys() == {name.encode(errors="replace").decode() for name in outputs}
    shown = VALUE.render(Context({"value": result.outputs}))
    assert "<script" not in shown
