"""An address may hold a query: it goes along with every request, and a key in it is refused."""

import pytest

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, Tool
from catalog.models.runs import Trigger
from core.outbound.addresses import Policy, check_url, keys_in, without_keys
from core.outbound.errors import RefusedError
from core.outbound.session import HttpSession
from execution.calls import invocation, requesting
from people.models import Role
from tests.factories import make_endpoint, make_user, make_vendor
from tests.hostile.dialects import DIALECTS
from tests.hostile.shop import Shop
from tests.hostile_vendor import HostileVendor, json_reply, reply
from tests.query_key import QueryKey

LOOPBACK = Policy.parse("127.0.0.1/32")
QUERY = "profile=a%20b&view=x/y"


@pytest.mark.django_db
@pytest.mark.parametrize("protocol", sorted(DIALECTS))
def test_every_request_of_every_protocol_carries_it(protocol):
    dialect = DIALECTS[protocol]
    with HostileVendor(reply()) as vendor:
        tools = [dialect.tool(number) for number in range(1, 5)]
        if dialect.has_versions:
            tools = [dialect.versioned(tool, 2) for tool in tools]
        vendor.script = Shop(dialect, tools)
        url = vendor.url + dialect.root + (dialect.list_path if protocol == "openapi" else "")
        settings = dict(dialect.settings)
        if protocol == "openapi":
            settings["server"] = f"{vendor.url}/api/?{QUERY}"
        endpoint = make_endpoint(protocol=protocol, url=f"{url}?{QUERY}", settings=settings)
        run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
        assert (run.status, run.error, run.added) == ("succeeded", None, 4)
        older_versions.read_all(endpoint.pk)
        requesting.request_call(
            Tool.objects.first().current,
            actor=make_user(Role.DESIGNER),
            arguments={"city": "Oslo"},
            is_confirmed=True,
        )
        before = len(vendor.requests)
        invocation.perform_due_calls()
        assert Call.objects.get().error_code != "INTERNAL"
        assert len(vendor.requests) > before
        targets = [request.target for request in vendor.requests]
    assert [target for target in targets if f"?{QUERY}" not in target] == []


@pytest.fixture
def vendor():
    with HostileVendor(json_reply({})) as vendor:
        yield vendor


@pytest.mark.parametrize(
    ("root", "ask", "target"),
    [
        ("/?v=1", lambda s: s.get(""), "/?v=1"),
        ("/a/?v=1", lambda s: s.get("/tools", params={"n": "2"}), "/a/tools?v=1&n=2"),
        ("/?n=1&v=1", lambda s: s.get("/tools", params={"n": "2"}), "/tools?v=1&n=2"),
        ("/?v=1", lambda s: s.request("GET", "/x", query="a=1&a=2"), "/x?v=1&a=1&a=2"),
        ("/?v=1", lambda s: s.post("/x", json={}), "/x?v=1"),
        ("/?v=1", lambda s: s.delete("/x"), "/x?v=1"),
        ("/", lambda s: s.get("/x"), "/x"),
    ],
)
def test_what_a_request_asks_itself_stands_beside_it(vendor, root, ask, target):
    with HttpSession(vendor.url + root, policy=LOOPBACK) as session:
        ask(session)
        assert session.root == vendor.url + (root if root != "/" else "").replace("/?", "?")
    assert vendor.requests[0].target == target


def test_a_key_of_a_credential_comes_after_it(vendor):
    with HttpSession(
        f"{vendor.url}/?v=1", policy=LOOPBACK, credential=QueryKey("api_key", "s3cr3t")
    ) as session:
        answer = session.get("/tools")
    assert vendor.requests[0].target == "/tools?v=1&api_key=s3cr3t"
    assert answer.url == f"{vendor.url}/tools?v=1"


KEYS = [
    "api_key=x",
    "apikey=x",
    "subscription-key=x",
    "access_token=x",
    "token=x",
    "X-Amz-Signature=x",
    "client_secret=x",
    "password=x",
    "sig=x",
    "code=aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9==",
    "v=sk-live-abcdefgh12345678",
    "v=eyJhbGciOiJI.eyJzdWIi.x",
    "api%5Fkey=x",
]
NO_KEYS = [
    "format=openapi",
    "api-version=2024-10-01-preview",
    "profile=bold-otter-Xy12",
    "tenant=5f0c1d3e-9b1a-4f3e-8c2d-1a2b3c4d5e6f",
    "sort_key=name",
    "monkey=1",
    "keyboard=us",
    "code=NO",
    "v",
]


@pytest.mark.parametrize("query", KEYS)
def test_an_address_with_a_key_in_it_is_refused(query):
    name = keys_in(f"https://v.example/?a=1&{query}")
    assert len(name) == 1
    with pytest.raises(RefusedError, match=r"must not contain a key .*“API key in the address”") as refused:
        check_url(f"https://v.example/?a=1&{query}", LOOPBACK, may_ask=True)
    assert query.partition("=")[2] not in refused.value.message or query.endswith("=x")
    assert without_keys(f"https://v.example/p?a=1&{query}") == "https://v.example/p?a=1"


@pytest.mark.parametrize("query", NO_KEYS)
def test_an_address_with_another_query_is_kept_as_it_is(query):
    url = f"https://v.example/p?{query}"
    assert str(check_url(url, LOOPBACK, may_ask=True)) == url
    assert without_keys(url) == url


@pytest.mark.parametrize(
    "url", ["https://v.example?x=1", "https://v.example?@127.0.0.66/", "https://v.example/#x"]
)
def test_a_query_comes_after_a_path_and_nothing_after_it(url):
    with pytest.raises(RefusedError):
        check_url(url, LOOPBACK, may_ask=True)


def test_a_user_name_is_not_shown_again():
    assert without_keys("https://ada:pw@v.example/a?b=1&c") == "https://v.example/a?b=1&c"


@pytest.mark.django_db
def test_it_is_entered_and_shown_over_rest(admin_api):
    payload = {"vendor": make_vendor().slug, "protocol": "mcp", "url": "http://127.0.0.1:9/mcp?profile=x"}
    response = admin_api.post("/api/v1/endpoints/", payload)
    assert (response.status_code, response.data["url"]) == (201, payload["url"])
    refused = admin_api.post(
        "/api/v1/endpoints/", payload | {"url": "http://127.0.0.1:9/?api_key=s3cr3t-word"}
    )
    assert refused.status_code == 400
    assert "as a credential of the kind “API key in the address”" in refused.data["fields"]["url"]
    assert "s3cr3t-word" not in str(refused.data)
    assert Endpoint.objects.count() == 1


@pytest.mark.django_db
def test_a_key_that_was_typed_is_not_shown_again(client):
    client.force_login(make_user("admin"))
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    form = {"url": "http://127.0.0.1:9/?a=1&api_key=s3cr3t-word", "interval_minutes": 60}
    page = client.post(f"/endpoints/{endpoint.pk}/", form).content.decode()
    assert "must not contain a key (“api_key”)" in page
    assert 'value="http://127.0.0.1:9/?a=1"' in page
    assert "s3cr3t-word" not in page
