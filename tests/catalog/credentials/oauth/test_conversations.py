"""Vendors that need an access token: how a session gets one, and the error when it cannot."""

import pytest
from celery import current_app
from django.db.models.functions import Now

from catalog import tasks
from catalog.credentials import sessions
from catalog.credentials.oauth import discovery, grant_status, server_metadata, tokens
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Grant, Run
from catalog.models.runs import Trigger
from core import wakes
from core.outbound.errors import RefusedError
from execution.calls import invocation, requesting
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, make_client, signed_in, status_of, wear_out
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, json_reply, reply

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        yield server


def endpoint_of(server: AuthorizationServer, credential):
    return make_endpoint(url=server.url, credential=credential)


def run_enumeration(endpoint) -> Run:
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


@pytest.mark.parametrize("make", [make_client, signed_in])
def test_reading_takes_a_token_along(server, make):
    run = run_enumeration(endpoint_of(server, make(server)))

    assert (run.status, run.added) == ("succeeded", 1)
    assert len(server.forms) == 1


def test_token_is_asked_for_before_the_vendor_is(server):
    endpoint = endpoint_of(server, make_client(server))
    server.client_secret = "another"
    run = run_enumeration(endpoint)

    assert (run.status, run.error_code) == ("failed", "TOKEN_INVALID_CLIENT")
    assert server.count_requests("/tools") == 0


def test_sign_in_that_is_missing_is_said(server):
    run = run_enumeration(endpoint_of(server, make_client(server, "oauth_code")))

    assert (run.error_code, run.error_message) == (
        "NEEDS_SIGN_IN",
        "“Weather” needs a sign-in before it can be used.",
    )


def test_401_is_met_with_one_new_token_and_one_more_try(server):
    credential = signed_in(server)
    endpoint = endpoint_of(server, credential)
    tokens.token_for(credential)
    server.refuse_all()
    run = run_enumeration(endpoint)

    assert run.status == "succeeded"
    assert (len(server.forms), server.count_requests("/tools")) == (2, 2)
    assert status_of(credential).state == grant_status.SignInState.OK


def test_vendor_that_takes_no_token_makes_the_credential_refused(server):
    credential = signed_in(server)
    endpoint = endpoint_of(server, credential)
    server.access = type("Nothing", (dict,), {"__contains__": lambda *_: False})()
    for _ in range(3):
        assert run_enumeration(endpoint).status == "failed"

    assert len(server.forms) == 2, "one sign-in, one forced refresh; then it is known"
    status = status_of(credential)
    assert (status.state, status.error_code) == (grant_status.SignInState.REFUSED, "TOKEN_NOT_TAKEN")
    assert Run.objects.latest("pk").error_code == "TOKEN_NOT_TAKEN"


def test_refused_credential_that_is_taken_again_is_well(server):
    credential = signed_in(server)
    tokens.note_refusal(credential, grant_of(credential).generation)
    assert status_of(credential).state == grant_status.SignInState.REFUSED
    run_enumeration(endpoint_of(server, credential))

    assert status_of(credential).state == grant_status.SignInState.OK
    assert len(server.forms) == 1


def test_conversation_that_outlasts_its_token_renews_it(server):
    credential = signed_in(server)
    with sessions.open_session(endpoint_of(server, credential)) as session:
        session.get("/tools/")
        first = server.requests[-1].headers["authorization"]
        wear_out(credential)
        session._credential._worn_out_at = 0.0
        session.get("/tools/")
        with session.at_url(f"{server.url}/tools") as elsewhere:
            elsewhere.get("/")

    carried = [request.headers["authorization"] for request in server.requests if request.path == "/tools/"]
    assert carried[0] == first != carried[1] == carried[2]
    assert len(server.forms) == 2


def test_call_that_may_do_something_twice_is_not_sent_again(server):
    credential = signed_in(server)
    with HostileVendor(reply(b"{}", status=401)) as vendor:
        credential.origin = vendor.url
        credential.save()
        with (
            sessions.open_session(make_endpoint(url=vendor.url, credential=credential)) as session,
            pytest.raises(RefusedError),
        ):
            session.post("/run", json={})

    assert len(vendor.requests) == 1
    assert len(server.forms) == 2, "the next one has a new token"


