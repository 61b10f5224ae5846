"""Discovery of the servers that issue a vendor's tokens: found, validated and shown; nothing more is sent."""

import pytest

from catalog.credentials.oauth import discovery, server_metadata
from core.outbound import challenges
from core.outbound.errors import RefusedError
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.hostile_vendor import HostileVendor, json_reply, reply, then_waits

RESOURCE, SERVER, OPENID = server_metadata.RESOURCE, server_metadata.SERVER, server_metadata.OPENID


@pytest.fixture
def server():
    with AuthorizationServer() as server:
        server.documents = {RESOURCE: server.resource(), SERVER: server.metadata()}
        yield server


@pytest.fixture
def canary():
    with HostileVendor(json_reply({})) as canary:
        yield canary


def step_text(discovery_result: discovery.Discovery) -> str:
    return " ".join(step.said for step in discovery_result.steps)


def test_vendor_says_it_all(server):
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert (discovery_result.resource, discovery_result.scope) == (f"{server.url}/tools", "read")
    [one] = discovery_result.servers
    assert (one.issuer, one.token_url, one.authorization_url) == (
        server.url,
        f"{server.url}/token",
        f"{server.url}/authorize",
    )
    assert (one.client_authentication, one.states_issuer, one.problem) == ("post", True, "")
    assert one.scopes == ["read", "write", "admin"]
    assert [step.url.removeprefix(server.url) for step in discovery_result.steps] == [
        "/tools",
        RESOURCE,
        SERVER,
    ]


def test_what_was_found_is_what_a_sign_in_needs(server, db):
    """Nothing is stored by looking; what was found fits what an administrator enters."""
    from catalog.credentials.oauth import grant_status
    from catalog.models import Credential
    from tests.catalog.credentials.oauth.cases import make_client, sign, status_of
    from tests.factories import make_user

    server.method = "post"
    discovery_result = discovery.discover(f"{server.url}/tools")
    assert not Credential.objects.exists()
    one, ada = discovery_result.servers[0], make_user(Role.ADMIN)
    credential = make_client(
        server,
        "oauth_code",
        actor=ada,
        token_url=one.token_url,
        authorization_url=one.authorization_url,
        issuer=one.issuer,
        states_issuer=one.states_issuer,
        client_authentication=one.client_authentication,
        resource=discovery_result.resource,
        scope=discovery_result.scope,
    )
    sign(server, credential, ada)
    assert status_of(credential).state == grant_status.SignInState.OK


@pytest.mark.parametrize("place", [RESOURCE + "/tools/v1", RESOURCE])
def test_without_a_challenge_the_usual_places_are_looked_at(server, place):
    server.documents = {place: server.resource(), SERVER: server.metadata(), "/tools/v1": reply()}
    server._tools = lambda request: reply()
    discovery_result = discovery.discover(f"{server.url}/tools/v1")

    assert discovery_result.servers[0].problem == ""
    assert discovery_result.scope == "read write"


ISSUERS = {
    "": [SERVER, OPENID],
    "/tenant/a": [f"{SERVER}/tenant/a", f"{OPENID}/tenant/a", f"/tenant/a{OPENID}", f"/tenant/a{SERVER}"],
}


@pytest.mark.parametrize(
    ("path", "place"), [(path, place) for path, places in ISSUERS.items() for place in places]
)
def test_server_describes_itself_in_any_of_the_usual_places(server, path, place):
    issuer = server.url + path
    server.documents = {
        RESOURCE: server.resource(authorization_servers=[issuer]),
        place: server.metadata(issuer=issuer),
    }
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert discovery_result.servers[0].problem == ""
    assert [step.url.removeprefix(server.url) for step in discovery_result.steps[2:]] == (
        ISSUERS[path][: ISSUERS[path].index(place) + 1]
    )


@pytest.mark.parametrize("spelling", ["{url}/", "https://evil.example", "{url} ", "", None, 7])
def test_issuer_is_compared_byte_for_byte(server, spelling):
    issuer = spelling.format(url=server.url) if isinstance(spelling, str) else spelling
    server.documents[SERVER] = server.metadata(issuer=issuer)
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert discovery_result.servers[0].token_url == ""
    assert discovery_result.servers[0].problem
    assert "It states the issuer" in step_text(discovery_result)


