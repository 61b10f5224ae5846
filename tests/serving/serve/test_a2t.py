"""A release as an A2T server, requested with the means of the drafts alone."""

import json
import uuid
from pathlib import Path

import jsonschema
import pytest
from django.utils import timezone

from catalog.models import Call
from designer.agents import agents
from designer.pins import tunings
from designer.releases import publishing, retiring
from protocols.signature import AllowedValue, Annotations
from serving.serve import versions
from tests.factories import make_parameter, make_pin, make_signature, make_tool
from tests.hostile_vendor import json_reply
from tests.serving.test_calls import OUTPUTS, desk, desk_with, owner, runtime, vendor

__all__ = ["desk", "owner", "vendor"]

pytestmark = pytest.mark.django_db
ROOT = "/serve/desk/live/a2t"
SCHEMA = json.loads((Path(__file__).parents[2] / "fixtures/exports/a2t.schema.json").read_text())


class IndependentClient:
    """An A2T client made from the text of the draft: sections 6.1 to 6.4, and 7."""

    def __init__(self, http, root=ROOT):
        self.http, self.root = http, root

    def get(self, path, **query):
        answer = self.http.get(f"{self.root}{path}", query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def pages(self, path, **query):
        """Every item of a list, by “paging” alone."""
        items, cursor = [], {}
        while True:
            page = self.get(path, **query, **cursor)
            assert page["paging"]["pageLimit"] >= len(page["items"])
            items += page["items"]
            if not page["paging"].get("next"):
                jsonschema.validate({**page, "items": items}, SCHEMA)
                return items
            cursor = {"pageCursor": page["paging"]["next"]}

    def enumerate(self, **query):
        tools = self.pages("/tools", **query)
        for tool in tools:
            assert str(uuid.UUID(tool["toolId"])) == tool["toolId"]
            assert tool["version"] == tool["currentVersion"]
        assert len({tool["name"] for tool in tools}) == len(tools)
        return {tool["name"]: tool for tool in tools}

    def invoke(self, tool, version=None, headers=None, **inputs):
        """Invoke the tool by the names of the signature, as an executor passes a model's arguments on."""
        names = {input_parameter["name"] for input_parameter in tool["input_parameters"]}
        assert inputs.keys() <= names
        address = f"{self.root}/tools/{tool['toolId']}" + (f"/versions/{version}" if version else "")
        input_parameters = [{"name": name, "value": value} for name, value in inputs.items()]
        body = {"name": tool["name"], "input_parameters": input_parameters}
        return self.http.post(f"{address}:invoke", body, format="json", headers=headers or {})


def outputs(answer):
    assert answer.status_code == 200, answer.content
    return {
        output_parameter["name"]: output_parameter["value"]
        for output_parameter in answer.json()["output_parameters"]
    }


@pytest.fixture
def client(owner, desk):
    return IndependentClient(runtime(owner, desk[0]))


def reword(pin, owner, **words):
    tunings.tune(pin, actor=owner, **words)
    return publishing.publish(pin.agent, actor=owner, channel="live")


def test_a_client_made_from_the_draft_lists_and_invokes(client, vendor):
    (tool,) = client.enumerate().values()
    assert [input_parameter["name"] for input_parameter in tool["input_parameters"]] == [
        "Zip code",
        "days",
        "units",
        "trace",
    ]
    assert client.get(f"/tools/{tool['toolId']}") == tool
    assert outputs(client.invoke(tool, **{"Zip code": "0150", "days": 3})) == {"Sky now": "fair"}
    assert outputs(client.invoke(tool, 1, **{"Zip code": "0150"})) == {"Sky now": "fair"}
    (first_inputs, again) = (request.json()["input_parameters"] for request in vendor.requests)
    assert first_inputs == [{"name": "Zip code", "value": "0150"}, {"name": "days", "value": 3}]
    assert again == first_inputs[:1]


def test_every_version_is_locked_and_older_ones_run_as_they_were(client, desk, owner, vendor):
    agent, pin = desk
    (first,) = client.enumerate().values()
    reword(pin, owner, parameters={"units": {"preset": "metric"}}, description="Looks up.")
    (second,) = client.enumerate().values()
    assert (first["toolId"], first["version"], second["version"]) == (second["toolId"], 1, 2)

    versions = client.pages(f"/tools/{first['toolId']}/versions", pageLimit=1)
    assert [version["version"] for version in versions] == [2, 1]
    assert {version["currentVersion"] for version in versions} == {2}
    locked = client.get(f"/tools/{first['toolId']}/versions/1")
    assert locked == {**first, "currentVersion": 2}
    assert versions == [second, locked]

    for version in (1, 2, None):
        client.invoke(first, version, **{"Zip code": "0150"})
    units = [
        [
            parameter["value"]
            for parameter in request.json()["input_parameters"]
            if parameter["name"] == "units"
        ]
        for request in vendor.requests
    ]
    assert units == [[], ["metric"], ["metric"]]
    assert [call.release for call in Call.objects.filter(agent=agent.pk).order_by("pk")] == [1, 2, 2]


def test_a_server_shows_nothing_that_came_after_its_release(client, desk, owner):
    _, pin = desk
    first = client.enumerate()
    reword(pin, owner, description="Looks up.")
    old = IndependentClient(client.http, "/serve/desk/1/a2t")
    assert old.enumerate() == first
    path = f"/tools/{first['sky']['toolId']}/versions"
    assert [version["version"] for version in old.pages(path)] == [1]
    missing = old.http.get(f"{old.root}{path}/2")
    assert (missing.status_code, missing.json()["code"]) == (404, "version_not_found")


def test_what_breaks_callers_is_another_tool_and_the_old_one_runs_by_its_version(client, desk, owner, vendor):
    _, pin = desk
    (old,) = client.enumerate().values()
    reword(pin, owner, parameters={"Zip code": {"name": "postcode"}})
    (new,) = client.enumerate().values()
    assert new["toolId"] != old["toolId"]
    assert new["version"] == 1
    assert outputs(client.invoke(new, postcode="0150")) == {"Sky now": "fair"}
    assert outputs(client.invoke(old, 1, **{"Zip code": "0150"})) == {"Sky now": "fair"}
    refused = client.invoke(old, **{"Zip code": "0150"})
    assert (refused.status_code, refused.json()["code"]) == (404, "not_listed")
    assert len(vendor.requests) == 2


def test_a_version_ends_with_the_last_release_that_holds_it(client, desk, owner, time_machine):
    agent, pin = desk
    (first,) = client.enumerate().values()
    reword(pin, owner, description="Looks up.")
    release = agent.releases.get(number=1)
    sunset = timezone.now() + timezone.timedelta(days=1)
    retiring.retire(release, actor=owner, reason="Wrong.", sunset_at=sunset, name=str(release))
    assert client.get(f"/tools/{first['toolId']}/versions/1")["version"] == 1
    time_machine.move_to(sunset + timezone.timedelta(hours=1))
    refused = client.invoke(first, 1, **{"Zip code": "0150"})
    assert (refused.status_code, refused.json()["code"]) == (404, "version_not_found")
    assert "retired" in refused.json()["message"]
    assert [page["version"] for page in client.pages(f"/tools/{first['toolId']}/versions")] == [2]


def test_lists_page_filter_and_say_that_nothing_is_new(client, desk, owner):
    agent, _ = desk
    for number in range(5):
        tags = ("even",) if number % 2 == 0 else ("odd",)
        make_pin(agent, make_tool(make_signature(f"tool_{number}", tags=tags, outputs=OUTPUTS)))
    first = client.get("/tools", pageLimit=2)
    publishing.publish(agent, actor=owner, channel="live")
    assert len(client.enumerate(pageLimit=2)) == 6
    assert client.enumerate(tag="odd").keys() == {"tool_1", "tool_3"}
    assert client.get("/tools", pageLimit=999_999)["paging"] == {"pageLimit": 1000}
    assert first["paging"] == {"pageLimit": 2}

    answer = client.http.get(f"{ROOT}/tools")
    assert answer["Cache-Control"] == "private, no-cache"
    same = client.http.get(f"{ROOT}/tools", headers={"If-None-Match": answer["ETag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_a_cursor_is_good_for_one_list(client, desk, owner):
    agent, _ = desk
    for number in range(3):
        make_pin(agent, make_tool(make_signature(f"tool_{number}", outputs=OUTPUTS)))
    publishing.publish(agent, actor=owner, channel="live")
    after = client.get("/tools", pageLimit=2)["paging"]["next"]
    assert client.get("/tools", pageCursor=after)["items"]
    agents.update_agent(agent, actor=owner, description="Another.")
    publishing.publish(agent, actor=owner, channel="live")
    for cursor in (after, "x", "é", "AAAA", "OTk6OQ=="):
        refused = client.http.get(f"{ROOT}/tools", {"pageCursor": cursor})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_cursor"), cursor
    for limit in ("0", "-1", "x", "", "1e3", "9999999"):
        refused = client.http.get(f"{ROOT}/tools", {"pageLimit": limit})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_page_limit"), limit


def test_a_transfer_is_a_tool_whose_answer_says_where_to_go_on(owner, vendor):
    agent, _ = desk_with(owner, vendor)
    agents.create_agent(actor=owner, name="Refills", slug="refills", parent=agent)
    publishing.publish(agent, actor=owner, channel="live")
    client = IndependentClient(runtime(owner, agent))
    transfer = client.enumerate()["transfer_to_refills"]
    assert transfer["tags"] == ["transfer"]
    assert outputs(client.invoke(transfer)) == {
        "result": {
            "agent": "refills",
            "address": "http://testserver/serve/desk/2/agents/refills/a2t",
        }
    }
    below = IndependentClient(client.http, "/serve/desk/2/agents/refills/a2t")
    assert below.enumerate() == {}


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (json_reply({"message": "No such place."}, status=404), 409, "NOT_FOUND"),
        (json_reply({"message": "Not open now."}, status=409), 424, "HTTP_409"),
        (json_reply({"message": "Bad zip."}, status=422), 400, "HTTP_422"),
        (json_reply({}, status=503), 503, "HTTP_503"),
        (json_reply({}, status=500), 424, "HTTP_500"),
        (json_reply({}, status=403), 409, "FORBIDDEN"),
    ],
)
def test_what_failed_at_the_vendor_is_temporary_only_where_it_is_safe_to_send_again(
    owner, vendor, desk, client, reply, status, code
):
    (tool,) = client.enumerate().values()
    vendor.script = reply
    answer = client.invoke(tool, **{"Zip code": "0150"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["message"]


def test_bad_input_gets_the_error_of_the_protocol(client, desk, owner, vendor):
    (tool,) = client.enumerate().values()
    tool_path = f"{ROOT}/tools/{tool['toolId']}"
    invocation = {"name": "sky", "input_parameters": [{"name": "Zip code", "value": "0150"}]}
    bodies = [
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_body"),
        (b"\xff", 400, "invalid_json"),
        (b"", 400, "invalid_json"),
        (b'{"name": "sky", "input_parameters": {}}', 400, "invalid_body"),
        (b'{"name": "sky", "input_parameters": [3]}', 400, "invalid_body"),
        (b'{"name": "other", "input_parameters": []}', 400, "name_mismatch"),
        (
            json.dumps(invocation | {"input_parameters": invocation["input_parameters"] * 2}).encode(),
            400,
            None,
        ),
    ]
    for body, status, code in bodies:
        answer = client.http.generic("POST", f"{tool_path}:invoke", body, content_type="application/json")
        assert answer.status_code == status, body
        assert code is None or answer.json()["code"] == code
    for inputs in ({}, {"Zip code": 3}, {"Zip code": "123456"}, {"Zip code": "1", "days": "3"}):
        answer = client.invoke(tool, **inputs)
        assert (answer.status_code, answer.json()["code"]) == (400, "ARGUMENTS")
        assert answer.json()["fields"].keys() <= {"Zip code", "days"}
    paths = [
        ("get", f"{ROOT}/tools/{uuid.uuid4()}", 404),
        ("get", f"{ROOT}/tools/nonsense", 404),
        ("get", f"{tool_path}/versions/2", 404),
        ("get", f"{tool_path}/versions/x", 404),
        ("get", f"{tool_path}/versions/0", 404),
        ("post", f"{tool_path}/versions/99:invoke", 404),
        ("post", f"{tool_path}/versions:invoke", 404),
        ("post", f"{ROOT}/tools:invoke", 404),
        ("get", f"{ROOT}/other", 404),
        ("get", ROOT, 404),
        ("get", f"{tool_path}:invoke", 405),
        ("post", tool_path, 405),
        ("delete", f"{ROOT}/tools", 405),
        ("get", "/serve/desk/canary/a2t/tools", 404),
    ]
    for method, path, status in paths:
        answer = getattr(client.http, method)(path, **({"format": "json"} if method == "post" else {}))
        assert answer.status_code == status, (method, path)
        assert answer.json().keys() >= {"code", "message"}
    assert vendor.requests == []


def test_a_key_of_another_agent_hears_what_it_would_of_none(desk, owner, client, vendor):
    (tool,) = client.enumerate().values()
    other = agents.create_agent(actor=owner, name="other", slug="other")
    stranger = IndependentClient(runtime(owner, other))
    for path in ("/tools", f"/tools/{tool['toolId']}/versions/1"):
        not_allowed = stranger.http.get(f"{ROOT}{path}")
        nowhere = stranger.http.get(f"/serve/nowhere/live/a2t{path}")
        assert not_allowed.status_code == nowhere.status_code == 404
        assert not_allowed.content == nowhere.content
    assert stranger.invoke(tool, **{"Zip code": "0150"}).status_code == 404
    assert vendor.requests == []


def test_ids_are_found_in_any_case_and_the_same_call_runs_once(client, vendor):
    (tool,) = client.enumerate().values()
    shouted = {**tool, "toolId": tool["toolId"].upper()}
    headers = {"Idempotency-Key": "order 7"}
    for _ in range(2):
        assert outputs(client.invoke(shouted, headers=headers, **{"Zip code": "0150"}))
    other = client.invoke(tool, headers=headers, **{"Zip code": "9"})
    assert (other.status_code, other.json()["code"]) == (409, "key_taken")
    assert len(vendor.requests) == 1


def test_what_may_destroy_runs_once_a_person_has_agreed(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = IndependentClient(runtime(owner, agent))
    (tool,) = client.enumerate().values()
    unconfirmed = client.invoke(tool, **{"Zip code": "0150"})
    assert (unconfirmed.status_code, unconfirmed.json()["code"], vendor.requests) == (
        409,
        "confirm_needed",
        [],
    )
    headers = {"Pegboard-Confirm": "true"}
    assert outputs(client.invoke(tool, headers=headers, **{"Zip code": "0150"}))


def test_tools_that_the_protocol_cannot_carry_are_left_out(desk, owner, client):
    agent, _ = desk
    lists = make_parameter("rows", type="json", schema={"type": "array"})
    make_pin(agent, make_tool(make_signature("lists", inputs=(lists,))))
    values = tuple(AllowedValue(name, f"It is {name}.") for name in ("LOW", "HIGH"))
    grade = make_parameter("grade", type="enum", allowed_values=values)
    make_pin(agent, make_tool(make_signature("grades", inputs=(grade,), outputs=(grade,))))
    publishing.publish(agent, actor=owner, channel="live")
    assert client.enumerate().keys() == {"sky", "grades"}


def test_what_a_release_shows_is_written_once(client, desk, monkeypatch):
    client.enumerate()
    monkeypatch.setattr(versions.VersionedRelease, "_load_agent_tools", None)
    assert client.enumerate()