def test_token_is_not_taken_back(server):
    """A reply that repeats it is refused, whichever generation it is of."""
    credential = signed_in(server)

    def parrot(line, request):
        return json_reply({"you": request.headers["authorization"]})(line, request)

    with HostileVendor(parrot) as vendor:
        credential.origin = vendor.url
        credential.save()
        endpoint = make_endpoint(url=vendor.url, credential=credential)
        with sessions.open_session(endpoint) as session:
            for _ in range(2):
                with pytest.raises(RefusedError) as refused:
                    session.get("/")
                assert refused.value.code == "ECHO"
                wear_out(credential)
                session._credential._worn_out_at = 0.0

    assert "access-token" not in refused.value.message


def test_call_of_a_tool_says_that_a_sign_in_is_needed(server):
    credential = signed_in(server)
    endpoint = endpoint_of(server, credential)
    run_enumeration(endpoint)
    server.families[0].is_revoked = True
    wear_out(credential)
    version = endpoint.tools.get().current
    call = requesting.request_call(
        version, actor=make_user(Role.DESIGNER), arguments={"city": "Oslo"}, is_confirmed=True
    )
    invocation.perform_due_calls()

    call = Call.objects.get(pk=call.pk)
    assert (call.outcome, call.error_code) == ("needs_authorization", "NEEDS_SIGN_IN")


def test_beat_has_tokens_renewed_before_they_are_needed(server, monkeypatch):
    credential = signed_in(server)
    tokens.token_for(credential)
    wear_out(credential, seconds=60)
    monkeypatch.setattr(
        wakes, "wake_worker", lambda task, credential_id: current_app.tasks[task](credential_id)
    )
    tasks.renew_tokens()
    form_count = len(server.forms)
    run_enumeration(endpoint_of(server, credential))

    assert form_count == len(server.forms) == 2
    assert Grant.objects.filter(renew_at__gt=Now()).exists()


def test_reading_renews_although_its_database_connection_is_busy(server):
    """In the middle of a listing, the tools of earlier pages are being written to the database."""
    credential = signed_in(server)
    server.tools = 80

    def refuse(page: int) -> None:
        if page == 3:
            server.before_page = None
            server.refuse_all()

    server.before_page = refuse
    run = run_enumeration(endpoint_of(server, credential))

    assert (run.status, run.added, run.pages) == ("succeeded", 80, 3)
    assert grant_of(credential).generation == 2


def test_token_server_that_is_away_is_no_fault_of_the_vendor(server):
    endpoint = endpoint_of(server, make_client(server))
    server.scripts = [reply(b"", status=500)] * 9
    for _ in range(9):
        Grant.objects.update(retry_at=None)
        assert run_enumeration(endpoint).error_code == "TOKEN_HTTP_500"

    Grant.objects.update(retry_at=None)
    assert run_enumeration(endpoint).status == "succeeded", "no circuit has opened"


def test_mcp_server_leads_from_401_to_a_sign_in_and_stays_connected(server):
    """Each step as an administrator takes it; what was found is applied by hand."""
    server.method, url = "post", f"{server.url}/mcp"
    server.documents = {
        f"{server_metadata.RESOURCE}/mcp": server.resource(resource=url),
        server_metadata.SERVER: server.metadata(),
    }
    endpoint = make_endpoint(url=url, protocol="mcp")
    stranger = run_enumeration(endpoint)
    assert stranger.error_code == "AUTH"
    assert "It asks for the scope “read”" in stranger.error_message

    discovery_result = discovery.discover(url)
    one = discovery_result.servers[0]
    assert (discovery_result.resource, discovery_result.scope, one.problem) == (url, "read", "")
    endpoint.credential = signed_in(
        server,
        url=url,
        token_url=one.token_url,
        resource=discovery_result.resource,
        scope=discovery_result.scope,
    )
    endpoint.save()
    assert run_enumeration(endpoint).added == 1
    server.refuse_all()
    assert run_enumeration(endpoint).status == "succeeded"
    assert [form["resource"] for form in server.forms] == [url, url]
