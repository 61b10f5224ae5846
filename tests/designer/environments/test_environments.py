"""Environments of an agent on their page, in the form of a key and where a tool is tried."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.models import Call
from designer.agents import agent_keys
from designer.environments import environments, mocks
from designer.environments.resolution import Facts, resolve_facts
from designer.models import Binding, Environment
from designer.pins import pins
from execution.activities import interfaces
from execution.activities import operations as activities
from people.models import ApiKey, AuditEntry, Role
from tests.factories import make_parameter, make_signature, make_tool, make_user
from tests.serving.test_calls import desk, owner, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
PAGE = "/agents/desk/environments/"
# Of what fits it, none is made up.
UNMADE = {"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z]).{6}$"}


@pytest.fixture
def mock(owner, desk):
    return activities.create(
        actor=owner, name="Fair always", kind="mock", config={}, interface=desk[1].version
    )


def add(client, *names, **more):
    for name in names:
        assert client.post(PAGE, {"do": "add", "name": name, **more}).status_code == 302


def test_a_designer_chooses_what_runs_in_each_environment(client, owner, desk, mock):
    _, pin = desk
    client.force_login(owner)
    assert "No environment yet" in client.get(PAGE).content.decode()
    add(client, "prototype", "test")
    add(client, "production", is_default="on")
    page = client.get(PAGE).content.decode()
    assert page.count(pin.version.digest) == 1
    assert page.count("Default (vendor)") == 3
    assert f'<option value="{mock.pk}">' in page

    prototype, test, production = Environment.objects.order_by("pk")
    assert production.is_default
    cells = {f"{pin.pk}-{place.pk}": "" for place in (prototype, test, production)}
    were = {f"was-{name}": "" for name in cells}
    choices = {f"{pin.pk}-{prototype.pk}": "latent", f"{pin.pk}-{test.pk}": str(mock.pk)}
    page_html = client.post(PAGE, cells | were | choices, follow=True).content.decode()
    assert "2 changes were saved" in page_html
    bound = {row.environment_id: row.activity_id for row in Binding.objects.all()}
    assert bound == {prototype.pk: None, test.pk: mock.pk}
    assert f'<a href="/activities/{mock.pk}/">Implementation details' in page_html
    assert AuditEntry.objects.filter(action="bind", agent=desk[0].pk).count() == 2

    # Another designer has the page of before still open.
    late = client.post(PAGE, cells | were | {f"{pin.pk}-{test.pk}": "latent"})
    assert late.status_code == 409
    assert "has changed since you opened this" in late.content.decode()
    assert Binding.objects.get(environment=test).activity_id == mock.pk
    untouched = client.post(PAGE, cells | were | {f"was-{pin.pk}-{test.pk}": str(mock.pk)}, follow=True)
    assert "1 change was saved" in untouched.content.decode()
    assert not Binding.objects.filter(environment=test).exists()

    wrong = client.post(PAGE, {"do": "add", "name": "Test 2"})
    assert (wrong.status_code, "starts with a letter" in wrong.content.decode()) == (400, True)
    assert client.post(f"{PAGE}production/default/", {"is_default": "0"}).status_code == 302
    assert client.post(f"{PAGE}prototype/remove/").status_code == 302
    assert [*Environment.objects.values_list("name", "is_default").order_by("pk")] == [
        ("test", False),
        ("production", False),
    ]
    client.force_login(make_user(Role.VIEWER))
    overview = client.get(PAGE).content.decode()
    assert ">vendor<" in overview
    assert "<select" not in overview


def test_the_matrix_costs_the_same_however_many_environments_there_are(client, owner, desk, mock):
    client.force_login(owner)
    add(client, "one")
    client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    add(client, *(f"place-{number}" for number in range(9)))
    for place in Environment.objects.all():
        environments.bind(place, desk[1].tool, actor=owner, activity=mock)
    with CaptureQueriesContext(connection) as many:
        client.get(PAGE)
    assert len(many) <= len(few) + 2
    too_many = client.post(PAGE, {"do": "add", "name": "eleventh"})
    assert "at most 10 environments" in too_many.content.decode()


def test_a_key_is_made_for_an_environment_of_its_agents(client, owner, desk):
    client.force_login(owner)
    assert "Environment" not in client.get("/keys/new/").content.decode()
    add(client, "test")
    assert "Environment" in client.get("/keys/new/").content.decode()
    form = {"name": "In tests", "scope": "invoke", "days": "90", "environment": "test"}
    refused = client.post("/keys/new/", form)
    assert "Choose the agents that have this environment." in refused.content.decode()
    created = client.post("/keys/new/", form | {"agents": ["desk"]})
    assert created.status_code == 200
    assert ApiKey.objects.get().environment == "test"
    assert "in test" in client.get("/keys/").content.decode()
    api = client.post(
        "/api/v1/keys/",
        {"name": "k", "scopes": ["invoke"], "agents": ["desk"], "environment": "moon"},
        content_type="application/json",
    )
    assert api.json()["fields"]["environment"] == "“desk” has no environment “moon”."


def test_a_tool_is_tried_in_an_environment(client, owner, vendor, desk, mock):
    _, pin = desk
    client.force_login(owner)
    add(client, "prototype", "test")
    prototype, test = Environment.objects.order_by("pk")
    environments.bind(prototype, pin.tool, actor=owner, activity=None)
    environments.bind(test, pin.tool, actor=owner, activity=mock)
    url = f"/tools/{pin.tool_id}/try/"
    assert "desk: prototype" in client.get(url).content.decode()
    form = {"ordinal": "1", "json": '{"Zip code": "0150"}', "deadline": "30"}
    page = client.post(url, form | {"environment": str(prototype.pk)}, follow=True).content.decode()
    latent = Call.objects.latest("pk")
    assert (latent.outcome, latent.environment) == ("latent", "prototype")
    assert "Waits for output" in page
    assert "in prototype" in page
    client.post(url, form | {"environment": str(test.pk)})
    assert Call.objects.latest("pk").activity == mock.current
    assert client.post(url, form | {"environment": "999999"}).status_code == 404
    assert vendor.requests == []


def test_a_person_answers_a_latent_call_on_its_page(client, owner, vendor, desk):
    _, pin = desk
    client.force_login(owner)
    add(client, "prototype")
    place = Environment.objects.get()
    environments.bind(place, pin.tool, actor=owner, activity=None)
    url = f"/tools/{pin.tool_id}/try/"
    form = {"ordinal": "1", "json": '{"Zip code": "0150"}', "environment": str(place.pk)}
    page = client.post(url, form, follow=True).content.decode()
    call = Call.objects.latest("pk")
    path = f"/tools/{pin.tool_id}/calls/{call.pk}/output/"
    assert "Enter the output" in page
    assert f'value="{place.pk}" selected' in page
    for unfit in ({}, {"output-json": "[1]"}, {"output-json": '{"Sky now": 7}'}, {"output-json": '{"Sky'}):
        refused = client.post(path, unfit)
        assert "field-error" in refused.content.decode()
        assert "Enter the output" in refused.content.decode()
    saved = client.post(path, {"output-input-0": "clear", "environment": str(place.pk)}, follow=True)
    assert "Enter the output" not in saved.content.decode()
    call.refresh_from_db()
    assert (call.outcome, call.decoded().outputs) == ("ok", {"Sky now": "clear"})
    assert [note["code"] for note in call.decoded().notes] == ["PERSON_OUTPUT"]
    # The same once more is no fault, and another one changes nothing.
    assert "other output" not in client.post(path, {"output-input-0": "clear"}, follow=True).content.decode()
    other = client.post(path, {"output-input-0": "grey"}, follow=True).content.decode()
    assert "another output already" in other
    assert AuditEntry.objects.filter(action="give output", actor=owner).count() == 1
    client.post(url, {"ordinal": "1", "json": '{"Zip code": "0150"}'})
    ran = Call.objects.latest("pk")
    assert (
        client.post(f"/tools/{pin.tool_id}/calls/{ran.pk}/output/", {"output-input-0": "x"}).status_code
        == 302
    )
    ran.refresh_from_db()
    assert ran.outcome != "ok"
    client.force_login(make_user(Role.VIEWER))
    assert client.post(path, {"output-input-0": "clear"}).status_code == 403


def test_all_tools_are_bound_to_mocks_at_once_or_none(client, owner, desk, mock):
    agent, pin = desk
    client.force_login(owner)
    add(client, "test")
    place = Environment.objects.get()
    environments.bind(place, pin.tool, actor=owner, activity=mock)
    odd = make_signature(name="Odd", outputs=(make_parameter("never", type="json", schema=UNMADE),))
    other = pins.pin_tool(agent, actor=owner, tool=make_tool(odd), alias="odd")
    path = "/api/v1/agents/desk/environments/test/mocks/"
    refused = client.post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "mocks_unmet")
    assert refused.json()["fields"].keys() == {"odd"}
    assert Binding.objects.count() == 1
    assert "odd cannot use a mock yet" in client.post(f"{PAGE}test/mocks/", follow=True).content.decode()
    mocks.save(other, actor=owner, config={"examples": [{"outputs": {"never": "abc123"}}]})
    assert "Use mocks for all tools" in client.get(PAGE).content.decode()
    client.post(f"{PAGE}test/mocks/")
    results = client.post(path).json()["results"]
    assert [(result["tool"], result["kind"]) for result in results] == [("odd", "mock"), ("sky", "mock")]
    # A tool that had a mock keeps it, and no other entry is audited.
    assert Binding.objects.get(tool=pin.tool).activity == mock
    assert AuditEntry.objects.filter(action="bind").count() == 2


def test_the_environment_of_a_key_is_changed_and_seen_before(client, owner, desk):
    client.force_login(owner)
    add(client, "test", "production")
    key, _ = agent_keys.issue(owner, actor=owner, name="k", scopes=["invoke"], agents=[desk[0]])
    assert "Change the environment" in client.get("/keys/").content.decode()
    client.post(f"/keys/{key.pk}/environment/", {"environment": "test", "was": ""})
    key.refresh_from_db()
    assert key.environment == "test"
    late = client.post(f"/keys/{key.pk}/environment/", {"environment": "production", "was": ""}, follow=True)
    assert "runs tools in “test” now" in late.content.decode()

    def patch(**body):
        return client.patch(f"/api/v1/keys/{key.pk}/", body, content_type="application/json")

    assert patch(environment="moon").json()["fields"].keys() == {"environment"}
    assert patch(environment="production", expected_environment="").json()["code"] == "changed_meanwhile"
    assert patch().status_code == 400
    moved = patch(environment="production", expected_environment="test", calls_at_once=3).json()
    assert (moved["environment"], moved["calls_at_once"]) == ("production", 3)
    assert patch(environment="").json()["environment"] == ""
    noted = AuditEntry.objects.filter(action="change key", after__has_key="environment").order_by("pk")
    assert [row.after["environment"] for row in noted] == ["test", "production", ""]


FACTS = st.builds(
    Facts,
    is_own=st.booleans(),
    is_bound=st.booleans(),
    activity=st.none() | st.just(7),
    is_removed=st.just(False),
    explicit=st.sampled_from([None, "", "smtp"]),
    named=st.none() | st.just(9),
    unfit=st.sampled_from(["", "It needs the input “city”, which the tool does not have."]),
)


@given(facts=FACTS)
@settings(max_examples=200)
def test_what_is_decided_goes_before_what_is_said_and_that_before_a_name(facts):
    decision = resolve_facts(facts)
    assert (decision.runs == "activity") == (decision.activity is not None)
    assert (decision.runs == "nothing") == (decision.fault is not None)
    assert (decision.activity_shown_to_model("tool") == "") == (decision.runs == "latent")
    # An activity that does not fit is not run, and nothing else runs instead of the vendor.
    fits = None if facts.unfit else 1
    if facts.is_bound:
        assert (decision.why, decision.activity) == ("bound", fits and facts.activity)
    elif not facts.is_own:
        assert decision.runs == "vendor"
    elif facts.explicit is not None:
        assert decision.why == "explicit"
        assert decision.activity == (fits and facts.named if facts.explicit else None)
    else:
        assert decision.activity == (fits and facts.named)
    if decision.fault and decision.fault.code == "activity_unfit":
        assert facts.unfit in decision.fault.message


@pytest.mark.parametrize(
    ("needs", "gives", "expected_reason"),
    [
        ({"place": "string"}, {"sky": "string"}, ""),
        ({"place": "enum"}, {"sky": "string", "wind": "int"}, ""),
        ({"city": "string"}, {"sky": "string"}, "It needs the input “city”, which the tool does not have."),
        (
            {"place": "int"},
            {"sky": "string"},
            "It has another type for the input “place” than the tool.",
        ),
        ({}, {}, "It does not return the output “sky”, which the tool declares."),
        ({}, {"sky": "boolean"}, "It returns the output “sky” with another type than the tool."),
    ],
)
def test_what_was_made_for_one_interface_fits_another(needs, gives, expected_reason):
    tool = make_signature(inputs=(make_parameter("place"),), outputs=(make_parameter("sky"),))
    made_for = make_signature(
        inputs=tuple(make_parameter(name, type=kind) for name, kind in needs.items()),
        outputs=tuple(make_parameter(name, type=kind) for name, kind in gives.items()),
    )
    assert interfaces.why_unfit(made_for, tool) == expected_reason
