"""A vendor's challenge in a refusal: used when a sign-in begins, and offered as one press later."""

import re

import pytest

from catalog.credentials.oauth import grant_status
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, Run, Tool
from catalog.models.runs import Trigger
from core.outbound import challenges
from execution.calls import invocation, requesting
from people.models import AuditEntry, Role
from tests.catalog.credentials.oauth.cases import grant_of, make_client, status_of
from tests.factories import make_endpoint, user_of
from tests.pages import signed_in, signed_in_as, text_of
from tests.strict_authorization import StrictServer

pytestmark = pytest.mark.django_db(transaction=True)
BACK = "http://testserver/credentials/callback/"
NEW, PREVIEW = "/endpoints/new/", "/endpoints/new/preview/"
CUSTOM = "/custom/metadata/location.json"


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def server():
    with StrictServer(redirect_uri=BACK, posts_only=True, first_scope="read") as server:
        yield server


def typed(server: StrictServer, **more: str) -> dict[str, str]:
    form = {"vendor": "", "vendor_name": "Forecasts", "protocol": "mcp", "url": server.resource}
    return form | {"credential": "", "interval_minutes": "60"} | more


def goes_to(page) -> str:
    assert page.status_code == 200, page.headers.get("Location")
    return re.search(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())[1].replace("&amp;", "&")


def sign_in(admin, server, page):
    back = {name: values[0] for name, values in server.visit(goes_to(page)).items()}
    return admin.get("/credentials/callback/", back)


def connected(admin, server) -> Endpoint:
    """Found, registered, signed in and read."""
    [offer] = admin.post(PREVIEW, typed(server), headers={"HX-Request": "true"}).context["offers"]
    sign_in(admin, server, admin.post(NEW, typed(server, register=offer["register"])))
    endpoint = Endpoint.objects.get()
    enumeration_runs.perform(Run.objects.latest("pk").pk)
    return endpoint


def call_tool(tool: Tool) -> Call:
    version = tool.versions.get()
    call = requesting.request_call(version, actor=user_of(Role.DESIGNER), arguments={}, is_confirmed=True)
    invocation.perform_due_calls()
    return Call.objects.get(pk=call.pk)


def test_metadata_that_only_the_challenge_of_a_post_names_is_found(admin_api, server):
    server.described_at = CUSTOM
    for more in ({"protocol": "mcp"}, {}):
        discovery_body = admin_api.post(
            "/api/v1/credentials/look-up/", {"url": server.resource, **more}
        ).json()
        assert discovery_body["scope"] == "read"
        assert [one["token_url"] for one in discovery_body["servers"]] == [f"{server.url}/token"]
    assert "Requested its tools over MCP. It requires a token." in [
        step["said"] for step in discovery_body["steps"]
    ]


def test_challenge_that_a_preview_met_is_not_asked_for_again(admin, server):
    server.described_at = CUSTOM
    page = admin.post(PREVIEW, typed(server), headers={"HX-Request": "true"})

    [offer] = page.context["offers"]
    assert offer["scope"] == "read offline_access"
    assert ("GET", "/mcp") not in server.calls
    assert server.calls.count(("POST", "/mcp")) == 1


def test_tool_that_wants_more_than_the_token_has_is_allowed_with_one_press(admin, server):
    server.scopes = ("read", "write")
    server.needs = {"tools/call": "read write"}
    endpoint = connected(admin, server)
    tool = Tool.objects.get()
    assert grant_of(endpoint.credential).granted_scope == "read"

    call = call_tool(tool)
    assert (call.outcome, call.error_code) == ("needs_authorization", "INSUFFICIENT_SCOPE")
    page = admin.get(f"/tools/{tool.pk}/try/?call={call.pk}")
    assert "requires a token with the scope “read write” for this" in text_of(page)
    button = f'action="/credentials/{endpoint.credential_id}/sign-in/"'
    assert page.content.decode().count(button) == 1
    assert "Sign in again with write" in text_of(page)
    page = admin.get(f"/credentials/{endpoint.credential_id}/")
    assert page.content.decode().count(button) == 1
    assert "Sign in again with write" in text_of(page)

    page = admin.post(f"/credentials/{endpoint.credential_id}/sign-in/")
    assert grant_of(endpoint.credential).scope == "read", "nothing is changed by going away"
    sign_in(admin, server, page)
    assert call_tool(tool).outcome == "ok"
    grant = grant_of(endpoint.credential)
    assert (grant.scope, grant.granted_scope, grant.wanted_scope) == ("read write", "read write", "")
    assert status_of(endpoint.credential).state == grant_status.SignInState.OK
    assert server.faults == []


