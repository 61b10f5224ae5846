import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from designer.signatures.effective import Effective, Misfit, as_document, effective, misfits, why_not_preset
from designer.signatures.words import (
    NOTHING,
    ParameterWords,
    ValueWords,
    Words,
    from_members,
    members,
    merge_words,
)
from protocols.signature import AllowedValue
from tests.designer.strategies import signatures, tunings
from tests.factories import make_parameter, make_signature


def effective_with(signature=None, **words):
    tuning = Words(parameters={name: ParameterWords(**word) for name, word in words.items()})
    return effective(signature or make_signature(), name="forecast", agent_tuning=tuning)


def test_untuned_signature_is_the_vendors():
    tool = effective(make_signature(description="Theirs"), name="forecast")

    assert tool.description == "Theirs"
    assert [(i.alias, i.parameter.name, i.is_required) for i in tool.inputs] == [("city", "city", True)]


def test_agents_words_go_before_the_catalogs_and_those_before_the_vendors():
    signature = make_signature(inputs=(make_parameter("a"), make_parameter("b"), make_parameter("c")))
    catalog = Words(
        description="Catalog",
        parameters={
            "a": ParameterWords(description="Catalog a"),
            "b": ParameterWords(description="Catalog b"),
        },
    )
    agent = Words(parameters={"b": ParameterWords(description="Agent b")})

    tool = effective(signature, name="t", catalog_tuning=catalog, agent_tuning=agent)

    assert tool.description == "Catalog"
    assert [i.parameter.description for i in tool.inputs] == ["Catalog a", "Agent b", "The c"]


def test_hidden_input_is_not_shown_and_its_preset_is_kept():
    tool = effective_with(city={"hidden": True, "preset": "Oslo"})

    assert tool.inputs == ()
    assert [(h.parameter.name, h.preset) for h in tool.hidden] == [("city", "Oslo")]


def test_preset_of_a_shown_input_makes_it_optional():
    (city,) = effective_with(city={"preset": "Oslo"}).inputs

    assert city.preset == "Oslo"
    assert not city.is_required


def test_agent_may_show_what_the_catalog_hides():
    catalog = Words(parameters={"city": ParameterWords(hidden=True, preset="Oslo")})
    agent = Words(parameters={"city": ParameterWords(hidden=False)})

    tool = effective(make_signature(), name="t", catalog_tuning=catalog, agent_tuning=agent)

    assert [i.preset for i in tool.inputs] == ["Oslo"]


def test_required_input_without_preset_is_never_hidden():
    words = Words(parameters={"city": ParameterWords(hidden=True)})

    tool = effective(make_signature(), name="t", agent_tuning=words)

    assert [i.alias for i in tool.inputs] == ["city"]
    assert misfits(make_signature(), words) == [
        Misfit("city", "“city” is required. Enter a preset, or let the model see it.", exposes=True)
    ]


def test_words_about_an_input_that_is_gone_are_set_aside():
    words = Words(parameters={"town": ParameterWords(description="Ours")})

    assert effective(make_signature(), name="t", agent_tuning=words) == effective(make_signature(), name="t")
    assert [m.exposes for m in misfits(make_signature(), words)] == [False]


def test_hiding_an_input_does_not_rename_its_twin():
    signature = make_signature(inputs=(make_parameter("City", required=False), make_parameter("city")))

    assert (
        effective_with(signature, City={"hidden": True}).inputs[0].alias
        == effective_with(signature).inputs[1].alias
    )


