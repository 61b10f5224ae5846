import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols import signature
from protocols.a2t.client import A2T
from protocols.list_pages import NoKnownPages, UnreadableItemError
from protocols.signature import AllowedValue
from tests.scripted import Exchange, ScriptedSession
from tests.vendor import tool

FIXTURES = Path(__file__).parents[2] / "fixtures" / "a2t"
WARM = AllowedValue("WARM", "Above 20.")
COLD = AllowedValue("COLD", "Below 5.")


def read_signature(document):
    return A2T().read(document)


def notes(document):
    return [note.code for note in A2T().notes(document, read_signature(document))]


def with_input(**members):
    return tool(1, input_parameters=[{"id": "i", "name": "City"} | members])


def with_output(**members):
    return tool(1, output_parameters=[{"id": "o", "name": "Sky"} | members])


def the_input(**members):
    (parameter,) = read_signature(with_input(**members)).inputs
    return parameter


def the_output(**members):
    (parameter,) = read_signature(with_output(**members)).outputs
    return parameter


def refusal(document):
    with pytest.raises(UnreadableItemError) as caught:
        read_signature(document)
    return caught.value


def reason(document):
    return refusal(document).reason


def test_every_member_has_its_place():
    document = json.loads((FIXTURES / "list.json").read_text(encoding="utf-8"))
    signature_read = read_signature(document["exchanges"][0]["body"]["items"][0])
    assert signature_read.name == "refill_prescription"
    assert signature_read.tags == ("pharmacy", "refills")
    number, pickup, days = signature_read.inputs
    assert (number.id, number.name, number.required, number.max_length) == (
        "rx",
        "Prescription Number",
        True,
        12,
    )
    assert (pickup.required, [value.name for value in pickup.allowed_values]) == (
        False,
        ["COUNTER", "COURIER"],
    )
    assert (days.type, days.min, days.max, days.max_defaulted) == ("int", 1, 90, False)
    assert [(output.name, output.type, output.required) for output in signature_read.outputs] == [
        ("Ready At", "string", False),
        ("refills_left", "int", False),
    ]


@pytest.mark.parametrize("version", [1, "1"])
def test_drafts_own_figure_is_read_once_it_is_json(version):
    figure = {
        "toolId": "123e4567-e89b-12d3-a456-426614174000",
        "name": "Lookup Weather",
        "description": "Looks up the weather\nof a city.",
        "img": "https://vendor.example/weather.png",
        "version": version,
        "currentVersion": version,
        "tags": ["weather"],
        "input_parameters": [{"id": "1", "name": "City", "description": "The city", "required": True}],
        "output_parameters": [{"id": "2", "name": "Temperature in Fahrenheit", "type": "int"}],
    }
    signature_read = read_signature(figure)
    assert (signature_read.name, signature_read.img) == (
        "Lookup Weather",
        "https://vendor.example/weather.png",
    )
    # The figure breaks what the text beside it advises.
    assert notes(figure) == ["NOT_SNAKE_CASE"]


@pytest.mark.parametrize("name", ["LookupWeather", "lookup-weather", "lookup__weather", "_lookup", "Lookup"])
def test_a_name_that_is_not_in_snake_case_is_noted(name):
    assert notes(tool(1, name=name)) == ["NOT_SNAKE_CASE"]
    assert notes(tool(1, name="lookup_weather_2")) == []


def test_an_allowed_value_that_is_not_in_capitals_is_noted():
    values = [{"name": "TODAY_2", "description": "The day"}]
    assert notes(with_input(type="enum", **{"allowed-values": values})) == []
    values.append({"name": "tomorrow", "description": "The next day"})
    assert notes(with_input(type="enum", **{"allowed-values": values})) == ["VALUE_NOT_CAPITAL"]


