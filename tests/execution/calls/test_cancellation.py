import pytest

from execution.calls import cancellation, requesting
from execution.calls.lease import Unspoken, WatchedCall
from people.models import Role
from tests.factories import make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db


def request_claimed_call():
    tool, actor = make_tool(make_signature()), make_user(Role.DESIGNER)
    arguments = {"city": "Oslo"}
    return requesting.request_call(tool.current, actor=actor, arguments=arguments, is_claimed=True), actor


def test_what_this_process_waits_for_ends_at_once_when_it_is_cancelled_here():
    call, actor = request_claimed_call()
    with WatchedCall(call, Unspoken(), lambda call: None) as watched:
        assert watched.may_send()
        assert cancellation.cancel(call, actor=actor).outcome == "cancelled"
        assert watched.is_lost
        assert not watched.may_send()


def test_another_call_goes_on():
    call, actor = request_claimed_call()
    with WatchedCall(call, Unspoken(), lambda call: None) as watched:
        other = requesting.request_call(call.version, actor=actor, arguments=call.arguments, is_claimed=True)
        cancellation.cancel(other, actor=actor)
        assert watched.may_send()