def test_what_is_wanted_is_said_over_rest_and_to_designers_without_a_button(admin, admin_api, server):
    server.scopes, server.needs = ("read", "write"), {"tools/call": "write"}
    endpoint = connected(admin, server)
    call = call_tool(Tool.objects.get())

    row = admin_api.get(f"/api/v1/credentials/{endpoint.credential_id}/").json()
    status = row["status"]
    assert (status["state"], status["remedy"]) == ("needs_scope", "sign_in")
    assert status["scopes"]["wanted"] == ["write"]
    assert "“write”" in status["message"]
    page = signed_in_as(user_of(Role.DESIGNER)).get(f"/tools/{call.tool_id}/try/?call={call.pk}")
    assert "An administrator can sign in again with write" in text_of(page)
    assert "/sign-in/" not in page.content.decode()
    row = AuditEntry.objects.filter(action="ask").get()
    assert row.after == {"scope": "write"}
    call_tool(Tool.objects.get())
    assert AuditEntry.objects.filter(action="ask").count() == 1, "it is no news any more"


def test_reading_that_is_refused_for_its_scope_is_done_again_after_the_press(admin, server):
    server.scopes = ("read", "write")
    endpoint = connected(admin, server)
    server.needs = {"tools/list": "write"}
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    page = admin.get(f"/endpoints/{endpoint.pk}/")
    assert "Sign in again with write" in text_of(page)

    answer = sign_in(admin, server, admin.post(f"/credentials/{endpoint.credential_id}/sign-in/"))
    run = Run.objects.latest("pk")
    assert answer["Location"] == f"/runs/{run.pk}/"
    enumeration_runs.perform(run.pk)
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_scope_that_is_not_granted_is_not_promised_for_ever(admin, server):
    server.needs, server.granted = {"tools/call": "write"}, ("read",)
    endpoint = connected(admin, server)
    call_tool(Tool.objects.get())
    sign_in(admin, server, admin.post(f"/credentials/{endpoint.credential_id}/sign-in/"))
    call_tool(Tool.objects.get())
    status = status_of(endpoint.credential)
    assert "did not grant it. Have it allowed there first." in status.message

    server.granted, server.needs = None, {"tools/call": "other"}
    server.scopes = ("read", "write", "other")
    sign_in(admin, server, admin.post(f"/credentials/{endpoint.credential_id}/sign-in/"))
    server.needs = {"tools/call": "read write never"}
    server._resource = refusing(server, "read write")
    call_tool(Tool.objects.get())
    status = status_of(endpoint.credential)
    assert "The token already has that scope" in status.message
    assert status.remedy is None
    page = admin.get(f"/credentials/{endpoint.credential_id}/")
    assert "Sign in again with" not in text_of(page)


def refusing(server: StrictServer, scope: str):
    def resource(handler, path, body):
        wants = f'Bearer error="insufficient_scope", scope="{scope}"'
        return 403, {}, {"WWW-Authenticate": wants}

    return resource


def test_client_that_asks_for_itself_gets_the_scope_without_a_sign_in(admin, server):
    server.needs = {"tools/list": "write"}
    credential = make_client(
        server_settings(server),
        "oauth_client",
        url=server.resource,
        resource=server.resource,
        scope="read",
        client_id=server.client_id,
        secret=server.secret,
    )
    endpoint = make_endpoint(protocol="mcp", url=server.resource, credential=credential)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert run.error_code == "INSUFFICIENT_SCOPE"
    assert status_of(credential).remedy == grant_status.Remedy.WIDEN
    assert "Request a token with write" in text_of(admin.get(f"/endpoints/{endpoint.pk}/"))

    answer = admin.post(f"/credentials/{credential.pk}/sign-in/")
    run = enumeration_runs.perform(Run.objects.latest("pk").pk)
    assert answer["Location"] == f"/runs/{run.pk}/"
    assert run.status == "succeeded"
    assert grant_of(credential).scope == "read write"


def server_settings(server: StrictServer):
    """Arguments of `make_client` for a server."""

    class Settings:
        url, client_secret = server.url, server.secret

        @staticmethod
        def settings(**changed):
            return {"token_url": f"{server.url}/token", "client_authentication": "basic"} | changed

    return Settings()


def test_secret_that_comes_back_in_a_challenge_is_kept_nowhere(admin, server):
    endpoint = connected(admin, server)
    tool = Tool.objects.get()

    def echo(handler, path, body):
        token = handler.headers["Authorization"].split()[-1]
        return 403, {}, {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{token}"'}

    server._resource = echo
    call = call_tool(tool)
    grant = grant_of(endpoint.credential)
    [token] = [token for token, (_, _, family) in server._access.items() if family]
    assert token not in grant.wanted_scope
    assert token not in call.result


@pytest.mark.parametrize(
    ("challenge", "scope", "wants"),
    [
        ('Bearer error="insufficient_scope", scope="a  b"', "a b", True),
        ('Bearer scope="a", error=insufficient_scope', "a", True),
        ('Bearer error="invalid_token", scope="a"', "a", False),
        ('Basic error="insufficient_scope", scope="a"', "", False),
        ('Bearer error="insufficient_scope", scope="a\\"b"', "", True),
        ('Bearer error="insufficient_scope"', "", True),
    ],
)
def test_what_a_challenge_wants(challenge, scope, wants):
    assert challenges.scope_asked(challenge) == scope
    assert challenges.wants_more_scope(challenge) is wants