@pytest.mark.parametrize(
    "text",
    [
        "Wetter nachschlagen für eine Stadt.",
        "Devuelve el tiempo de una ciudad.",
        "Renvoie la météo pour une ville et ses environs.",
        "获取天气",
        "Прогноз погоды для города",
    ],
)
def test_a_description_that_is_not_english_is_noted(text):
    assert notes(tool(1, description=text)) == ["NOT_ENGLISH"]


@pytest.mark.parametrize(
    "text",
    [
        "Returns the weather for a city, such as München or 東京.",
        "Looks up stations of El Al and Los Angeles del Sur.",
        "Get weather data",
        "Refill Rx № 12",
        "",
    ],
)
def test_what_may_be_english_is_not_noted(text):
    assert notes(tool(1, description=text)) == []


def test_input_is_required_text_unless_it_says_otherwise():
    parameter = the_input()
    assert (parameter.type, parameter.required, parameter.description) == ("string", True, "")
    assert the_input(type=None, required=None, description=None) == parameter
    assert the_input(required=False).required is False


def test_outputs_are_never_required():
    assert the_output(required=True).required is False


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("string", "string"),
        ("String", "string"),
        ("int", "int"),
        ("INTEGER", "int"),
        ("bool", "boolean"),
        (" Boolean ", "boolean"),
    ],
)
def test_types_have_other_spellings(word, kind):
    assert (the_input(type=word).type, the_output(type=word).type) == (kind, kind)


@pytest.mark.parametrize("word", ["json", "JSON", "Json"])
def test_json_is_a_type_of_outputs_and_not_of_inputs(word):
    assert (the_output(type=word).type, the_output(type=word).unsupported_type) == ("json", "")
    assert (the_input(type=word).type, the_input(type=word).unsupported_type) == ("json", word)


def test_tool_with_an_unknown_input_type_is_kept_and_cannot_be_run():
    document = with_input(type="list of text")
    assert read_signature(document).inputs[0].unsupported_type == "list of text"
    assert A2T().why_not_run(read_signature(document)).code == "UNSUPPORTED_TYPE"
    assert notes(document) == ["UNSUPPORTED_TYPE"]


def test_unknown_output_type_does_not_stop_a_tool():
    assert the_output(type="float").unsupported_type == "float"
    assert A2T().why_not_run(read_signature(with_output(type="float"))) is None


@pytest.mark.parametrize("word", ["", " ", 5, ["string", "null"], {}])
def test_type_that_is_no_word_rejects_the_item(word):
    assert reason(with_input(type=word)).startswith("“input_parameters[0].type” is ")


def test_max_of_an_int_input_defaults_to_65535():
    parameter = the_input(type="int")
    assert (parameter.min, parameter.max, parameter.max_defaulted) == (None, 65535, True)
    stated = the_input(type="int", max=65535)
    assert (stated.max, stated.max_defaulted) == (65535, False)


def test_max_of_anything_else_does_not_default():
    assert the_output(type="int").max is None
    assert (the_input().max, the_input().max_defaulted) == (None, False)


@pytest.mark.parametrize(("limit", "stored_limit"), [(0, 0), (-5, -5), (7.0, 7), (10**12, 10**12)])
def test_limits_are_whole_numbers_for_int(limit, stored_limit):
    parameter = the_input(type="int", min=limit, max=limit)
    assert (parameter.min, parameter.max) == (stored_limit, stored_limit)
    assert type(parameter.max) is int


@pytest.mark.parametrize("limit", [1.5, "10", True, [], {}])
@pytest.mark.parametrize("member", ["min", "max"])
def test_limit_that_is_no_whole_number_rejects_an_int(member, limit):
    refused_item = refusal(
        with_input(type="int") | {"input_parameters": [{"name": "a", "type": "int", member: limit}]}
    )
    assert refused_item.code == "SHAPE"
    assert f"input_parameters[0].{member}" in refused_item.reason


def test_fractions_may_limit_what_is_not_int():
    assert the_output(type="float", max=1.5).max == 1.5


