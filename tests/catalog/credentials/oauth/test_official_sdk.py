"""The official MCP SDK's own authorization server and protected server, from the 401 to the revoked."""

import http.client
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.credentials.oauth import tokens
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Credential, Endpoint, Run, Tool
from people.api_keys import issue
from people.models import AuditEntry, KeyScope, Role
from tests.catalog.credentials.oauth.cases import grant_of, wear_out
from tests.factories import make_user
from tests.pages import signed_in

FORM = {"vendor": "", "vendor_name": "Library", "protocol": "mcp", "credential": "", "interval_minutes": "60"}


@pytest.fixture
def official():
    command = [sys.executable, "-m", "tests.mcp_authorization"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def visited(address: str) -> str:
    """Return the address to which the server sends the browser."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 302
    return answer.headers["Location"]


@pytest.mark.django_db(transaction=True)
def test_from_the_401_to_the_first_reading_a_renewal_and_the_revocation(official):
    admin, form = signed_in(Role.ADMIN), FORM | {"url": f"{official}/mcp"}
    page = admin.post("/endpoints/new/preview/", form, headers={"HX-Request": "true"})
    [offer] = page.context["offers"]
    assert offer["server"].problem == ""

    page = admin.post("/endpoints/new/", form | {"register": offer["register"]})
    address = re.search(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())[1].replace("&amp;", "&")
    back = visited(address)
    assert back.startswith("http://testserver/credentials/callback/?")
    answer = admin.get("/credentials/callback/", QUERY_STRING=urlsplit(back).query, follow=True)
    messages = [str(message) for message in answer.context["messages"]]
    assert [text for text in messages if text.startswith("Signed in.")], messages
    run = Run.objects.get()
    assert enumeration_runs.perform(run.pk).status == "succeeded"
    assert [tool.name for tool in Tool.objects.all()] == ["renew_loan"]

    credential = Endpoint.objects.get().credential
    grant = grant_of(credential)
    assert (grant.registered_at is not None, grant.secret_expires_at is not None) == (True, True)
    assert grant.granted_scope == "read write" or grant.granted_scope == "read"
    wear_out(credential)
    tokens.token_for(credential)
    admin.post(f"/credentials/{credential.pk}/sign-out/")
    assert AuditEntry.objects.get(action="revoke").after["told"] is True


@pytest.mark.django_db(transaction=True)
def test_a_program_looks_up_registers_and_begins_a_sign_in_that_its_person_ends(official):
    person = make_user(Role.ADMIN)
    _, key = issue(person, actor=person, name="set-up", scopes=[KeyScope.ADMIN])
    program = APIClient(headers={"Authorization": f"Bearer {key}"})
    discovery = program.post("/api/v1/credentials/look-up/", {"url": f"{official}/mcp"}, format="json").json()
    [server] = discovery["servers"]
    member_names = ("issuer", "token_url", "authorization_url", "registration_url", "client_authentication")
    client = {name: server[name] for name in member_names} | {
        "resource": discovery["resource"],
        "scope": "read",
    }
    body = {"name": "Library", "kind": "oauth_code", "url": f"{official}/mcp", "client": client}

    both = program.post(
        "/api/v1/credentials/", body | {"client": client | {"client_id": "ours"}}, format="json"
    )
    response = program.post("/api/v1/credentials/", body, format="json")

    assert (both.status_code, response.status_code) == (400, 201), response.json()
    assert response.json()["client"]["registered_at"]
    path = f"/api/v1/credentials/{response.json()['id']}/"
    back = visited(program.post(f"{path}sign-in/").json()["address"])
    assert back.startswith(discovery["redirect_uri"])
    query = urlsplit(back).query
    stranger, browser = signed_in(Role.ADMIN), Client()
    stranger.get("/credentials/callback/", QUERY_STRING=query)
    assert program.get(path).json()["status"]["signed_in_by"] == ""
    browser.force_login(person)
    browser.get("/credentials/callback/", QUERY_STRING=query)
    assert program.get(path).json()["status"]["signed_in_by"] == str(person)
    assert tokens.token_for(Credential.objects.get()) is not None
