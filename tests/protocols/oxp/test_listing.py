import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolViolationError, RefusedError, UnavailableError
from protocols import signature
from protocols.list_pages import NoKnownPages, UnreadableItemError
from protocols.losses import losses
from protocols.oxp.client import OXP
from tests.core.schema import schemas
from tests.scripted import Exchange, ScriptedSession

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}


def tool(tool_id="Calculator.Add", version="1.0.0", **members):
    name = str(tool_id).partition("@")[0].replace(".", "_")
    return {"id": tool_id, "name": name, "description": "Adds.", "version": version} | members


def answering(body, **recorded):
    return ScriptedSession(Exchange(path="/tools", body=body, **recorded))


def list_page(*items, **recorded):
    (page,) = OXP().enumerate(answering({"items": list(items)}, **recorded), NoKnownPages())
    return page


def listed_ids(page):
    return [(item.tool_id, item.label) for item in page.items]


def rejected(page):
    return [(rejection.tool, rejection.code) for rejection in page.rejected]


@pytest.mark.parametrize(
    "wrapped", [lambda items: {"items": items}, lambda items: {"tools": items}, lambda items: items]
)
def test_list_is_read_in_each_of_its_forms(wrapped):
    (page,) = OXP().enumerate(answering(wrapped([tool()])), NoKnownPages())
    assert listed_ids(page) == [("Calculator.Add", "1.0.0")]
    assert page.next is None


@pytest.mark.parametrize(("version", "codes"), [("1.0", []), ("2.0", ["OXP_VERSION"])])
def test_another_version_of_the_protocol_is_noted(version, codes):
    page = list_page(tool(), headers={"oxp-version": version})
    assert listed_ids(page) == [("Calculator.Add", "1.0.0")]
    assert [note.code for note in page.notes] == codes


@pytest.mark.parametrize("body", [{}, {"items": {}}, {"items": None}, 5, "tools", None])
def test_what_is_no_list_ends_the_run(body):
    with pytest.raises(ProtocolViolationError) as caught:
        list(OXP().enumerate(answering(body), NoKnownPages()))
    assert caught.value.code == "SHAPE"


@pytest.mark.parametrize(
    ("headers", "body", "revision"),
    [
        ({"oxp-version": "1.0"}, {"items": []}, "bare"),
        ({"oxp-version": "1.0"}, {"$schema": "urn:oxp:1.0", "items": []}, "bare"),
        ({}, {"$schema": "urn:oxp:1.0", "items": []}, "wrapped"),
        ({}, {"tools": []}, "wrapped"),
        ({}, {"items": []}, None),
        ({}, [], None),
    ],
)
def test_list_shows_the_revision(headers, body, revision):
    session = answering(body, headers=headers)
    list(OXP().enumerate(session, NoKnownPages()))
    assert session.memory.get("revision") == revision


@pytest.mark.parametrize(
    ("tool_id", "version", "code"),
    [
        ("Calculator", "1.0.0", "BAD_TOOL_ID"),
        ("My-Kit.Add", "1.0.0", "BAD_TOOL_ID"),
        ("Calculator.Add@1.0", "1.0.0", "BAD_TOOL_ID"),
        ("Calculator.Add@1.0.0-rc1", "1.0.0", "BAD_TOOL_ID"),
        ("Calculator.Add@", "1.0.0", "BAD_TOOL_ID"),
        ("A." + "x" * 300, "1.0.0", "BAD_TOOL_ID"),
        (["Calculator.Add"], "1.0.0", "BAD_TOOL_ID"),
        (None, "1.0.0", "BAD_TOOL_ID"),
        ("Calculator.Add", "1.0", "BAD_VERSION"),
        ("Calculator.Add", 1, "BAD_VERSION"),
        ("Calculator.Add", None, "BAD_VERSION"),
        ("Calculator.Add", f"1.{'9' * 19}.0", "BAD_VERSION"),
        ("Calculator.Add@1.0.1", "1.0.0", "BAD_VERSION"),
        ("Calculator.Add@2", "2.0.1", "BAD_VERSION"),
    ],
)
def test_definition_that_cannot_be_identified_is_rejected_alone(tool_id, version, code):
    page = list_page(tool(tool_id, version), tool("Other.Tool"))
    assert [rejection.code for rejection in page.rejected] == [code]
    assert listed_ids(page) == [("Other.Tool", "1.0.0")]


@pytest.mark.parametrize(
    ("tool_id", "version"), [("A.B@1.2.3", "1.2.3"), ("A.B@2", "2.0.0"), ("A.B", "0.0.0"), ("A.B@0", "0.0.0")]
)
def test_version_in_the_id_may_say_the_same(tool_id, version):
    assert listed_ids(list_page(tool(tool_id, version))) == [("A.B", version)]