@pytest.mark.parametrize("member", ["max-length", "maxLength", "max_length"])
def test_longest_text_has_three_spellings(member):
    assert the_input(**{member: 80}).max_length == 80


@pytest.mark.parametrize("length", [-1, 1.5, "80", True])
def test_longest_text_is_a_number_from_zero_up(length):
    assert "“input_parameters[0].max-length” is " in reason(with_input(**{"max-length": length}))


def test_two_spellings_may_agree_and_must_not_differ():
    assert the_input(**{"max-length": 80, "maxLength": 80, "max_length": None}).max_length == 80
    assert "contradict each other" in reason(with_input(**{"max-length": 80, "maxLength": 90}))


VALUES = [{"name": "WARM", "description": "Above 20."}, {"name": "COLD", "description": "Below 5."}]


@pytest.mark.parametrize(
    "members",
    [
        {"allowed-values": VALUES},
        {"allowed_values": VALUES},
        {"allowedValues": VALUES},
        {"enum": VALUES},
        {"allowed-values": {"values": VALUES}},
        {"allowed-values": {"WARM": "Above 20.", "COLD": "Below 5."}},
    ],
)
def test_allowed_values_come_in_many_forms(members):
    assert the_input(type="enum", **members).allowed_values == (WARM, COLD)


@pytest.mark.parametrize(
    "value",
    [["WARM", "COLD"], [{"name": "WARM"}, {"name": "COLD", "description": None}], {"WARM": None, "COLD": ""}],
)
def test_allowed_values_need_no_description(value):
    assert the_input(type="enum", enum=value).allowed_values == (AllowedValue("WARM"), AllowedValue("COLD"))


@pytest.mark.parametrize("kind", ["string", "int"])
def test_allowed_values_of_other_types_are_kept(kind):
    assert the_input(type=kind, enum=["1"]).allowed_values == (AllowedValue("1"),)


@pytest.mark.parametrize("members", [{}, {"enum": []}, {"enum": {}}, {"allowed-values": None}])
def test_enum_without_values_rejects_an_input_and_is_fine_for_an_output(members):
    assert "“input_parameters[0].allowed-values” is missing" in reason(with_input(type="enum", **members))
    assert the_output(type="enum", **members).allowed_values == ()


@pytest.mark.parametrize(
    "value",
    ["WARM", 5, [5], [None], [{"description": "nameless"}], [""], {"WARM": 5}, ["WARM", "WARM"], {"": "a"}],
)
def test_allowed_values_of_no_known_form_reject_the_item(value):
    refused_item = refusal(with_input(type="enum", enum=value))
    assert (refused_item.code, "input_parameters[0].enum" in refused_item.reason) == ("SHAPE", True)


@pytest.mark.parametrize("member", ["tags", "input_parameters", "output_parameters"])
def test_lists_may_be_left_out(member):
    document = tool(1) | {member: None}
    without = {name: value for name, value in document.items() if name != member}
    assert read_signature(document) == read_signature(without)


@pytest.mark.parametrize("member", ["tags", "input_parameters", "output_parameters"])
@pytest.mark.parametrize("value", ["a", 5, {}, True, {"City": {}}])
def test_list_that_is_none_rejects_the_item(member, value):
    assert reason(tool(1) | {member: value}).startswith(f"“{member}” is ")


def test_text_may_be_left_out():
    bare = read_signature({"toolId": "a", "version": 1, "name": "a"})
    assert (bare.description, bare.img, bare.tags, bare.inputs, bare.outputs) == ("", "", (), (), ())


@pytest.mark.parametrize("member", ["description", "img"])
@pytest.mark.parametrize("value", [5, [], {}, False])
def test_text_of_another_kind_rejects_the_item(member, value):
    assert reason(tool(1) | {member: value}).startswith(f"“{member}” is ")


