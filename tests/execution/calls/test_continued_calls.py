"""Calls that stop to ask, and go on with the answer: through a vendor that wants to be allowed first."""

import pytest

from catalog.models import Call
from core.errors import DomainError
from execution.calls import continuing, invocation, requesting
from execution.calls.checks import ArgumentsError
from people.models import AuditEntry, Role
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply

pytestmark = pytest.mark.django_db

NEEDS_USER = json_reply({"message": "Who?", "missing_requirements": {"user_id": True}}, status=400)
CHALLENGE = {"id": "google", "url": "https://auth.example/go", "check_url": "https://auth.example/done"}
NEEDS_LEAVE = json_reply({"missing_requirements": {"authorization": [CHALLENGE]}}, status=400)
DONE = json_reply({"call_id": "1", "success": True, "value": {"sent": True}})


def run(url: str, **fields) -> Call:
    signature = make_signature(**fields)
    tool = make_tool(signature, endpoint=make_endpoint(url=url, protocol="oxp"))
    call = requesting.request_call(tool.current, actor=make_user(Role.DESIGNER), arguments={"city": "Oslo"})
    return performed(call)


def performed(call: Call) -> Call:
    invocation.perform_due_calls()
    return Call.objects.get(pk=call.pk)


def test_an_answer_goes_on_with_the_same_call():
    with HostileVendor(in_turn(NEEDS_USER, DONE)) as vendor:
        call = run(vendor.url)
        assert (call.outcome, [ask.id for ask in call.decoded().asks]) == ("needs_authorization", ["user_id"])
        following = performed(
            continuing.continue_call(
                call, actor=make_user(Role.DESIGNER), answers={"user_id": "ada@example.com"}
            )
        )

    first, second = (request.json() for request in vendor.requests)
    assert following.outcome == "ok"
    assert second["call_id"] == first["call_id"]
    assert second["context"] == {"user_id": "ada@example.com"}
    assert AuditEntry.objects.latest("pk").action == "continue"


def test_leave_given_elsewhere_needs_no_answer():
    with HostileVendor(in_turn(NEEDS_LEAVE, NEEDS_LEAVE, DONE)) as vendor:
        call = run(vendor.url)
        (ask,) = call.decoded().asks
        assert (ask.id, ask.url) == ("google", "https://auth.example/go")
        still = performed(continuing.continue_call(call, actor=make_user(Role.DESIGNER), answers={}))
        over = performed(continuing.continue_call(still, actor=make_user(Role.DESIGNER), answers={}))

    assert (still.outcome, over.outcome) == ("needs_authorization", "ok")


@pytest.mark.parametrize(
    ("answers", "fields"),
    [({}, {"user_id"}), ({"user_id": ""}, {"user_id"}), ({"user_id": 5, "more": 1}, {"user_id", "more"})],
)
def test_answers_are_checked_before_anything_is_sent(answers, fields):
    with HostileVendor(NEEDS_USER) as vendor:
        call = run(vendor.url)
        with pytest.raises(ArgumentsError) as refused:
            continuing.continue_call(call, actor=make_user(Role.DESIGNER), answers=answers)

    assert refused.value.fields.keys() == fields
    assert len(vendor.requests) == 1


def test_a_finished_call_has_nothing_to_continue():
    with HostileVendor(DONE) as vendor:
        call = run(vendor.url)

    with pytest.raises(DomainError, match="cannot be continued"):
        continuing.continue_call(call, actor=make_user(Role.DESIGNER), answers={})


def test_a_repetition_of_a_safe_tool_is_the_same_call_to_its_vendor():
    with HostileVendor(in_turn(reply(status=503), DONE)) as vendor:
        call = run(vendor.url, annotations=Annotations(read_only=True))

    first, second = (request.json()["call_id"] for request in vendor.requests)
    assert (call.outcome, first) == ("ok", second)


def test_a_state_that_would_not_fit_is_not_kept_in_half():
    long = {"id": "x", "url": "https://auth.example/go", "check_url": "https://auth.example/" + "y" * 2000}
    many = json_reply({"missing_requirements": {"authorization": [long] * 20}}, status=400)
    with HostileVendor(many) as vendor:
        call = run(vendor.url)

    result = call.decoded()
    assert (call.outcome, len(result.asks), result.resume) == ("needs_authorization", 10, None)