def test_upper_case_host_in_an_issuer_is_another_issuer():
    assert server_metadata.why_not_server({"issuer": "https://AS.example"}, "https://as.example")


def test_document_elsewhere_is_left_alone(server, canary):
    """The challenge is the vendor's word about itself; it may not send us anywhere."""
    challenge = f'Bearer resource_metadata="{canary.url}/x"'
    discovery_result = discovery.discover(f"{server.url}/tools", challenge)

    assert canary.requests == []
    assert "Not requested" in step_text(discovery_result)
    assert discovery_result.servers[0].problem == "", "the vendor's own place is looked at instead"


def test_document_about_another_resource_is_not_used(server, canary):
    for other in (f"{canary.url}/tools", f"{server.url}/tools/other", f"{server.url}/too", "", 7):
        server.documents = {RESOURCE: server.resource(resource=other)}
        discovery_result = discovery.discover(f"{server.url}/tools")
        assert discovery_result.servers == []
    assert canary.requests == []


def test_redirects_lead_nowhere(server, canary):
    away = reply(b"", status=302, headers={"Location": f"{canary.url}/x"})
    server.documents = {RESOURCE: away, RESOURCE + "/tools": away, SERVER: away}
    discovery.discover(f"{server.url}/tools")

    assert canary.requests == []


@pytest.mark.parametrize(
    "issuer",
    ["http://169.254.169.254", "file:///etc/passwd", "http://10.0.0.1:8000", "https://user@as.example", "x"],
)
def test_forbidden_issuer_is_not_reached(server, issuer):
    server.documents[RESOURCE] = server.resource(authorization_servers=[issuer])
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert discovery_result.servers[0].problem
    assert discovery_result.servers[0].token_url == ""


def test_forbidden_address_is_refused():
    with pytest.raises(RefusedError):
        discovery.discover("ftp://vendor.example")


def test_server_without_pkce_is_said_to_be_unsafe(server):
    server.documents[SERVER] = server.metadata(code_challenge_methods_supported=["plain"])
    assert "PKCE" in discovery.discover(f"{server.url}/tools").servers[0].problem


def test_server_that_takes_pushed_sign_ins_only_is_not_offered(server):
    server.documents[SERVER] = server.metadata(require_pushed_authorization_requests=True)
    assert "PAR, RFC 9126" in discovery.discover(f"{server.url}/tools").servers[0].problem
    server.documents[SERVER] = server.metadata(require_pushed_authorization_requests="yes")
    assert discovery.discover(f"{server.url}/tools").servers[0].problem == ""


def test_server_that_moved_is_said_to_have(server):
    server.documents[SERVER] = server.metadata(issuer="https://new.example")
    problem = discovery.discover(f"{server.url}/tools").servers[0].problem
    assert "It states the issuer https://new.example now" in problem
    for place in (SERVER, OPENID):
        server.documents[place] = reply(b"", status=301, headers={"Location": "https://new.example/x"})
    problem = discovery.discover(f"{server.url}/tools").servers[0].problem
    assert "It seems to have moved: " in problem
    assert "answered 301 to new.example" in problem


BAD_ADDRESSES = [
    "javascript:alert(1)",
    "ftp://as.example/authorize",
    "https://user@as.example/authorize",
    "https://as.example/authorize?client_id=theirs",
    "https://as.example/authorize#x",
    "nowhere",
]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_address_that_was_looked_up_is_judged_like_a_typed_one(server, address, admin_api):
    for name in ("authorization_endpoint", "token_endpoint"):
        server.documents[SERVER] = server.metadata(**{name: address})
        answer = admin_api.post("/api/v1/credentials/look-up/", {"url": f"{server.url}/tools"})
        [one] = answer.json()["servers"]
        assert "address cannot be used" in one["problem"]
        assert address not in (one["authorization_url"], one["token_url"])
    server.documents[SERVER] = server.metadata(registration_endpoint=f"{server.url}/r?client_id=1")
    [one] = discovery.discover(f"{server.url}/tools").servers
    assert (one.problem, one.registration_url) == ("", "")


def test_vendor_that_is_its_own_server(server):
    """Vendors did this before RFC 9728."""
    server.documents = {SERVER: server.metadata()}
    assert [one.issuer for one in discovery.discover(f"{server.url}/tools").servers] == [server.url]