@pytest.mark.parametrize("name", [None, "", "  \n", 5, [], "n" * 1025])
def test_name_that_nothing_can_be_called_by_rejects_the_item(name):
    assert refusal(tool(1, name=name)).code == "BAD_NAME"


@pytest.mark.parametrize(("length", "codes"), [(254, []), (255, ["LONG_NAME"]), (1024, ["LONG_NAME"])])
def test_long_name_is_kept_whole_and_noted(length, codes):
    document = tool(1, name="ñ" * length)
    assert len(read_signature(document).name) == length
    assert notes(document) == [*codes, "NOT_SNAKE_CASE"]


@pytest.mark.parametrize("name", ["../etc", "a b", "‮abc", "天气"])
def test_name_is_data(name):
    assert read_signature(tool(1, name=name)).name == name


@pytest.mark.parametrize(("length", "codes"), [(1999, []), (2000, ["LONG_DESCRIPTION"])])
def test_long_description_is_kept_whole_and_noted(length, codes):
    document = tool(1, description="d" * length)
    assert len(read_signature(document).description) == length
    assert notes(document) == codes


@pytest.mark.parametrize("text", ["d" * 32_768, "ñ" * 16_384])
def test_text_of_32_kilobytes_is_the_longest(text):
    assert read_signature(tool(1, description=text)).description == text
    assert refusal(tool(1, description=text + "d")).code == "TEXT_TOO_LONG"
    assert refusal(with_input(description=text + "d")).code == "TEXT_TOO_LONG"


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        ({"name": "V" * 255, "description": "d" * 2000}, []),
        ({"name": "V" * 256}, ["LONG_VALUE"]),
        ({"name": "V", "description": "d" * 2001}, ["LONG_VALUE"]),
    ],
)
def test_long_allowed_value_is_kept_whole_and_noted(members, codes):
    assert notes(with_input(type="enum", enum=[members])) == codes


def test_tags_are_text():
    assert read_signature(tool(1, tags=["a", "", "a"])).tags == ("a", "", "a")
    for tag in (5, None, "t" * 256):
        assert reason(tool(1, tags=["a", tag])).startswith("“tags[1]” is ")


def test_parameter_names_may_differ_in_case_alone():
    document = tool(1, input_parameters=[{"id": "a", "name": "City"}, {"id": "b", "name": "city"}])
    assert [parameter.name for parameter in read_signature(document).inputs] == ["City", "city"]


@pytest.mark.parametrize("second", [{"id": "a", "name": "Town"}, {"id": "b", "name": "City"}, {"name": "a"}])
def test_inputs_of_one_id_or_name_reject_the_item(second):
    refused_item = refusal(tool(1, input_parameters=[{"id": "a", "name": "City"}, second]))
    assert refused_item.reason.endswith("twice.")


def test_outputs_may_share_a_name_and_not_an_id():
    document = tool(1, output_parameters=[{"id": "a", "name": "Sky"}, {"id": "b", "name": "Sky"}])
    assert notes(document) == ["SAME_OUTPUT_NAME"]
    assert refusal(tool(1, output_parameters=[{"id": "a", "name": "Sky"}, {"id": "a", "name": "Sun"}]))


def test_parameter_id_may_be_a_number_or_missing():
    assert the_input(id=5).id == "5"
    assert the_input(id=None).id == "City"
    assert notes(with_input(id=None)) == ["NO_PARAMETER_ID"]


@pytest.mark.parametrize("value", ["", True, 1.5, [], "i" * 1025])
def test_parameter_id_of_another_kind_rejects_the_item(value):
    assert "“input_parameters[0].id” is " in reason(with_input(id=value))


@pytest.mark.parametrize("parameter", [None, 5, "City", []])
def test_parameter_that_is_no_object_rejects_the_item(parameter):
    assert reason(tool(1, input_parameters=[parameter])).startswith("“input_parameters[0]” is ")


