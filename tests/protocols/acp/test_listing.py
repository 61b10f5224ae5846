import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.outbound.errors import ProtocolViolationError, RefusedError, UnavailableError
from protocols import signature
from protocols.acp.client import ACP
from protocols.list_pages import Ending, NoKnownPages, UnreadableItemError
from protocols.losses import losses
from tests.core.schema import schemas
from tests.scripted import Exchange, ScriptedSession

ONE, TWO, THREE = (f"5f0a3c1e-8d7b-4f16-9a52-0c6e1b2d3f0{number}" for number in (1, 2, 3))
INPUT = {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]}


def metadata(version="1.0.0", name="example.echo", **members):
    return {"ref": {"name": name, "version": version}, "description": "Says it again."} | members


def descriptor(**specs):
    return {
        "metadata": metadata(),
        "specs": {"capabilities": {}, "input": INPUT, "output": {"type": "string"}} | specs,
    }


def search(body, offset=0, limit=100, status=200, **query):
    payload = {**query, "limit": limit, "offset": offset}
    return Exchange("POST", "/agents/search", json=payload, status=status, body=body)


def end(offset, limit=100, **query):
    return search([], offset=offset, limit=limit, **query)


def agents(*ids):
    return [{"agent_id": agent_id, "metadata": metadata()} for agent_id in ids]


def described(agent_id, document=None, **recorded):
    return Exchange(path=f"/agents/{agent_id}/descriptor", body=document or descriptor(), **recorded)


def pages(*recorded, **settings):
    session = ScriptedSession(*recorded)
    pages_found = list(ACP(settings).enumerate(session, NoKnownPages()))
    assert not session.left
    return pages_found


def listed_ids(listed_pages):
    return [item.tool_id for page in listed_pages for item in page.items]


def rejected(listed_pages):
    return [(rejection.tool, rejection.code) for page in listed_pages for rejection in page.rejected]


def test_no_agent_after_those_that_were_listed_is_the_end():
    (page,) = pages(search(agents(ONE, TWO)), described(ONE), described(TWO), end(2))
    assert (listed_ids([page]), page.next, page.ending) == ([ONE, TWO], None, Ending.SIGN)


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_server_may_send_fewer_agents_than_were_asked_for(cap):
    ids = [f"{ONE[:-2]}{number}" for number in range(10, 15)]
    recorded = []
    for offset in range(0, 5, cap):
        some = ids[offset : offset + cap]
        recorded += [search(agents(*some), offset=offset), *map(described, some)]
    listed_pages = pages(*recorded, end(5))
    assert listed_ids(listed_pages) == ids
    assert [page.next for page in listed_pages] == [*(f"offset={n}" for n in range(cap, 5, cap)), None]
    assert listed_pages[-1].ending is Ending.SIGN


def test_page_of_agents_that_were_there_before_is_the_end():
    listed_pages = pages(
        *(search(agents(ONE, TWO), limit=2), described(ONE), described(TWO)),
        search(agents(TWO, ONE), offset=2, limit=2),
        page_size=2,
    )
    assert (listed_ids(listed_pages), len(listed_pages), listed_pages[0].ending) == (
        [ONE, TWO],
        1,
        Ending.REPEATED,
    )


WANTED = {"detail": "At least one of 'name' or 'version' must be provided"}


def test_names_and_versions_are_searched_one_after_the_other():
    listed_pages = pages(
        search(WANTED, status=422),
        *(search(agents(ONE), name="echo"), described(ONE), end(1, name="echo")),
        *(search(agents(ONE), name="again"), end(1, name="again")),
        *(search(agents(ONE, TWO), version="1.0"), described(ONE), described(TWO), end(2, version="1.0")),
        agent_names=["echo", "again"],
        agent_versions=["1.0"],
    )
    assert listed_ids(listed_pages) == [ONE, ONE, TWO]
    assert [page.next for page in listed_pages] == ["version=1.0&offset=0", None]
    assert listed_pages[1].cursor == listed_pages[0].next


def test_search_that_brings_nothing_is_no_page():
    listed_pages = pages(
        search(WANTED, status=422),
        *(search(agents(ONE), name="echo"), described(ONE), end(1, name="echo"), end(0, name="again")),
        agent_names=["echo", "again"],
    )
    assert [len(page.items) for page in listed_pages] == [1]


