"""The environment of a call decides what runs for a tool: an activity, its vendor, or the model itself."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Call, Tool
from catalog.tools import definitions
from core.errors import DomainError
from designer.agents import agents
from designer.environments import environments
from designer.models import Binding, Environment
from designer.pins import pins
from designer.releases import publishing, release_access
from execution.activities import operations as activities
from people import teams
from people.models import ApiKey, AuditEntry, Role
from protocols.definition import Parts
from protocols.signature import Annotations
from serving import calls
from serving.calls import CallRequest
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, json_reply
from tests.serving.test_calls import GIVEN, desk, owner, runtime, url, vendor

__all__ = ["desk", "owner", "vendor"]
pytestmark = pytest.mark.django_db
PLACES = "/api/v1/agents/desk/environments/"
CALLS = "/api/v1/agents/desk/releases/live/calls/"
OTHER = json_reply({"output_parameters": [{"name": "weather", "value": "rain"}]})


@pytest.fixture
def designer(client, owner):
    client.force_login(owner)

    def ask(method, path, body=None):
        options = {} if body is None else {"data": body, "content_type": "application/json"}
        return getattr(client, method)(path, **options)

    return ask


@pytest.fixture
def elsewhere(desk):
    """An activity that has another vendor answer for `sky`."""
    _, pin = desk
    with HostileVendor(OTHER) as other:
        signature = make_signature(
            name="Weather", inputs=(make_parameter("place"),), outputs=(make_parameter("weather"),)
        )
        tool = make_tool(signature, endpoint=make_endpoint(url=other.url))
        step = {"tool": tool.pk, "ordinal": 1, "inputs": {"place": {"input": "Zip code"}}}
        config = {"steps": [step], "outputs": {"Sky now": {"step": 1, "output": "weather"}}}
        other.activity = activities.create(
            actor=pin.created_by,
            name="Weather elsewhere",
            kind="vendor",
            config=config,
            interface=pin.version,
        )
        yield other


def place(owner, desk, name="test", *, is_default=False, **bound):
    environment = environments.create(desk[0], actor=owner, name=name, is_default=is_default)
    if bound:
        environments.bind(environment, desk[1].tool, actor=owner, **bound)
    return environment


def test_a_tool_runs_as_its_environment_has_it(owner, vendor, desk, elsewhere, designer):
    agent, pin = desk
    before = designer("get", "/api/v1/agents/desk/releases/live/tools/?format=mcp").content
    for name in ("prototype", "test", "production"):
        assert designer("post", PLACES, {"name": name}).status_code == 201
    path = f"{PLACES}{{}}/bindings/sky/"
    latent = designer("put", path.format("prototype"), {"activity": None}).json()
    bound = designer("put", path.format("test"), {"activity": elsewhere.activity.pk}).json()
    usual = designer("get", path.format("production")).json()
    assert [binding["runs"] for binding in (latent, bound, usual)] == ["latent", "activity", "vendor"]
    assert [binding["why"] for binding in (latent, bound, usual)] == ["bound", "bound", "vendor"]
    assert (bound["activity_name"], bound["kind"]) == ("Weather elsewhere", "vendor")
    assert {binding["digest"] for binding in (latent, bound, usual)} == {pin.version.digest}

    client = runtime(owner, agent)
    results = {
        name: client.post(url(), GIVEN | {"environment": name}).json() for name in ("test", "production")
    }
    assert results["test"]["outputs"] == {"Sky_now": "rain"}
    assert (results["test"]["environment"], results["test"]["activity"]) == ("test", "Weather elsewhere")
    assert results["production"]["outputs"] == {"Sky_now": "fair"}
    assert (len(vendor.requests), len(elsewhere.requests)) == (1, 1)

    latent_call = client.post(url(), GIVEN | {"environment": "prototype", "reasoning": "To know."}).json()
    assert (latent_call["outcome"], latent_call["error"]["code"], latent_call["reasoning"]) == (
        "latent",
        "LATENT",
        "To know.",
    )
    assert latent_call["output_schema"]["properties"].keys() == {"Sky_now"}
    assert len(vendor.requests) == 1
    # The agent's export does not change.
    assert designer("get", "/api/v1/agents/desk/releases/live/tools/?format=mcp").content == before
    noted = AuditEntry.objects.filter(action="bind").order_by("id")
    assert [row.after["runs"] for row in noted] == ["latent", "implementation “Weather elsewhere”"]


def test_the_output_of_a_latent_call_is_judged_and_kept_once(owner, vendor, desk):
    agent, _ = desk
    place(owner, desk, is_default=True, activity=None)
    client = runtime(owner, agent)
    call = client.post(url(), GIVEN | {"id": "6f1ce0a8-18a0-4c1c-8d2b-2ef6a4e37c5b"}).json()["call"]
    path = f"/api/v1/calls/{call}/output/"
    for unfit, field in (
        ({"Sky_now": 7}, "output.Sky_now"),
        ({}, "output.Sky_now"),
        ({"output": []}, "output"),
    ):
        answer = client.post(path, unfit if "output" in unfit else {"output": unfit})
        assert (answer.status_code, [*answer.json()["fields"]]) == (400, [field])
    first, again, other = (
        client.post(path, {"output": {"Sky_now": sky}}) for sky in ("clear", "clear", "grey")
    )
    assert (first.json()["outcome"], first.json()["outputs"]) == ("ok", {"Sky_now": "clear"})
    assert again.json()["outputs"] == {"Sky_now": "clear"}
    assert (other.status_code, other.json()["code"]) == (409, "output_given")
    stored_call = client.get(f"/api/v1/calls/{call}/").json()
    assert (stored_call["outcome"], stored_call["outputs"], stored_call["output_schema"]) == (
        "ok",
        {"Sky_now": "clear"},
        None,
    )
    assert AuditEntry.objects.filter(action="give output").count() == 1
    # The same call again is that one, and another call brings its output along.
    repeated = GIVEN | {"id": "6f1ce0a8-18a0-4c1c-8d2b-2ef6a4e37c5b", "output": {"Sky_now": "clear"}}
    assert client.post(url(), repeated).json()["call"] == call
    at_once = client.post(url(), GIVEN | {"output": {"Sky_now": "blue"}}).json()
    assert (at_once["outcome"], at_once["outputs"]) == ("ok", {"Sky_now": "blue"})
    assert vendor.requests == []
    wrong = client.post(url(), {"arguments": {"Zip_code": "much too long"}, "output": {"Sky_now": "x"}})
    assert wrong.json()["outcome"] == "invalid_arguments"


def test_an_output_goes_to_nothing_that_runs(owner, vendor, desk):
    client = runtime(owner, desk[0])
    refused = client.post(url(), GIVEN | {"output": {"Sky_now": "x"}})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_latent")
    assert vendor.requests == []
    call = client.post(url(), GIVEN).json()["call"]
    late = client.post(f"/api/v1/calls/{call}/output/", {"output": {"Sky_now": "fair"}})
    assert (late.status_code, late.json()["code"]) == (409, "not_latent")


@pytest.mark.django_db(transaction=True)
def test_what_a_model_wrote_goes_where_it_was_shown_to_go(owner, vendor, desk):
    environment = place(owner, desk, is_default=True, activity=None)
    call = {"_tool": "sky", "Zip_code": "0150", "_reasoningForCall": "To know."}
    written_calls = [
        call | {"_activity": "", "_output": {"Sky_now": "clear"}},
        call | {"_output": {"Sky_now": 7}},
        call | {"_activity": "sky"},
        call | {"_output": None},
    ]
    client = runtime(owner, desk[0])
    results = client.post(CALLS, written_calls).json()["results"]
    codes = [(r["answer"] or r["error"]).get("outcome") or r["error"]["code"] for r in results]
    assert codes == ["ok", "invalid_output", "activity_mismatch", "latent"]
    assert results[0]["answer"]["reasoning"] == "To know."
    assert [*results[1]["error"]["fields"]] == ["_output.Sky_now"]
    ApiKey.objects.update(environment="test")
    environments.make_default(environment, actor=owner, is_default=False)
    environments.remove(environment, actor=owner)
    (result,) = client.post(CALLS, written_calls[:1]).json()["results"]
    assert result["error"]["code"] == "unknown_environment"
    assert vendor.requests == []


def test_an_environment_that_is_removed_while_a_call_begins_runs_nothing(owner, vendor, desk, designer):
    environment = place(owner, desk, is_default=True, activity=None)
    release = release_access.find_release("desk", "live", owner)
    refused = designer("delete", f"{PLACES}test/")
    assert (refused.status_code, refused.json()["code"]) == (409, "environment_is_default")
    environments.make_default(environment, actor=owner, is_default=False)
    assert designer("delete", f"{PLACES}test/").status_code == 204
    call_request = CallRequest(tool="sky", arguments=GIVEN["arguments"], environment="test")
    with pytest.raises(DomainError, match="removed meanwhile") as fault:
        calls.run(release, call_request, actor=owner, key=None)
    assert fault.value.code == "unknown_environment"
    assert vendor.requests == []


def test_an_environment_that_there_is_not_runs_nothing(owner, vendor, desk):
    agent, _ = desk
    environment = place(owner, desk)
    client = runtime(owner, agent)
    refused = client.post(url(), GIVEN | {"environment": "prod"})
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_environment")
    assert "It has: test." in refused.json()["message"]

    ApiKey.objects.update(environment="test")
    assert client.post(url(), GIVEN).json()["environment"] == "test"
    refused = client.post(url(), GIVEN | {"environment": "production"})
    assert (refused.status_code, refused.json()["code"]) == (403, "environment_of_key")
    environments.remove(environment, actor=owner)
    for body in (GIVEN, GIVEN | {"environment": "test"}):
        refused = client.post(url(), body)
        assert (refused.status_code, refused.json()["code"]) == (409, "unknown_environment")
    assert len(vendor.requests) == 1


def test_an_activity_that_was_removed_or_does_not_fit_runs_nothing(owner, vendor, desk, elsewhere, designer):
    agent, _ = desk
    environment = place(owner, desk, is_default=True, activity=elsewhere.activity)
    other = make_tool(
        make_signature(name="Tide", inputs=(), outputs=(make_parameter("height", required=True),))
    )
    unfit = activities.create(actor=owner, name="Tides", kind="mock", config={}, interface=other.current)
    refused = designer("put", f"{PLACES}test/bindings/sky/", {"activity": unfit.pk})
    assert (refused.status_code, refused.json()["code"]) == (409, "activity_unfit")
    assert refused.json()["fields"]["activity"] == (
        "It does not return the output “Sky now”, which the tool declares."
    )
    assert designer("put", f"{PLACES}test/bindings/sky/", {"activity": 10**6}).status_code == 400
    assert designer("put", f"{PLACES}test/bindings/sea/", {"activity": None}).status_code == 404

    client = runtime(owner, agent)
    ran = Call.objects.get(pk=client.post(url(), GIVEN).json()["call"])
    activities.remove(elsewhere.activity, actor=owner)
    refused = client.post(url(), GIVEN)
    assert (refused.status_code, refused.json()["code"]) == (409, "activity_removed")
    (row,) = designer("get", f"{PLACES}test/bindings/").json()["results"]
    assert (row["runs"], row["code"], row["activity"]) == (
        "nothing",
        "activity_removed",
        elsewhere.activity.pk,
    )
    (tool,) = client.get("/api/v1/agents/desk/releases/live/preflight/").json()["tools"]
    assert (tool["can_run"], tool["obstacles"][0]["code"]) == (False, "activity_removed")
    # A call keeps the name of the activity that ran.
    assert client.get(f"/api/v1/calls/{ran.pk}/").json()["activity"] == "Weather elsewhere"
    assert designer("delete", f"{PLACES}test/bindings/sky/").status_code == 204
    assert client.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "fair"}
    assert not Binding.objects.exists()
    assert Environment.objects.get() == environment


def test_who_has_no_environment_asks_nothing_more_of_the_database(owner, vendor, desk):
    client = runtime(owner, desk[0])
    client.post(url(), GIVEN)
    # How many others there are differs from call to call: a key's last use is written now and then.
    for expected in (0, 1):
        with CaptureQueriesContext(connection) as queries:
            client.post(url(), GIVEN)
        assert sum("designer_binding" in query["sql"] for query in queries) == expected
        if not expected:
            place(owner, desk, is_default=True)


def test_what_an_activity_may_destroy_is_confirmed_wherever_it_runs(owner, vendor, desk, designer, client):
    agent, pin = desk
    destroys = make_signature(
        name="Wipe", inputs=(make_parameter("place"),), annotations=Annotations(destructive=True)
    )
    tool = make_tool(destroys, endpoint=make_endpoint(url=vendor.url))
    step = {"tool": tool.pk, "ordinal": 1, "inputs": {"place": {"input": "Zip code"}}}
    wipe = activities.create(
        actor=owner,
        name="Wipe",
        kind="composite",
        config={"steps": [step], "outputs": {"Sky now": {"value": "gone"}}},
        interface=pin.version,
    )
    environment = place(owner, desk, is_default=True, activity=wipe)
    runs = runtime(owner, agent)
    (readiness,) = runs.get("/api/v1/agents/desk/releases/live/preflight/").json()["tools"]
    assert [obstacle["code"] for obstacle in readiness["obstacles"]] == ["confirm_needed"]
    refused = runs.post(url(), GIVEN)
    assert (refused.status_code, refused.json()["code"]) == (409, "confirm_needed")
    assert "“Wipe” may destroy something" in refused.json()["message"]

    # A user who tries it has the same question, and can answer it.
    tried = {
        "ordinal": "1",
        "json": '{"Zip code": "0150"}',
        "deadline": "30",
        "environment": str(environment.pk),
    }
    page = client.post(f"/tools/{pin.tool_id}/try/", tried).content.decode()
    assert "“Wipe” may destroy something" in page
    assert 'name="confirm"' in page
    assert vendor.requests == []
    assert not Call.objects.exists()
    client.post(f"/tools/{pin.tool_id}/try/", tried | {"confirm": "on"})
    assert Call.objects.get().activity == wipe.current
    assert runs.post(url(), GIVEN | {"confirm": True}).json()["outcome"] == "ok"
    assert len(vendor.requests) == 1


def limit(agent, *tools, owner):
    agents.update_agent(agent, actor=owner, vendors=[tool.endpoint.vendor for tool in tools])


def test_an_agent_limited_to_vendors_runs_no_activity_that_calls_others(
    owner, vendor, desk, elsewhere, designer, client
):
    agent, pin = desk
    step = {"activity": elsewhere.activity.pk, "inputs": {"Zip code": {"input": "Zip code"}}}
    deep = activities.create(
        actor=owner,
        name="Deep",
        kind="composite",
        config={"steps": [step], "outputs": {"Sky now": {"step": 1, "output": "Sky now"}}},
        interface=pin.version,
    )
    sends = activities.create(
        actor=make_user(Role.ADMIN),
        name="Sends",
        kind="http",
        config={"address": f"{elsewhere.url}/sky", "outputs": {"Sky now": {"at": ""}}},
        interface=pin.version,
    )
    environment = place(owner, desk, is_default=True, activity=deep)
    runs = runtime(owner, agent)
    assert runs.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    assert {elsewhere.activity, deep, sends} == {*environments.fitting_activities([pin])[pin]}

    # It was bound before the vendors were named.
    limit(agent, pin.tool, owner=owner)
    result = runs.post(url(), GIVEN).json()
    assert (result["outcome"], result["error"]["code"]) == ("refused", "vendor_not_allowed")
    assert "a vendor that “desk” may not use" in result["error"]["message"]
    (tool,) = runs.get("/api/v1/agents/desk/releases/live/preflight/").json()["tools"]
    assert (tool["can_run"], tool["obstacles"][0]["code"]) == (False, "vendor_not_allowed")
    checks = client.get("/api/v1/agents/desk/draft/").json()["checks"]
    assert [check["code"] for check in checks if check["severity"] == "error"] == ["vendor_not_allowed"]
    tried = {
        "ordinal": "1",
        "json": '{"Zip code": "0150"}',
        "deadline": "30",
        "environment": str(environment.pk),
    }
    assert "may not use" in client.post(f"/tools/{pin.tool_id}/try/", tried).content.decode()
    assert environments.fitting_activities([pin])[pin] == []
    for other in (elsewhere.activity, deep, sends):
        environments.unbind(environment, pin.tool, actor=owner)
        refused = designer("put", f"{PLACES}test/bindings/sky/", {"activity": other.pk})
        assert (refused.status_code, refused.json()["code"]) == (409, "vendor_not_allowed")
        assert refused.json()["fields"].keys() == {"activity"}
    assert "sends requests to http://127.0.0.1" in refused.json()["message"]
    assert len(elsewhere.requests) == 1

    limit(
        agent,
        pin.tool,
        Tool.objects.get(pk=elsewhere.activity.current.config["steps"][0]["tool"]),
        owner=owner,
    )
    assert designer("put", f"{PLACES}test/bindings/sky/", {"activity": deep.pk}).status_code == 200
    assert runs.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    # A mock calls nothing.
    mock = activities.create(actor=owner, name="Fair", kind="mock", config={}, interface=pin.version)
    limit(agent, pin.tool, owner=owner)
    assert designer("put", f"{PLACES}test/bindings/sky/", {"activity": mock.pk}).status_code == 200
    assert runs.post(url(), GIVEN).json()["outcome"] == "ok"


def test_what_an_activity_calls_after_it_was_bound_is_asked_of_the_agent_of_its_tool(
    owner, vendor, desk, elsewhere
):
    """The sub-agent is limited where the agent above is not."""
    agent, pin = desk
    below = agents.create_agent(actor=owner, name="below", slug="below", parent=agent)
    sub_pin = pins.pin_tool(below, actor=owner, tool=pin.tool, alias="sky")
    publishing.publish(agent, actor=owner, channel="live")
    step = {"tool": pin.tool_id, "ordinal": 1, "inputs": {"Zip code": {"input": "Zip code"}}}
    outputs = {"Sky now": {"step": 1, "output": "Sky now"}}
    same = activities.create(
        actor=owner,
        name="Same",
        kind="vendor",
        config={"steps": [step], "outputs": outputs},
        interface=pin.version,
    )
    limit(below, pin.tool, owner=owner)
    place(owner, (agent, sub_pin), is_default=True, activity=same)
    runs = runtime(owner, agent)
    path = "/api/v1/agents/desk/releases/live/agents/below/tools/sky/invoke/"
    assert runs.post(path, GIVEN).json()["outputs"] == {"Sky_now": "fair"}
    activities.change(same, actor=owner, config=elsewhere.activity.current.config)
    # As a process of an older release has bound it: the newest version runs.
    Binding.objects.update(activity_version=None)
    assert runs.post(path, GIVEN).json()["error"]["code"] == "vendor_not_allowed"
    assert elsewhere.requests == []
    assert runs.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}


def definition(owner, name="forecast", activity=None):
    parts = Parts(
        name=name,
        title="",
        description="Tells the weather of a place.",
        inputs={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        output={"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]},
        activity=activity,
    )
    return definitions.define(actor=owner, parts=parts)


def agent_with(owner, tool, slug="desk", team=None):
    agent = agents.create_agent(actor=owner, name=slug, slug=slug, team=team)
    pin = pins.pin_tool(agent, actor=owner, tool=tool, alias="forecast")
    codes = ["not_connected", "unknown_activity"]
    publishing.publish(agent, actor=owner, channel="live", accept=codes, reason="It is connected later.")
    return agent, pin


@pytest.mark.parametrize("explicit", [None, "Weather"])
def test_an_activity_that_has_the_name_and_does_not_fit_runs_nothing(owner, explicit):
    tool = definition(owner, activity=explicit)
    agent, pin = agent_with(owner, tool)
    other = make_tool(make_signature(inputs=(make_parameter("city"),), outputs=(make_parameter("sky"),)))
    takes = {"actor": owner, "name": explicit or "forecast", "kind": "mock", "config": {}}
    activity = activities.create(**takes, interface=other.current)
    runs = runtime(owner, agent)
    path = url(name="forecast")
    refused = runs.post(path, {"arguments": {"place": "Oslo"}})
    assert (refused.status_code, refused.json()["code"]) == (409, "activity_unfit")
    assert "It needs the input “city”, which the tool does not have." in refused.json()["message"]
    assert not Call.objects.exists()
    composed = runs.get("/api/v1/agents/desk/releases/live/tools/?format=tool-system")
    assert (composed.status_code, composed.json()["code"]) == (409, "activity_unfit")
    (readiness,) = runs.get("/api/v1/agents/desk/releases/live/preflight/").json()["tools"]
    assert (readiness["can_run"], readiness["obstacles"][0]["code"]) == (False, "activity_unfit")

    activities.change(activity, actor=owner, interface=pin.version)
    assert runs.post(path, {"arguments": {"place": "Oslo"}}).json()["outcome"] == "ok"
    # An activity without declared inputs is checked by its config.
    steps = [{"tool": other.pk, "ordinal": 1, "inputs": {"city": {"input": "town"}}}]
    activities.remove(activity, actor=owner)
    activities.create(**takes | {"kind": "vendor", "config": {"steps": steps, "outputs": {}}})
    assert runs.post(path, {"arguments": {"place": "Oslo"}}).json()["code"] == "activity_unfit"


def test_what_was_bound_and_fits_no_more_runs_nothing(owner, vendor, desk, elsewhere, designer):
    environment = place(owner, desk, is_default=True, activity=elsewhere.activity)
    runs = runtime(owner, desk[0])
    assert runs.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    other = make_signature(inputs=(make_parameter("city"),), outputs=(make_parameter("Sky now"),))
    step = elsewhere.activity.current.config["steps"][0] | {"inputs": {"place": {"input": "city"}}}
    activities.change(
        elsewhere.activity,
        actor=owner,
        interface=make_tool(other).current,
        config=elsewhere.activity.current.config | {"steps": [step]},
    )
    assert runs.post(url(), GIVEN).json()["outputs"] == {"Sky_now": "rain"}
    path = f"{PLACES}test/bindings/sky/"
    assert designer("get", path).json()["update"]["refusal"]
    assert designer("patch", path, {"activity_version": 2}).json()["code"] == "activity_unfit"
    # As a process of an older release has bound it: the newest version runs.
    Binding.objects.update(activity_version=None)
    refused = runs.post(url(), GIVEN)
    assert (refused.status_code, refused.json()["code"]) == (409, "activity_unfit")
    (row,) = designer("get", f"{PLACES}test/bindings/").json()["results"]
    assert (row["runs"], row["code"]) == ("nothing", "activity_unfit")
    assert environments.bindings_of(environment)[0].activity == elsewhere.activity
    assert len(elsewhere.requests) == 2


def test_a_designer_of_another_team_takes_over_no_definition_by_a_name(owner):
    own_team = teams.create_team(actor=make_user(Role.ADMIN), name="Ours", slug="ours")
    teams.add_member(own_team, owner, actor=make_user(Role.ADMIN))
    agent_with(owner, definition(owner), team=own_team)
    agent_with(owner, definition(owner, "tide", activity="Tides"), "coast", team=own_team)
    definition(owner, "unused")
    stranger, admin = make_user(Role.DESIGNER), make_user(Role.ADMIN)

    def saved(actor, name):
        return activities.create(actor=actor, name=name, kind="mock", config={})

    free = saved(stranger, "free")
    for name in ("forecast", " forecast ", "Tides"):
        for attempt in (
            lambda name=name: saved(stranger, name),
            lambda name=name: activities.change(free, actor=stranger, name=name),
        ):
            with pytest.raises(DomainError, match="Agents of other teams") as refused:
                attempt()
            assert (refused.value.code, refused.value.status) == ("forbidden", 403)
            assert refused.value.fields.keys() == {"name"}
    # The name of an activity does not run it, and no agent has pinned the other one.
    saved(stranger, "tide")
    saved(stranger, "unused")
    saved(owner, "forecast")
    saved(admin, "Tides")
    # And to define a tool by the name of an activity is nothing to others.
    assert definition(stranger, "free").name == "free"


def test_a_designer_of_another_team_changes_nothing_that_others_run(owner, desk, elsewhere):
    own_team = teams.create_team(actor=make_user(Role.ADMIN), name="Ours", slug="ours")
    teams.add_member(own_team, owner, actor=make_user(Role.ADMIN))
    stranger, admin = make_user(Role.DESIGNER), make_user(Role.ADMIN)
    composite = activities.create(
        actor=owner,
        name="whole",
        kind="composite",
        config={
            "steps": [{"activity": elsewhere.activity.pk, "inputs": {"Zip code": {"input": "Zip code"}}}],
            "outputs": {"Sky now": {"step": 1, "output": "Sky now"}},
        },
        interface=elsewhere.activity.current.interface,
    )
    activities.change(elsewhere.activity, actor=stranger, name="renamed")
    place(owner, desk, is_default=True, activity=composite)
    desk[0].team = own_team
    desk[0].save()

    for attempt in (
        lambda: activities.change(composite, actor=stranger, name="taken"),
        lambda: activities.change(elsewhere.activity, actor=stranger, name="taken"),
        lambda: activities.remove(composite, actor=stranger),
    ):
        with pytest.raises(DomainError, match="Agents of other teams") as refused:
            attempt()
        assert (refused.value.code, refused.value.status) == ("forbidden", 403)
    for actor in (owner, admin):
        activities.change(elsewhere.activity, actor=actor, name=f"of {actor}")
    assert activities.change(composite, actor=stranger, name="whole") == composite