@pytest.mark.parametrize("name", [None, "", " ", 5])
def test_parameter_without_a_name_rejects_the_item(name):
    assert "“output_parameters[0].name” is " in reason(with_output(name=name))


@pytest.mark.parametrize("required", ["true", 1, 0, []])
def test_required_is_true_or_false(required):
    assert "“input_parameters[0].required” is " in reason(with_input(required=required))


def parameters(count):
    return [{"id": str(n), "name": f"p{n}"} for n in range(count)]


def test_too_many_parameters_reject_the_item():
    assert len(read_signature(tool(1, input_parameters=parameters(999))).inputs) == 999
    assert refusal(tool(1, input_parameters=parameters(1000))).code == "SCHEMA_TOO_BIG"


def test_too_many_tags_reject_the_item():
    assert refusal(tool(1, tags=["t"] * 1001)).code == "SCHEMA_TOO_BIG"


def test_too_many_allowed_values_reject_the_item():
    halves = [{"name": name, "enum": [str(n) for n in range(5001)]} for name in "ab"]
    assert refusal(tool(1, input_parameters=halves)).code == "SCHEMA_TOO_BIG"


def test_oddities_are_noted_in_sentences():
    document = tool(1, toolId="weather", output_parameters=None, input_parameters=None)
    notes = A2T().notes(document, read_signature(document))
    assert [(note.code, note.message) for note in notes] == [
        ("NOT_A_UUID", "The id of “tool_1” is not a UUID."),
        ("NO_OUTPUTS", "“tool_1” names no output."),
    ]


def test_limits_that_leave_no_value_are_noted():
    assert notes(with_input(type="int", min=5, max=4)) == ["NO_VALUE_FITS"]
    assert notes(with_input(type="int", min=65536)) == ["NO_VALUE_FITS"]
    assert notes(with_input(type="int", min=4, max=5)) == []


TEXT = st.text() | st.sampled_from(["\0", "\ud800", " ", "x" * 1025, "x" * 32_769])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = [
    *tool(1),
    *("id", "type", "required", "min", "max", "max-length", "allowed-values", "enum", "img", "toolID"),
]


@st.composite
def nearly_tools(draw):
    """A good tool with a few members replaced, added or taken away, at the top or in a parameter."""
    inputs = [
        {"id": "a", "name": "City", "type": "enum", "enum": ["A", "B"]},
        {"id": "b", "name": "Days", "type": "int", "max": 9},
    ]
    document = tool(1, input_parameters=inputs)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([document, *inputs]))
        member = draw(st.sampled_from(MEMBERS) | st.text(max_size=3))
        if draw(st.booleans()):
            place[member] = draw(ANYTHING)
        else:
            place.pop(member, None)
    return document


def all_or_one_reason(text):
    """The item is read, or it is refused with one reason; nothing else can happen."""
    session = ScriptedSession(Exchange(path="/tools", params={"pageLimit": "100"}, text=text))
    (page,) = A2T().enumerate(session, NoKnownPages())
    assert len(page.items) + len(page.rejected) == 1
    for rejected in page.rejected:
        assert rejected.code.isupper()
        assert rejected.reason.endswith(".")
        assert len(rejected.tool) <= 255
    for item in page.items:
        signature_or_reason = read_or_reason(item.document)
        if isinstance(signature_or_reason, str):
            assert signature_or_reason.endswith(".")
        else:
            assert signature.from_json(signature.to_json(signature_or_reason)) == signature_or_reason
            list(A2T().notes(item.document, signature_or_reason))


def read_or_reason(document):
    try:
        return read_signature(document)
    except UnreadableItemError as error:
        return error.reason


@settings(max_examples=100)
@given(nearly_tools())
def test_a_tool_with_any_fault_is_read_or_refused(document):
    all_or_one_reason(json.dumps({"items": [document]}))


@given(ANYTHING)
def test_anything_in_place_of_a_tool_is_read_or_refused(item):
    all_or_one_reason(json.dumps({"items": [item]}))
