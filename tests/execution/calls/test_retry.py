"""The hint whether and when a call may be sent again: stored with it, on its page and in REST."""

import pytest
from django.test import Client

from catalog.models import Call
from designer.agents import agent_keys, agents
from designer.pins import pins
from designer.releases import publishing
from execution.calls import invocation, requesting
from people.models import Role
from protocols.call_outcome import Outcome
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user, user_of
from tests.hostile_vendor import HostileVendor, json_reply, reply
from tests.pages import text_of

pytestmark = pytest.mark.django_db

HINT = "Known orders: QM10-4471, QM10-4472."
OXP_FAILURE = json_reply(
    {
        "call_id": "c",
        "success": False,
        "error": {
            "message": "No such order.",
            "can_retry": True,
            "retry_after_ms": 1500,
            "additional_prompt_content": HINT,
        },
    }
)
GIVEN = {"arguments": {"city": "Oslo"}}


def make_it(vendor, protocol="a2t", **fields):
    signature = make_signature("sky", inputs=(make_parameter("city"),), **fields)
    return make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol=protocol))


def retry_of(designer_api, vendor, **fields):
    tool = make_it(vendor, **fields)
    return designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", GIVEN).json()["retry"]


def test_what_an_oxp_vendor_says_about_a_retry_is_on_the_call(designer_api):
    with HostileVendor(OXP_FAILURE) as vendor:
        tool = make_it(vendor, "oxp")
        body = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", GIVEN).json()
    assert body["retry"] == {"can_retry": True, "after_ms": 1500, "is_transient": True, "hint": HINT}
    assert body["error"].keys() == {"code", "message"}
    stored_call = designer_api.get(f"/api/v1/tools/{tool.pk}/calls/{body['call']}/").json()
    assert stored_call["retry"] == body["retry"]


def test_a_runtime_hears_when_to_try_again():
    owner = make_user(Role.DESIGNER)
    with HostileVendor(OXP_FAILURE) as vendor:
        agent = agents.create_agent(actor=owner, name="desk", slug="desk")
        pins.pin_tool(agent, actor=owner, tool=make_it(vendor, "oxp"))
        publishing.publish(agent, actor=owner, channel="live")
        _, plain = agent_keys.issue(owner, actor=owner, name="Key", scopes=("invoke",), agents=[agent])
        headers = {"Authorization": f"Bearer {plain}"}
        address = "/api/v1/agents/desk/releases/live/tools/sky/invoke/"
        body = Client(headers=headers).post(address, GIVEN, content_type="application/json").json()
    assert body["retry"] == {"can_retry": True, "after_ms": 1500, "is_transient": True, "hint": HINT}


@pytest.mark.parametrize(
    ("status", "headers", "annotations", "retry"),
    [
        # Not let in, so the tool did not run.
        (503, {"Retry-After": "40"}, Annotations(), (True, 40_000, True)),
        (429, {"Retry-After": "2"}, Annotations(), (True, 2_000, True)),
        (429, {}, Annotations(), (True, None, True)),
        # It may have run: again only what may run twice.
        (500, {}, Annotations(), (False, None, True)),
        (504, {"Retry-After": "5"}, Annotations(), (False, 5_000, True)),
        (502, {"Retry-After": "60"}, Annotations(idempotent=True), (True, 60_000, True)),
        # The tool's own answer, for now.
        (409, {"Retry-After": "7"}, Annotations(), (True, 7_000, True)),
        (409, {}, Annotations(), (False, None, False)),
    ],
)
def test_retry_after_of_a_vendor_is_told(designer_api, status, headers, annotations, retry):
    with HostileVendor(reply(b"{}", status=status, headers=headers)) as vendor:
        retry_answer = retry_of(designer_api, vendor, annotations=annotations)
    assert (
        retry_answer["can_retry"],
        retry_answer["after_ms"],
        retry_answer["is_transient"],
        retry_answer["hint"],
    ) == (*retry, "")


def test_what_worked_and_what_was_never_sent_say_nothing_of_a_retry(designer_api):
    with HostileVendor(json_reply({"output_parameters": []})) as vendor:
        tool = make_it(vendor)
        worked = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", GIVEN).json()
        unfit = designer_api.post(f"/api/v1/tools/{tool.pk}/invoke/", {"arguments": {}}).json()
    assert (worked["outcome"], worked["retry"]) == ("ok", None)
    assert (unfit["outcome"], unfit["retry"]) == ("invalid_arguments", None)


def test_call_that_no_worker_took_may_be_made_again(designer_api):
    with HostileVendor(OXP_FAILURE) as vendor:
        tool = make_it(vendor)
        queued = requesting.request_call(tool.current, actor=user_of(Role.DESIGNER), **GIVEN)
        Call.objects.update(gives_up_at="2001-01-01T00:00:00Z")
        ended = designer_api.get(f"/api/v1/tools/{tool.pk}/calls/{queued.pk}/").json()
    assert (ended["error"]["code"], ended["retry"]["can_retry"]) == ("NO_WORKER", True)


def test_the_page_of_a_call_says_when_and_with_which_hint():
    designer = Client()
    designer.force_login(user_of(Role.DESIGNER))
    with HostileVendor(OXP_FAILURE) as vendor:
        tool = make_it(vendor, "oxp")
        call = requesting.request_call(tool.current, actor=user_of(Role.DESIGNER), arguments={"city": "Oslo"})
        invocation.perform_due_calls()
    page_text = text_of(designer.get(f"/tools/{tool.pk}/try/?call={call.pk}"))
    assert HINT in page_text
    assert "The vendor allows a retry, after 1.5 s." in page_text


def test_the_schema_declares_what_is_said_about_a_retry(designer_api):
    schema = designer_api.get("/api/schema/?format=json").json()["components"]["schemas"]
    members = {"can_retry", "after_ms", "is_transient", "hint"}
    assert set(schema["RetryOutput"]["properties"]) == members == set(schema["RetryOutput"]["required"])
    for document in ("CallOutput", "RuntimeCallOutput"):
        assert "retry" in schema[document]["required"]


def test_outcome_that_says_nothing_is_not_to_be_repeated():
    from execution.calls.results import retry

    assert retry(Outcome("refused"), is_safe=True) is None
    assert retry(Outcome("tool_error"), is_safe=True).can_retry is False
    assert retry(Outcome("unavailable"), is_safe=False).can_retry is False
    assert retry(Outcome("unavailable"), is_safe=True).can_retry is True
