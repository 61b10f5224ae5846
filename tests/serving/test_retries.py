"""A failed call is sent again by its release's policy: shown by REST, released, and stored with calls."""

import pytest
from rest_framework.test import APIClient

from catalog.models import Call
from designer.agents import agent_keys, agents
from designer.models import Release
from designer.pins import pins
from designer.releases import publishing
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, in_turn, json_reply, reply

pytestmark = pytest.mark.django_db
FAIR = json_reply({"output_parameters": [{"name": "sky", "value": "fair"}]})
SILENT = BEHAVIOURS["closes without a reply"]
AGENT = "/api/v1/agents/desk/"
INVOKE = f"{AGENT}releases/live/tools/forecast/invoke/"


@pytest.fixture
def admin():
    return make_user(Role.ADMIN)


@pytest.fixture
def api(admin):
    client = APIClient()
    client.force_authenticate(admin)
    return client


class Desk:
    """An agent with one tool; what is published runs with a key of its own."""

    def __init__(self, admin, url):
        signature = make_signature(outputs=(make_parameter("sky"),))
        self.endpoint, self.admin = make_endpoint(url=url), admin
        self.agent = agents.create_agent(actor=admin, name="Desk", slug="desk")
        self.pin = pins.pin_tool(self.agent, actor=admin, tool=make_tool(signature, endpoint=self.endpoint))
        _, key = agent_keys.issue(
            admin, actor=admin, name="Key", scopes=["runtime", "invoke"], agents=[self.agent]
        )
        self.runtime = APIClient()
        self.runtime.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")

    def publish(self):
        return publishing.publish(self.agent, actor=self.admin, channel="live")

    def run(self, **more):
        return self.runtime.post(INVOKE, {"arguments": {"city": "Oslo"}, **more}, format="json").json()

    @property
    def attempts(self):
        return [
            attempt.code or attempt.outcome for attempt in Call.objects.order_by("-pk")[0].decoded().attempts
        ]


def test_precedence_of_pin_agent_and_endpoint_is_told_and_sealed(api, admin):
    with HostileVendor(FAIR) as vendor:
        desk = Desk(admin, vendor.url)
    api.patch(f"/api/v1/endpoints/{desk.endpoint.pk}/", {"retry": "none", "attempts": 9}, format="json")
    agent = api.patch(AGENT, {"attempts": 5}, format="json").json()
    pin = api.patch(f"{AGENT}pins/{desk.pin.pk}/", {"retry": "all"}, format="json").json()
    assert (agent["retry"], agent["attempts"]) == (None, 5)
    assert (pin["retry"], pin["attempts"]) == ("all", None)
    assert pin["when_it_fails"] == {
        "retry": {"value": "all", "stated_by": "pin"},
        "give_up_after_seconds": {"value": 30, "stated_by": "default"},
        "attempts": {"value": 5, "stated_by": "agent"},
    }
    desk.publish()
    stated = {"retry": "all", "give_up_after_seconds": 30, "attempts": 5}
    bundle = api.get(f"{AGENT}releases/live/bundle/").json()
    (tool,) = api.get(f"{AGENT}releases/live/tools/?format=json-schema").json()["tools"]
    assert bundle["tools"][0]["retry"] == stated == tool["wire"]["retry"]
    edit = AuditEntry.objects.filter(kind="pin", action="edit").get()
    assert (edit.before["retry"], edit.after["retry"]) == ({}, {"retry": "all"})


def test_another_policy_is_another_digest_and_null_takes_it_back(api, admin):
    with HostileVendor(FAIR) as vendor:
        desk = Desk(admin, vendor.url)
    first = desk.publish()
    assert "retry" not in api.get(f"{AGENT}releases/1/bundle/").json()["tools"][0]
    api.patch(f"{AGENT}pins/{desk.pin.pk}/", {"give_up_after_seconds": 5}, format="json")
    second = desk.publish()
    assert first.digest != second.digest
    body = api.get(f"{AGENT}releases/2/diff/?against=1").json()
    assert "gives up after 5 s" in str(body)
    api.patch(f"{AGENT}pins/{desk.pin.pk}/", {"give_up_after_seconds": None}, format="json")
    assert api.post(f"{AGENT}releases/", {"channel": "live"}, format="json").status_code == 201
    documents = [release.document for release in Release.objects.order_by("number")]
    assert documents[0].replace('"number":1', "") == documents[2].replace('"number":3', "")