@pytest.mark.parametrize(
    ("parameter", "value", "fits"),
    [
        (make_parameter(type="string", max_length=3), "abc", True),
        (make_parameter(type="string", max_length=3), "abcd", False),
        (make_parameter(type="string"), 3, False),
        (make_parameter(type="int", min=0, max=5), 5, True),
        (make_parameter(type="int", min=0, max=5), 6, False),
        (make_parameter(type="int", min=0, max=5), -1, False),
        (make_parameter(type="int"), True, False),
        (make_parameter(type="int"), 1.0, True),
        (make_parameter(type="int"), 1.5, False),
        (make_parameter(type="number"), 1, True),
        (make_parameter(type="number"), float("inf"), False),
        (make_parameter(type="boolean"), False, True),
        (make_parameter(type="boolean"), 0, False),
        (make_parameter(type="enum", allowed_values=(AllowedValue("A"),)), "A", True),
        (make_parameter(type="enum", allowed_values=(AllowedValue("A"),)), "B", False),
        (make_parameter(type="enum"), "anything", True),
        (make_parameter(type="enum"), 1, False),
        (make_parameter(type="json"), {"a": [1]}, True),
        (make_parameter(type="int"), UNSET, True),
        (make_parameter(type="string"), None, False),
    ],
)
def test_preset_must_fit_the_type(parameter, value, fits):
    assert (why_not_preset(parameter, value) == "") is fits


@given(signatures, st.data())
def test_whatever_is_tuned_can_be_called(signature, data):
    tool = effective(signature, name="t", agent_tuning=data.draw(tunings(signature)))

    assert {h.parameter.name for h in tool.hidden} | {i.parameter.name for i in tool.inputs} == {
        p.name for p in signature.inputs
    }
    for hidden in tool.hidden:
        assert not hidden.parameter.required or hidden.preset is not UNSET
    vendors = {parameter.name: parameter for parameter in signature.inputs}
    for parameter in (*tool.inputs, *tool.hidden):
        assert why_not_preset(vendors[parameter.parameter.name], parameter.preset) == ""
    for shown_input in tool.inputs:
        values = {value.name for value in shown_input.parameter.allowed_values}
        assert values.isdisjoint(shown_input.hidden_values)
        assert values or not shown_input.hidden_values
        assert shown_input.preset is UNSET or shown_input.preset not in shown_input.hidden_values
    aliases = [parameter.alias.lower() for parameter in tool.inputs]
    assert len(set(aliases)) == len(aliases)
    # In no two formats does a name mean different inputs.
    for shown_input in tool.inputs:
        for other in tool.inputs:
            assert (
                other is shown_input
                or shown_input.alias.lower() != other.parameter.name.lower()
                or not shown_input.is_named
            )


@given(signatures, st.data())
def test_effective_signature_survives_its_json(signature, data):
    tool = effective(signature, name="t", agent_tuning=data.draw(tunings(signature)))

    assert msgspec.json.decode(msgspec.json.encode(tool), type=Effective) == tool


@given(signatures, st.data())
def test_two_tunings_are_one_merged_tuning(signature, data):
    catalog, agent = data.draw(tunings(signature)), data.draw(tunings(signature))

    assert effective(signature, name="t", catalog_tuning=catalog, agent_tuning=agent) == effective(
        signature, name="t", agent_tuning=merge_words(catalog, agent)
    )


@given(signatures, st.data())
def test_words_survive_being_taken_apart(signature, data):
    words = data.draw(tunings(signature))

    # A tuning without texts for an input equals no tuning.
    assert merge_words(NOTHING, words) == from_members(members(words)) == merge_words(words, words)
    assert members(from_members(members(words))) == members(words)


def test_words_about_values_follow_the_description_where_a_schema_holds_them():
    schema = {"anyOf": [{"type": "string", "enum": ["C", "F"]}, {"type": "null"}], "default": "F"}
    unit = make_parameter(
        "unit", type="enum", allowed_values=(AllowedValue("C"), AllowedValue("F")), schema=schema, default="F"
    )
    values = {"C": ValueWords(description="Celsius"), "F": ValueWords(hidden=True)}

    (shown_unit,) = effective_with(make_signature(inputs=(unit,)), unit={"values": values}).inputs

    assert shown_unit.parameter.description == "The unit\n- C: Celsius"
    assert shown_unit.parameter.schema == {"anyOf": [{"type": "string", "enum": ["C"]}, {"type": "null"}]}
    assert shown_unit.parameter.default is UNSET


def test_document_is_flat_and_complete():
    document = as_document(effective_with(city={"preset": "Oslo"}))

    assert document["inputs"][0]["name"] == "city"
    assert document["inputs"][0]["preset"] == "Oslo"
    assert document["hidden"] == document["outputs"] == document["tags"] == []
