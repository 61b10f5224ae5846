"""S3: addresses in a vendor's documents are never requested; only the vendor is.

The canary listens on 127.0.0.66, which this deployment allows: only the product's own rule keeps it away.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.credentials.oauth import tokens
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, Tool
from catalog.models.runs import Trigger
from catalog.review import inspector
from core.outbound.errors import RefusedError
from execution.calls import continuing, invocation, requesting
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import make_client, signed_in, wear_out
from tests.factories import make_agent, make_endpoint, make_pin, make_user
from tests.hostile.dialects import DIALECTS, Dialect, schema
from tests.hostile.shop import Shop
from tests.hostile_vendor import HostileVendor, json_reply, reply

pytestmark = pytest.mark.django_db
PROTOCOLS = sorted(DIALECTS)


@pytest.fixture
def canary():
    with HostileVendor(reply(), host="127.0.0.66") as listener:
        yield listener
        assert listener.connections == 0
        assert listener.requests == []


@pytest.fixture
def vendor():
    with HostileVendor(reply()) as vendor:
        yield vendor


def endpoint_of(dialect: Dialect, vendor: HostileVendor, tools: list[Any]) -> tuple[Endpoint, Shop]:
    vendor.script = shop = Shop(dialect, tools)
    url = vendor.url + dialect.root + (dialect.list_path if dialect.name == "openapi" else "")
    return make_endpoint(protocol=dialect.name, url=url, settings=dict(dialect.settings)), shop


def run_enumeration(endpoint: Endpoint) -> str:
    """Return the result of the run; any end is fine except a request to the canary."""
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    run = enumeration_runs.perform(run.pk)
    inspector.inspect_pending(endpoint.pk)
    return run.error_code or run.status


def lures(url: str) -> dict[str, Any]:
    """Members under which vendors keep addresses, in all five protocols and beside them."""
    return {
        "icons": [{"src": f"{url}/icon.png", "sizes": ["48x48"]}],
        "icon": f"{url}/icon.svg",
        "img": f"{url}/img.png",
        "logo": f"{url}/logo.png",
        "homepage": url,
        "documentation_url": f"{url}/docs",
        "externalDocs": {"url": f"{url}/docs"},
        "servers": [{"url": f"{url}/v1"}],
        "callbacks": {"done": {f"{url}/done": {"post": {"responses": {}}}}},
        "check_url": f"{url}/check",
        "resource_metadata": f"{url}/.well-known/oauth-protected-resource",
        "authorization_servers": [url],
        "token_endpoint": f"{url}/token",
        "token_url": f"{url}/token",
        "$schema": f"{url}/schema",
        "@context": f"{url}/context",
        "example": {"externalValue": f"{url}/example.json"},
        "_meta": {"ui": {"resourceUri": url}, "webhook": f"{url}/hook"},
    }


def laced(dialect: Dialect, url: str) -> dict[str, Any]:
    """One tool full of addresses; its schema refers to others."""
    inputs = schema(
        city={"type": "string", "description": f"![a picture]({url}/p.png) <img src={url}/q.png>"},
        where={"type": "string", "format": "uri", "default": f"{url}/default", "examples": [f"{url}/e"]},
    )
    tool = dialect.taking(dialect.tool(1), inputs)
    tool = dialect.described(tool, f"See [here]({url}/x), ![]({url}/y.png) and <a href='{url}/z'>there</a>.")
    return tool | {name: value for name, value in lures(url).items() if name not in tool}


def referring(dialect: Dialect, url: str) -> dict[str, Any]:
    remote = {"$ref": f"{url}/schema.json#/Thing"}
    inputs = schema(city={"type": "string"}, other=remote, more={"$dynamicRef": f"{url}/d#x"})
    return dialect.taking(dialect.tool(2), inputs | {"$id": f"{url}/id", "$schema": f"{url}/meta"})


def look_everywhere(endpoint: Endpoint) -> None:
    """Get the addresses as people and agents do once the tools are there."""
    pages, api = Client(), APIClient()
    user = make_user(Role.ADMIN)
    pages.force_login(user)
    api.force_login(user)
    paths_shown = [f"/endpoints/{endpoint.pk}/", f"/vendors/{endpoint.vendor.slug}/", "/tools/", "/review/"]
    agent = make_agent()
    for tool in Tool.objects.filter(endpoint=endpoint).select_related("current"):
        make_pin(agent, tool)
        paths_shown += [f"/tools/{tool.pk}/", f"/tools/{tool.pk}/try/"]
        assert api.get(f"/api/v1/tools/{tool.pk}/").status_code == 200
    for path in paths_shown:
        assert pages.get(path, follow=True).status_code in (200, 404), path
    payload = {"protocol": endpoint.protocol, "url": endpoint.url, "settings": endpoint.settings}
    assert api.post("/api/v1/endpoints/preview/", payload).status_code == 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_addresses_in_what_is_listed_are_never_visited(protocol, vendor, canary):
    dialect = DIALECTS[protocol]
    tools = [laced(dialect, canary.url), referring(dialect, canary.url)]
    endpoint, shop = endpoint_of(dialect, vendor, tools)
    shop.headers = {
        "Link": f"<{canary.url}/next>; rel=next, <{canary.url}/p>; rel=preload",
        "Content-Location": f"{canary.url}/content",
        "Refresh": f"0; url={canary.url}/refresh",
        "Location": f"{canary.url}/location",
    }
    assert run_enumeration(endpoint) == "succeeded"
    assert Tool.objects.filter(endpoint=endpoint).exists()
    look_everywhere(endpoint)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_list_that_is_moved_is_not_followed(protocol, status, vendor, canary):
    endpoint, shop = endpoint_of(DIALECTS[protocol], vendor, [])
    shop.hostile = shop.beside = reply(b"", status=status, headers={"Location": f"{canary.url}/tools"})
    assert run_enumeration(endpoint) == "REDIRECT"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", ["{url}/tools?page=2", "//127.0.0.66:{port}/tools", "@127.0.0.66:{port}/"])
def test_next_page_elsewhere_is_not_read(protocol, form, vendor, canary):
    dialect = DIALECTS[protocol]
    endpoint, shop = endpoint_of(dialect, vendor, [dialect.tool(1)])
    elsewhere = form.format(url=canary.url, port=canary.port)

    def onwards(number, page):
        if dialect.is_paged and isinstance(page, dict):
            return dialect.follow(page, elsewhere)
        return page | {"next": elsewhere, "paging": {"next": elsewhere}} if isinstance(page, dict) else page

    shop.turn = onwards
    run_enumeration(endpoint)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("status", [401, 403])
def test_metadata_that_a_refusal_names_is_not_fetched(protocol, status, vendor, canary):
    challenge = (
        f'Bearer realm="x", resource_metadata="{canary.url}/.well-known/oauth-protected-resource", '
        f'authorization_uri="{canary.url}/authorize", scope="all"'
    )
    endpoint, shop = endpoint_of(DIALECTS[protocol], vendor, [])
    shop.hostile = shop.beside = json_reply(
        lures(canary.url), status=status, headers={"WWW-Authenticate": challenge, "Location": canary.url}
    )
    assert run_enumeration(endpoint) == "AUTH"


@pytest.mark.parametrize("is_person", [True, False])
@pytest.mark.parametrize("status", [302, 307, 308])
def test_token_address_that_moved_gets_neither_secret_nor_refresh_token_there(is_person, status, canary):
    with AuthorizationServer() as server:
        credential = signed_in(server) if is_person else make_client(server)
        wear_out(credential)
        moved = reply(b"", status=status, headers={"Location": f"{canary.url}/token"})
        server.scripts = [moved]
        with pytest.raises(RefusedError) as refused:
            tokens.token_for(credential)
    assert refused.value.code == "TOKEN_REDIRECT"


def call_everything(endpoint: Endpoint) -> list[str]:
    outcomes = []
    user = make_user(Role.ADMIN)
    for tool in Tool.objects.filter(endpoint=endpoint):
        call = requesting.request_call(
            tool.current, actor=user, arguments={"city": "Oslo"}, is_confirmed=True, deadline_seconds=5
        )
        invocation.perform_due_calls()
        outcomes.append(Call.objects.get(pk=call.pk).outcome)
    return outcomes


def moved(url: str) -> Any:
    return reply(b"{}", status=307, headers={"Location": f"{url}/run"})


def accepted(url: str) -> Any:
    headers = {"Location": f"{url}/status", "Operation-Location": f"{url}/op", "Retry-After": "0"}
    return json_reply(
        lures(url) | {"run_id": "1", "status": "pending", "url": url}, status=202, headers=headers
    )


def full_of_addresses(url: str) -> Any:
    html = f"<img src='{url}/a.png'><script src='{url}/s.js'></script>"
    return json_reply({"output_parameters": [{"name": "answer", "value": html}], "result": html} | lures(url))


def challenged(url: str) -> Any:
    """OXP: an authorization that is checked at an address of its own; MCP: a form elsewhere."""
    challenge = {"id": "clinic", "check_url": f"{url}/check", "authorization_url": f"{url}/authorize"}
    body = {"success": False, "requires_authorization": [challenge], "challenges": [challenge]}
    return json_reply(
        body | lures(url), status=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{url}"'}
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("answer", [moved, accepted, full_of_addresses, challenged])
def test_addresses_in_what_a_call_brings_are_never_visited(
    protocol, answer: Callable[[str], Any], vendor, canary
):
    dialect = DIALECTS[protocol]
    endpoint, shop = endpoint_of(dialect, vendor, [dialect.tool(1)])
    assert run_enumeration(endpoint) == "succeeded"
    shop.hostile = shop.beside = answer(canary.url)
    assert call_everything(endpoint)


def test_servers_that_a_document_names_are_not_called(vendor, canary):
    dialect = DIALECTS["openapi"]
    endpoint, _ = endpoint_of(dialect, vendor, [laced(dialect, canary.url)])
    assert run_enumeration(endpoint) == "succeeded"
    assert call_everything(endpoint) == ["refused"]
    assert Call.objects.get().error_code == "SERVER"


def test_address_to_check_a_permission_at_is_not_followed_when_the_call_goes_on(vendor, canary):
    dialect = DIALECTS["oxp"]
    endpoint, shop = endpoint_of(dialect, vendor, [dialect.tool(1)])
    assert run_enumeration(endpoint) == "succeeded"
    challenge = {"id": "clinic", "url": f"{canary.url}/allow", "check_url": f"{canary.url}/check"}
    shop.beside = json_reply({"missing_requirements": {"authorization": [challenge]}}, status=400)
    assert call_everything(endpoint) == ["needs_authorization"]
    first = Call.objects.get()
    following = continuing.continue_call(first, actor=first.requested_by, answers={})
    invocation.perform_due_calls()
    following.refresh_from_db()
    assert following.outcome == "needs_authorization"


def test_canary_would_sing(vendor, canary):
    """The listener counts its visitors, so the silence above is meaningful."""
    with HostileVendor(reply(), host="127.0.0.66") as other:
        endpoint, _ = endpoint_of(DIALECTS["a2t"], vendor, [])
        endpoint.url = other.url
        endpoint.save()
        run_enumeration(endpoint)
        assert other.connections == 1