def test_upper_and_lower_case_make_two_tools():
    assert len(list_page(tool("A.Add"), tool("A.add")).items) == 2


def test_latest_version_by_number_is_shown_and_all_are_the_history():
    items = [tool("A.B", "1.9.0"), tool("A.B", "1.10.0"), tool("A.C"), tool("A.B", "1.2.0")]
    assert listed_ids(list_page(*items)) == [("A.B", "1.10.0"), ("A.C", "1.0.0")]
    session = answering({"items": items})
    protocol = OXP()
    (page,) = protocol.versions(session, "A.B")
    assert sorted(item.label_key for item in page.items) == [(1, 2, 0), (1, 9, 0), (1, 10, 0)]
    (other,) = protocol.versions(session, "A.C")
    assert listed_ids(other) == [("A.C", "1.0.0")], "one reading of the list answers for every tool"


def test_history_is_read_anew_in_another_session():
    protocol = OXP()
    list(protocol.versions(answering({"items": []}), "A.B"))
    assert list(protocol.versions(answering({"items": [tool("A.B")]}), "A.B"))


def test_one_version_listed_twice_is_left_to_the_reader_to_judge():
    page = list_page(tool("A.B"), tool("A.B", description="Otherwise."))
    assert listed_ids(page) == [("A.B", "1.0.0")] * 2


def test_latest_version_that_can_be_read_is_shown():
    page = list_page(tool("A.B", "2.0.0", input_schema="none"), tool("A.B", "1.0.0"))
    assert listed_ids(page) == [("A.B", "1.0.0")]
    assert rejected(page) == [("A.B@2.0.0", "BAD_SCHEMA")]


def test_fault_in_one_version_does_not_cost_another():
    page = list_page(tool("A.B", "2.x"), tool("A.B", "1.0.0"), tool("A.C", "2.x"))
    assert listed_ids(page) == [("A.B", "1.0.0")]
    assert rejected(page) == [("A.B@#1", "BAD_VERSION"), ("A.C", "BAD_VERSION")]


def test_value_that_cannot_be_stored_costs_one_definition():
    body = json.dumps({"items": [tool(description="a\0b"), tool("A.C")]})
    (page,) = OXP().enumerate(answering(None, text=body), NoKnownPages())
    assert (listed_ids(page), rejected(page)) == ([("A.C", "1.0.0")], [("Calculator.Add", "JSON_NUL")])


def test_definition_that_is_too_large_is_rejected():
    page = list_page(tool(extra="x" * (1024 * 1024)))
    assert rejected(page) == [("Calculator.Add", "SCHEMA_TOO_BIG")]


def health(status=200, **recorded):
    return Exchange(path="/health", status=status, text="", **recorded)


@pytest.mark.parametrize(
    ("status", "answered", "error", "code", "words"),
    [
        (404, health(), RefusedError, "NOT_FOUND", "reports that it is healthy"),
        (404, health(404), RefusedError, "NOT_FOUND", "There is nothing at /health, either"),
        (404, health(503), UnavailableError, "NOT_READY", "not ready"),
        (503, health(503), UnavailableError, "NOT_READY", "not ready"),
        (500, health(), UnavailableError, "HTTP_500", "reports that it is healthy"),
        (500, health(fails="RESET"), UnavailableError, "HTTP_500", "answered 500."),
    ],
)
def test_health_tells_a_vendor_that_is_down_from_a_wrong_address(status, answered, error, code, words):
    session = ScriptedSession(Exchange(path="/tools", status=status, text=""), answered)
    with pytest.raises(error) as caught:
        list(OXP().enumerate(session, NoKnownPages()))
    assert caught.value.code == code
    assert words in caught.value.message


def test_credential_that_is_missing_is_no_question_of_health():
    session = ScriptedSession(Exchange(path="/tools", status=401, text=""))
    with pytest.raises(RefusedError) as caught:
        list(OXP().enumerate(session, NoKnownPages()))
    assert caught.value.code == "AUTH"


def test_address_of_the_list_may_be_entered():
    session = ScriptedSession(Exchange(path="", body={"items": [tool()]}), root="https://v.example/oxp/tools")
    assert OXP().fetch(session, "Calculator.Add").label == "1.0.0"
    away = ScriptedSession(Exchange(path="", status=404, text=""), root="https://v.example/oxp/tools")
    with pytest.raises(RefusedError):
        OXP().fetch(away, "Calculator.Add")


