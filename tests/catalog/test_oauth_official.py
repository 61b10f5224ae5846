"""The official MCP SDK's own authorization server and protected server, from the 401 to the farewell."""

import http.client
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from catalog import enumeration
from catalog.models import Endpoint, Run, Tool
from catalog.oauth import tokens
from people.models import AuditEntry
from tests.catalog.oauth_cases import grant_of, wear_out
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
    """Where the server sends the browser."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 302
    return answer.headers["Location"]


@pytest.mark.django_db(transaction=True)
def test_from_the_401_to_the_first_reading_a_renewal_and_the_farewell(official):
    admin, form = signed_in(), FORM | {"url": f"{official}/mcp"}
    page = admin.post("/endpoints/new/preview/", form, headers={"HX-Request": "true"})
    [offer] = page.context["offers"]
    assert offer["server"].problem == ""

    page = admin.post("/endpoints/new/", form | {"register": offer["register"]})
    address = re.search(r'href="(http[^"]*/authorize[^"]*)"', page.content.decode())[1].replace("&amp;", "&")
    back = visited(address)
    assert back.startswith("http://testserver/credentials/callback/?")
    answer = admin.get("/credentials/callback/", QUERY_STRING=urlsplit(back).query, follow=True)
    said = [str(message) for message in answer.context["messages"]]
    assert [text for text in said if text.startswith("Signed in.")], said
    run = Run.objects.get()
    assert enumeration.perform(run.pk).status == "succeeded"
    assert [tool.name for tool in Tool.objects.all()] == ["renew_loan"]

    credential = Endpoint.objects.get().credential
    grant = grant_of(credential)
    assert (grant.registered_at is not None, grant.secret_expires_at is not None) == (True, True)
    assert grant.granted_scope == "read write" or grant.granted_scope == "read"
    wear_out(credential)
    tokens.token_for(credential)
    admin.post(f"/credentials/{credential.pk}/sign-out/")
    assert AuditEntry.objects.get(action="revoke").after["told"] is True