def test_one_search_that_repeats_itself_leaves_the_end_unknown():
    listed_pages = pages(
        search(WANTED, status=422),
        *(search(agents(ONE), name="echo"), described(ONE), search(agents(ONE), offset=1, name="echo")),
        *(search(agents(TWO), name="again"), described(TWO), end(1, name="again")),
        agent_names=["echo", "again"],
    )
    assert (listed_ids(listed_pages), listed_pages[-1].ending) == ([ONE, TWO], Ending.REPEATED)


@pytest.mark.parametrize("error_body", [WANTED, "name or version wanted", {"message": "a name or a version"}])
def test_server_that_wants_a_name_says_so_to_an_administrator(error_body):
    with pytest.raises(RefusedError) as caught:
        pages(search(error_body, status=422))
    assert caught.value.code == "NAMES_WANTED"


@pytest.mark.parametrize(("error_body", "status"), [("no such limit", 422), ({"detail": "bad"}, 400)])
def test_other_refusals_are_passed_on(error_body, status):
    with pytest.raises(RefusedError) as caught:
        pages(search(error_body, status=status))
    assert caught.value.code == f"HTTP_{status}"
    assert caught.value.message.endswith(("no such limit", "bad"))


def test_refusal_of_a_name_is_no_wish_for_one():
    with pytest.raises(RefusedError) as caught:
        pages(search(WANTED, status=422), search(WANTED, status=422, name="x"), agent_names=["x"])
    assert caught.value.code == "HTTP_422"


@pytest.mark.parametrize("body", [{}, {"agents": []}, None, "agents"])
def test_what_is_no_array_ends_the_run(body):
    with pytest.raises(ProtocolViolationError) as caught:
        pages(search(body))
    assert caught.value.code == "SHAPE"


@pytest.mark.parametrize("agent_id", [None, 5, "", "a/b", "..", "a\nb", "x" * 256])
def test_agent_without_a_usable_id_is_rejected_alone(agent_id):
    listed_pages = pages(search([{"agent_id": agent_id}, *agents(ONE)]), described(ONE), end(2))
    assert (listed_ids(listed_pages), rejected(listed_pages)) == ([ONE], [("#1", "BAD_TOOL_ID")])


def test_nothing_but_unusable_agents_is_told_too():
    assert rejected(pages(search([5]), end(1))) == [("#1", "SHAPE")]


def test_id_that_is_no_uuid_is_noted_and_escaped():
    (page,) = pages(search(agents("a b")), described("a%20b"), end(1))
    assert [note.code for note in page.items[0].notes] == ["NOT_A_UUID"]


@pytest.mark.parametrize(
    ("recorded", "code"),
    [
        ({"status": 404}, "NO_DESCRIPTOR"),
        ({"status": 500}, "NO_DESCRIPTOR"),
        ({"text": "<html>"}, "NO_DESCRIPTOR"),
        ({"body": []}, "SHAPE"),
        ({"body": {"metadata": 5}}, "SHAPE"),
        ({"body": {"metadata": {"ref": None}}}, "SHAPE"),
        ({"body": {"metadata": metadata(version=5)}}, "BAD_VERSION"),
        ({"body": {"metadata": metadata(version="x" * 101)}}, "BAD_VERSION"),
        ({"body": {"metadata": metadata(), "specs": {"x": "x" * (1024 * 1024)}}}, "SCHEMA_TOO_BIG"),
    ],
)
def test_bad_descriptor_costs_its_agent_alone(recorded, code):
    bad = Exchange(path=f"/agents/{ONE}/descriptor", **recorded)
    listed_pages = pages(search(agents(ONE, TWO)), bad, described(TWO), end(2))
    assert (listed_ids(listed_pages), rejected(listed_pages)) == ([TWO], [(ONE, code)])


def test_server_that_is_away_ends_the_run():
    away = [Exchange(path=f"/agents/{n}/descriptor", fails="CONNECT") for n in range(5)]
    with pytest.raises(UnavailableError):
        pages(search(agents(*"012345")), *away)


def test_metadata_that_the_descriptor_leaves_out_comes_from_the_search():
    bare = {"specs": descriptor()["specs"]}
    (page,) = pages(search(agents(ONE)), described(ONE, bare), end(1))
    assert ACP().read(page.items[0].document).name == "example.echo"
    alone = Exchange(path=f"/agents/{ONE}", body=agents(ONE)[0])
    fetched = ACP().fetch(ScriptedSession(described(ONE, bare), alone), ONE)
    assert fetched.digest == page.items[0].digest