def test_a_runtime_gets_what_its_release_says_whatever_is_stated_since(admin):
    away = reply(status=503)
    with HostileVendor(in_turn(*[away] * 4, FAIR)) as vendor:
        desk = Desk(admin, vendor.url)
        desk.publish()
        pins.set_retry(desk.pin, actor=admin, changes={"retry": "none"})
        failed = desk.run()
        assert (failed["outcome"], desk.attempts) == ("unavailable", ["HTTP_503"] * 3)
        assert failed["retry"]["can_retry"] is True
        desk.publish()
        assert desk.run()["outcome"] == "unavailable"
        assert desk.attempts == ["HTTP_503"]


def test_what_a_designer_states_of_effects_decides_about_an_unknown_outcome(api, admin):
    with HostileVendor(in_turn(SILENT, SILENT, FAIR)) as vendor:
        desk = Desk(admin, vendor.url)
        desk.publish()
        doubtful = desk.run()
        assert (doubtful["outcome"], len(vendor.requests)) == ("unavailable", 1)
        assert doubtful["retry"]["can_retry"] is False
        tuned = api.put(
            f"{AGENT}pins/{desk.pin.pk}/tuning/", {"effects": {"idempotent": True}}, format="json"
        )
        assert tuned.status_code == 200
        desk.publish()
        assert (desk.run()["outcome"], len(vendor.requests)) == ("ok", 3)


def test_a_call_takes_as_long_as_its_policy_says_unless_the_caller_does(api, admin):
    with HostileVendor(FAIR) as vendor:
        desk = Desk(admin, vendor.url)
        api.patch(AGENT, {"give_up_after_seconds": 90}, format="json")
        desk.publish()
        desk.run()
        desk.run(deadline_seconds=3)
    assert list(Call.objects.order_by("pk").values_list("deadline_seconds", flat=True)) == [90, 3]


@pytest.mark.parametrize(
    ("where", "member", "value"),
    [
        ("pin", "retry", "often"),
        ("agent", "attempts", 11),
        ("endpoint", "give_up_after_seconds", 121),
        ("agent", "retry", True),
    ],
)
def test_what_no_policy_can_be_is_refused_at_its_member(api, admin, where, member, value):
    desk = Desk(admin, "http://127.0.0.1:9")
    places = {
        "pin": f"{AGENT}pins/{desk.pin.pk}/",
        "agent": AGENT,
        "endpoint": f"/api/v1/endpoints/{desk.endpoint.pk}/",
    }
    refused = api.patch(places[where], {member: value}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert refused.json()["fields"].keys() == {member}


def test_a_hint_goes_to_the_model_and_a_plain_word_to_retry_does_not():
    def answered(error):
        return json_reply({"call_id": "c", "success": False, "error": {"message": "No.", **error}})

    admin = make_user(Role.ADMIN)
    plain = {"can_retry": True, "retry_after_ms": 1500}
    done = json_reply({"call_id": "c", "success": True, "value": "fair"})
    with HostileVendor(
        in_turn(answered(plain), done, answered({**plain, "additional_prompt_content": "Oslo?"}))
    ) as vendor:
        desk = Desk(admin, vendor.url)
        type(desk.endpoint).objects.update(protocol="oxp")
        desk.publish()
        assert desk.run()["outcome"] == "ok"
        waited = [attempt.waited_ms >= 1500 for attempt in Call.objects.get().decoded().attempts]
        assert waited == [False, True]
        result = desk.run()
    assert (result["outcome"], result["retry"]["hint"], len(vendor.requests)) == ("tool_error", "Oslo?", 3)
    first, second = (request.json()["call_id"] for request in vendor.requests[:2])
    assert first == second