def test_vendor_that_says_nothing():
    with HostileVendor(json_reply({}, status=404)) as vendor:
        discovery_result = discovery.discover(f"{vendor.url}/mcp")

    assert (discovery_result.servers, discovery_result.resource) == ([], f"{vendor.url}/mcp")
    assert len(discovery_result.steps) == 5


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"resource":1}', b"[" * 100_000, b"{}" + b" " * 300_000, b""]
)
def test_odd_documents_are_said_and_survived(server, body):
    server.documents = {path: reply(body) for path in (RESOURCE, RESOURCE + "/tools", SERVER, OPENID)}
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert discovery_result.servers == []
    assert all(step.said for step in discovery_result.steps)


def test_many_servers_and_endless_names_are_cut(server):
    many = [f"https://as{number}.example.invalid" for number in range(1000)]
    assert (
        len(server_metadata.issuers(server.resource(authorization_servers=many)))
        == server_metadata.MAX_SERVERS
    )
    assert server_metadata.issuers({"authorization_servers": ["x" * 5000, 7, None]}) == []
    assert server_metadata.scopes({"scopes_supported": "read"}) == []


def test_looking_ends(server, monkeypatch):
    monkeypatch.setattr(discovery, "SECONDS", 0.4)
    server.documents = {RESOURCE: then_waits(b"HTTP/1.1 200 OK\r\n")}
    discovery_result = discovery.discover(f"{server.url}/tools")

    assert "Not requested" in step_text(discovery_result)


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ('Bearer resource_metadata="https://a.example/x"', "https://a.example/x"),
        (
            'Basic realm="Bearer", Bearer scope="a b", resource_metadata="https://a.example/x"',
            "https://a.example/x",
        ),
        ("bearer resource_metadata=https://a.example/x", "https://a.example/x"),
        (
            'Bearer realm="say \\"resource_metadata=\\"", resource_metadata="https://a.example/x"',
            "https://a.example/x",
        ),
        ('Basic resource_metadata="https://a.example/x"', ""),
        ('Bearer xresource_metadata="https://a.example/x"', ""),
        ('Bearer resource_metadata="https://a.example/\t"', ""),
        ("", ""),
    ],
)
def test_challenge_is_read_as_http_writes_it(challenge, expected):
    assert challenges.challenge_parameter(challenge, "resource_metadata") == expected


@pytest.mark.parametrize(
    ("stated", "way"),
    [
        (["client_secret_post", "client_secret_basic"], "post"),
        (["client_secret_basic", "client_secret_post"], "basic"),
        (["none", "private_key_jwt", "client_secret_post"], "post"),
        (["none"], "none"),
        (["none", "private_key_jwt"], "key"),
        (["tls_client_auth"], ""),
        ([], "basic"),
    ],
)
def test_server_says_in_which_order_it_likes_proofs(stated, way):
    document = {"token_endpoint": "https://as.example/t", "token_endpoint_auth_methods_supported": stated}
    assert server_metadata.server_of(document, "https://as.example").client_authentication == way


@pytest.mark.parametrize(
    ("address", "is_taken"),
    [
        ("https://as.example/r", True),
        ("https://tokens.example:444/r", True),
        ("https://evil.example/r", False),
        ("http://as.example/r", False),
        ("https://as.example.evil.example/r", False),
        (7, False),
        (None, False),
    ],
)
def test_registration_and_revocation_happen_beside_the_server_or_not_at_all(address, is_taken):
    document = {"token_endpoint": "https://tokens.example:444/t", "registration_endpoint": address}
    server = server_metadata.server_of(document | {"revocation_endpoint": address}, "https://as.example")
    assert bool(server.registration_url) == is_taken
    assert bool(server.revocation_url) == (is_taken and "tokens" in address), "the client secret goes there"


def test_scope_that_keeps_a_sign_in_alive_is_asked_for_where_it_is_known():
    offline = {
        "authorization_endpoint": "https://as.example/a",
        "scopes_supported": ["read", "offline_access"],
    }
    assert (
        server_metadata.server_of(offline, "https://as.example").scopes_to_request("read")
        == "read offline_access"
    )
    assert (
        server_metadata.server_of(offline, "https://as.example").scopes_to_request("offline_access x")
        == "offline_access x"
    )
    assert server_metadata.server_of({}, "https://as.example").scopes_to_request("read") == "read"