@pytest.mark.parametrize(
    ("version", "key"),
    [("1.2.3", (1, 2, 3)), ("v1.10.0", (1, 10, 0)), ("2.0.0-rc.1", (2, 0, 0)), ("nightly", ()), ("1.2", ())],
)
def test_three_numbers_order_versions_and_nothing_else_does(version, key):
    item = ACP().fetch(ScriptedSession(described(ONE, descriptor() | {"metadata": metadata(version)})), ONE)
    assert (item.label, item.label_key) == (version, key)


def test_agent_in_another_version_is_not_the_one_asked_for():
    with pytest.raises(ProtocolViolationError) as caught:
        ACP().fetch(ScriptedSession(described(ONE)), ONE, "0.9.0")
    assert caught.value.code == "WRONG_TOOL"


def read_signature(**specs):
    return ACP().read(descriptor(**specs))


def names(parameters):
    return [(parameter.name, parameter.type, parameter.is_whole) for parameter in parameters]


def test_agent_is_one_tool_with_its_input_config_and_output():
    signature_read = read_signature(config={"type": "object", "description": "How."})
    assert signature_read.kind == "agent"
    assert names(signature_read.inputs) == [("about", "string", False), ("config", "json", False)]
    assert (signature_read.inputs[1].required, signature_read.inputs[1].description) == (False, "How.")
    assert names(signature_read.outputs) == [("output", "string", True)]


@pytest.mark.parametrize("schema", [{}, True, {"description": 5}])
def test_config_without_a_description_gets_one(schema):
    assert read_signature(config=schema).inputs[-1].description == "How the agent is to work in this run."


@pytest.mark.parametrize(
    ("names_in_use", "name"),
    [
        (["config"], "agent_config"),
        (["config", "agent_config"], "agent_config_2"),
        (["config", "agent_config", "agent_config_2"], "agent_config_3"),
    ],
)
def test_config_gives_way_to_inputs_of_its_name(names_in_use, name):
    inputs = {"type": "object", "properties": {name: {"type": "string"} for name in names_in_use}}
    assert [parameter.name for parameter in read_signature(input=inputs, config={}).inputs] == [
        *names_in_use,
        name,
    ]


def test_input_that_is_one_value_stands_beside_the_config():
    assert names(read_signature(input={"type": "string"}).inputs) == [("input", "string", True)]
    both = read_signature(input={"type": "string"}, config=True).inputs
    assert names(both) == [("input", "string", False), ("config", "json", False)]


def test_agent_without_schemas_takes_and_gives_nothing():
    signature_read = read_signature(input=None, output=None, config=None)
    assert (signature_read.inputs, signature_read.outputs) == ((), ())


ODD = {"type": "object", "required": ["name"], "properties": None, "name": {"type": "string", "title": None}}


def test_null_properties_make_one_input_and_a_note():
    document = descriptor(input=ODD, output=ODD, config=ODD)
    signature_read = ACP().read(document)
    assert names(signature_read.inputs) == [("input", "json", False), ("config", "json", False)]
    assert names(signature_read.outputs) == [("output", "json", True)]
    assert signature_read.inputs[0].schema == {
        "type": "object",
        "required": ["name"],
        "name": {"type": "string"},
    }
    assert [note.code for note in ACP().notes(document, signature_read)] == ["NO_PROPERTIES"] * 3


def test_nulls_are_absent_except_where_they_are_values():
    about = {"type": ["string", "null"], "default": None, "enum": ["a", None], "title": None}
    (parameter,) = read_signature(input={"type": "object", "properties": {"about": about}}).inputs
    assert parameter.schema == {"type": ["string", "null"], "default": None, "enum": ["a", None]}


@pytest.mark.parametrize(
    ("specs", "code"),
    [({"input": 5}, "BAD_SCHEMA"), ({"output": []}, "BAD_SCHEMA"), ({"config": "x"}, "BAD_SCHEMA")],
)
def test_schema_that_is_none_rejects_the_agent(specs, code):
    with pytest.raises(UnreadableItemError) as caught:
        read_signature(**specs)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "document", [{}, {"metadata": metadata()}, {"metadata": metadata(name=""), "specs": {}}]
)
def test_document_that_is_no_descriptor_is_refused(document):
    with pytest.raises(UnreadableItemError):
        ACP().read(document)


def test_agent_without_a_version_is_noted():
    document = descriptor() | {"metadata": metadata(version=None)}
    assert [note.code for note in ACP().notes(document, ACP().read(document))] == ["NO_VERSION"]