@pytest.mark.parametrize("label", [None, "3.0.0"])
def test_tool_or_version_that_is_not_listed_cannot_be_fetched(label):
    items = {"items": [tool("A.B") if label else tool("A.C")]}
    with pytest.raises(RefusedError) as caught:
        OXP().fetch(answering(items), "A.B", label)
    assert caught.value.code == "NOT_FOUND"


def read_signature(**members):
    return OXP().read(tool(**members))


def test_schemas_become_inputs_and_outputs():
    signature_read = read_signature(input_schema=SCHEMA, output_schema={"type": "integer"})
    assert [(parameter.name, parameter.type, parameter.required) for parameter in signature_read.inputs] == [
        ("a", "number", True)
    ]
    assert [(output.name, output.type, output.is_whole) for output in signature_read.outputs] == [
        ("value", "int", True)
    ]


@pytest.mark.parametrize("schema", [{"parameters": SCHEMA}, SCHEMA])
def test_early_form_of_an_input_schema_is_unwrapped(schema):
    assert [parameter.name for parameter in read_signature(input_schema=schema).inputs] == ["a"]


@pytest.mark.parametrize(
    "schema",
    [{"type": "object", "properties": {"parameters": {"type": "string"}}}, {"parameters": {"a": {}}}],
)
def test_what_only_looks_like_the_early_form_is_not_unwrapped(schema):
    assert [parameter.name for parameter in read_signature(input_schema=schema).inputs] != ["a"]


@pytest.mark.parametrize("members", [{}, {"input_schema": {}}, {"input_schema": {"parameters": {}}}])
def test_tool_without_a_schema_has_no_inputs(members):
    assert read_signature(**members).inputs == ()


def test_null_output_is_nothing_and_empty_output_is_anything():
    assert read_signature(output_schema=None).outputs == ()
    assert [output.type for output in read_signature(output_schema={}).outputs] == ["json"]


def test_requirements_are_shown():
    needs = {
        "authorization": [{"id": "mail", "oauth2": {"scopes": ["read", "send"]}}, {"id": "maps"}, {}],
        "secrets": [{"id": "key"}],
        "user_id": True,
    }
    signature_read = read_signature(requirements=needs)
    assert signature_read.requirements.scopes == ("read", "send", "maps")
    assert (signature_read.requirements.secrets, signature_read.requirements.user) == (("key",), True)
    assert signature_read.rest["requirements"] == needs
    assert OXP().facts(signature_read) == [
        ("Authorization", "mail: read, send"),
        ("Authorization", "maps: maps"),
    ]
    assert OXP().facts(read_signature()) == []


@pytest.mark.parametrize(
    "needs",
    [
        5,
        {"authorization": {"id": "mail"}},
        {"authorization": ["mail"]},
        {"authorization": [{"id": ""}]},
        {"authorization": [{"oauth2": {"scopes": [5]}}]},
        {"secrets": [{}]},
        {"user_id": "yes"},
    ],
)
def test_requirements_of_another_form_reject_the_tool(needs):
    with pytest.raises(UnreadableItemError) as caught:
        read_signature(requirements=needs)
    assert caught.value.code == "SHAPE"


@pytest.mark.parametrize(("members", "code"), [({"name": " "}, "BAD_NAME"), ({"description": 5}, "SHAPE")])
def test_text_of_another_form_rejects_the_tool(members, code):
    with pytest.raises(UnreadableItemError) as caught:
        read_signature(**members)
    assert caught.value.code == code


def test_name_outside_the_protocol_is_noted():
    document = tool(name="Adds two numbers!")
    (note,) = OXP().notes(document, OXP().read(document))
    assert note.code == "ODD_NAME"
    assert OXP().notes(tool(), read_signature()) == ()


input_schemas = schemas.schemas | schemas.objects() | st.none() | st.just({})
definitions = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["A.B", "A.B@1", "A.B@1.0.0"]),
        "name": st.sampled_from(["A_B", "adds!"]),
        "version": st.just("1.0.0"),
    },
    optional={
        "description": schemas.texts | st.none(),
        "input_schema": input_schemas | st.builds(lambda inner: {"parameters": inner}, schemas.objects()),
        "output_schema": input_schemas,
        "requirements": st.just({"user_id": False, "more": 1}) | st.none(),
        "icon": schemas.values,
    },
)


@given(definitions)
def test_definition_is_written_as_it_came(document):
    try:
        signature_read = signature.from_json(signature.to_json(OXP().read(document)))
    except UnreadableItemError:
        return
    assert losses(document, OXP().write(signature_read, "A.B", "1.0.0")) == []