def test_what_the_agent_can_do_is_told_in_words():
    approval = {"interrupt_type": "approval", "resume_payload": {"properties": {"approved": {}, "why": {}}}}
    capabilities = {"threads": True, "callbacks": True, "streaming": {"values": True, "custom": None}}
    signature_read = read_signature(
        capabilities=capabilities, interrupts=[approval, {"interrupt_type": "pause"}]
    )
    assert ACP().facts(signature_read) == [
        ("Threads", "Runs can share a thread"),
        ("Streaming", "values"),
        ("Callbacks", "Used as a hint that a run has ended"),
        ("May ask for", "approval (approved, why)"),
        ("May ask for", "pause"),
    ]


@pytest.mark.parametrize("capabilities", [None, 5, {}, {"streaming": None}])
def test_agent_that_says_nothing_of_itself_can_do_nothing_special(capabilities):
    assert [
        fact_text
        for _, fact_text in ACP().facts(read_signature(capabilities=capabilities, interrupts=capabilities))
    ] == ["None"] * 3


def manifest(scheme, form="plain"):
    option = {"type": "remote_service", "protocol": {"type": "ACP", "authentication": scheme}}
    deployment = {"deployment_options": [{"type": "docker"}, option]}
    if form == "plain":
        return {"metadata": {"ref": {"name": "example.echo"}}, "deployment": deployment}
    name = f"{form}/runtime/manifest"
    return {"name": "example.echo", "extensions": [{"name": name, "data": {"deployment": deployment}}]}


ADDRESS = "https://files.example/manifest.json"


def noted(body, **recorded):
    (page,) = pages(Exchange(path=ADDRESS, body=body, **recorded), search([]), manifest_url=ADDRESS)
    return [(note.code, note.message) for note in page.notes]


@pytest.mark.parametrize("form", ["plain", "oasf.agntcy.org/feature", "schema.oasf.agntcy.org/features"])
def test_manifest_in_each_of_its_forms_says_which_credential_is_wanted(form):
    ((code, message),) = noted(manifest({"type": "apiKey", "in": "header", "name": "x-api-key"}, form))
    assert code == "CREDENTIAL_WANTED"
    assert message == "The manifest states that calls need an API key in the header “x-api-key”."


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ({"type": "apiKey", "in": "query", "name": "k"}, "an API key in the query parameter “k”."),
        ({"type": "http", "scheme": "Bearer"}, "a bearer token."),
        ({"type": "http", "scheme": "basic"}, "a user name and a password."),
        ({"type": "http", "scheme": "hoba"}, "HTTP authentication of the kind “hoba”."),
        ({"type": "oauth2"}, "an access token from an OAuth server."),
        ({"type": "mutualTLS"}, "a credential of the kind “mutualTLS”."),
        ({}, "no credential."),
        (None, "no credential."),
    ],
)
def test_credential_is_said_in_plain_words(scheme, words):
    assert noted(manifest(scheme))[0][1].endswith(f"need {words}")


@pytest.mark.parametrize("recorded", [{"status": 404}, {"text": "{"}, {"body": []}])
def test_manifest_that_cannot_be_read_costs_a_note_alone(recorded):
    assert [code for code, _ in noted(**{"body": None} | recorded)] == ["MANIFEST_FAILED"]


@pytest.mark.parametrize("body", [{}, {"deployment": 5, "extensions": [5]}, {"extensions": {}}])
def test_manifest_without_a_deployment_says_nothing(body):
    assert noted(body) == []


def test_manifest_names_the_agent_where_nobody_else_does():
    listed_pages = pages(
        *(Exchange(path=ADDRESS, body=manifest({})), search(WANTED, status=422)),
        *(search(agents(ONE), name="example.echo"), described(ONE), end(1, name="example.echo")),
        manifest_url=ADDRESS,
    )
    assert listed_ids(listed_pages) == [ONE]


anything = schemas.schemas | schemas.objects() | st.none() | st.just(ODD)
documents = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "ref": st.fixed_dictionaries(
                    {"name": st.just("a.b")},
                    optional={"version": st.sampled_from(["1.0.0", "", None]), "url": schemas.values},
                )
            },
            optional={"description": schemas.texts | st.none(), "more": schemas.values},
        ),
        "specs": st.fixed_dictionaries(
            {},
            optional={
                "input": anything,
                "output": anything,
                "config": anything,
                "capabilities": schemas.values,
                "interrupts": schemas.values,
            },
        ),
    },
    optional={"extra": schemas.values},
)


@given(documents)
def test_descriptor_is_written_as_it_came(document):
    label = document["metadata"]["ref"].get("version") or ""
    try:
        signature_read = signature.from_json(signature.to_json(ACP().read(document)))
    except UnreadableItemError:
        return
    assert losses(document, ACP().write(signature_read, ONE, label)) == []
