"""Our side of OAuth against a server written from the RFCs alone: every rule it knows, in every variation."""

import pytest

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import client_registration, discovery, sign_in, tokens
from catalog.credentials.oauth.errors import NeedsSignInError
from catalog.models import Credential, Grant
from catalog.vendors import previews
from core.outbound.errors import RefusedError
from people.models import Role
from tests.catalog.credentials.oauth.cases import REDIRECT, begin, complete, grant_of, status_of, wear_out
from tests.factories import make_endpoint, make_user
from tests.strict_authorization import RefusalError, StrictServer

pytestmark = pytest.mark.django_db


def entered(server: StrictServer, actor, kind: str = "oauth_code", **changed) -> Credential:
    """Create a credential from the server's own metadata alone."""
    discovery_result = discovery.discover(server.resource)
    [one] = discovery_result.servers
    assert one.problem == ""
    fields = {
        "token_url": one.token_url,
        "authorization_url": one.authorization_url,
        "revocation_url": one.revocation_url,
        "issuer": one.issuer,
        "states_issuer": one.states_issuer,
        "client_authentication": one.client_authentication,
        "client_id": server.client_id,
        "secret": server.secret if server.method != "none" else "",
        "scope": one.scopes_to_request(discovery_result.scope),
        "resource": discovery_result.resource,
        **changed,
    }
    return credential_operations.create_credential(
        actor=actor, name="Strict", kind=kind, url=server.resource, **fields
    )


def preview_tools(server: StrictServer, credential: Credential) -> str:
    endpoint = make_endpoint(protocol="mcp", url=server.resource, credential=credential)
    preview = previews.preview(endpoint)
    return preview.error["code"] if preview.error else f"{preview.tools} tool"


WAYS = ("client_secret_basic", "client_secret_post", "none")
VARIATIONS = {
    **{way: {"method": way} for way in WAYS},
    "no lifetime": {"life": None},
    "a lifetime in quotes": {"life": "3600"},
    "BEARER": {"token_type": "BEARER"},
    "fewer scopes": {"granted": ("read",)},
    "no scope named": {"names_scope": False},
    "no scope at all": {"granted": ()},
    "no rotation": {"rotates": False},
    "no issuer in the answer": {"says_issuer": False},
    "an issuer with a path": {"path": "/tenant/a"},
    "slow": {"delay": 0.2},
    "no revocation": {"revokes": False},
}


@pytest.mark.parametrize("name", VARIATIONS)
def test_signed_in_read_renewed_and_ended(name, django_capture_on_commit_callbacks):
    varied = VARIATIONS[name]
    with StrictServer(redirect_uri=REDIRECT, **varied) as server:
        ada = make_user(Role.ADMIN)
        credential = entered(server, ada)
        complete(server.visit(begin(credential, ada)), ada)
        assert preview_tools(server, credential) == "1 tool"
        for _ in range(2):
            wear_out(credential)
            assert tokens.token_for(credential).generation
        assert preview_tools(server, credential) == "1 tool"
        granted, missing = status_of(credential).granted, status_of(credential).missing

        with django_capture_on_commit_callbacks(execute=True):
            revoked = credential_operations.sign_out(credential, actor=ada)
        revocation_text = (
            "was notified" if server.revokes else "was not notified: it states no address for that."
        )
        assert revocation_text in revoked.message
        assert server.revoked == (["refresh_token", "access_token"] if server.revokes else [])
        assert server.faults == []
    requested_scopes = ["read", "write", "offline_access"]
    granted_scopes = list(varied.get("granted", requested_scopes))
    assert (granted, missing) == (
        granted_scopes,
        [scope for scope in requested_scopes if scope not in granted_scopes],
    )


@pytest.mark.parametrize("way", WAYS)
def test_registered_signed_in_and_read(way):
    with StrictServer(method=way, client_id="", redirect_uri=REDIRECT) as server:
        ada, one = make_user(Role.ADMIN), discovery.discover(server.resource).servers[0]
        registration = client_registration.register(
            one.registration_url,
            redirect_uri=REDIRECT,
            authentication=one.client_authentication,
            scope="read write",
        )
        credential = credential_operations.create_credential(
            actor=ada,
            name="Registered",
            kind="oauth_code",
            url=server.resource,
            registered_client=registration,
            token_url=one.token_url,
            authorization_url=one.authorization_url,
            issuer=one.issuer,
            scope="read",
            resource=server.resource,
        )
        complete(server.visit(begin(credential, ada)), ada)
        assert preview_tools(server, credential) == "1 tool"
        assert server.faults == []
    assert grant_of(credential).registered_at
    assert bool(credential.sealed) == (way != "none")


@pytest.mark.parametrize("way", WAYS[:2])
def test_asked_as_ourselves(way):
    with StrictServer(method=way) as server:
        credential = entered(server, make_user(Role.ADMIN), "oauth_client")
        assert preview_tools(server, credential) == "1 tool"
        assert server.faults == []


@pytest.mark.django_db(transaction=True)  # a token that is refused is replaced on a connection of its own
def test_token_that_is_over_sooner_than_it_said_is_replaced_once():
    with StrictServer(redirect_uri=REDIRECT) as server:
        ada = make_user(Role.ADMIN)
        credential = entered(server, ada)
        server.counts = -1.0
        complete(server.visit(begin(credential, ada)), ada)
        server.counts = 3600.0
        assert preview_tools(server, credential) == "1 tool"
        assert server.faults == []


def test_reuse_ends_the_family_and_is_said_once():
    """Another client has used the refresh token; the server revokes the family, and Pegboard stops asking."""
    with StrictServer(redirect_uri=REDIRECT) as server:
        ada = make_user(Role.ADMIN)
        credential = entered(server, ada)
        complete(server.visit(begin(credential, ada)), ada)
        stolen = Grant.objects.values_list("refresh_token", flat=True).get()
        wear_out(credential)
        tokens.token_for(credential)
        Grant.objects.update(refresh_token=stolen)
        wear_out(credential)
        with pytest.raises(NeedsSignInError, match="It needs a sign-in since"):
            tokens.token_for(credential)
        call_count = len(server.calls)
        with pytest.raises(NeedsSignInError):
            tokens.token_for(credential)
        assert len(server.calls) == call_count
        assert [fault for fault in server.faults if "came twice" in fault]
        complete(server.visit(begin(credential, ada)), ada)
        assert preview_tools(server, credential) == "1 tool"


def test_code_that_is_sent_twice_by_somebody_else_ends_ours():
    with StrictServer(redirect_uri=REDIRECT) as server:
        ada = make_user(Role.ADMIN)
        credential = entered(server, ada)
        back = server.visit(begin(credential, ada))
        complete(back, ada)
        with pytest.raises(sign_in.DomainError, match="not started here, has expired, or was used before"):
            complete(back, ada)
        assert preview_tools(server, credential) == "1 tool", "the second try did not reach the server"


REFUSED = {
    "another secret": ({"secret": "wrong"}, "TOKEN_INVALID_CLIENT"),
    "another way to say it": ({"client_authentication": "post"}, "TOKEN_INVALID_CLIENT"),
    "another client": ({"client_id": "somebody"}, "TOKEN_INVALID_CLIENT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_with_401_and_a_challenge_is_understood(name):
    changed, code = REFUSED[name]
    with StrictServer() as server:
        credential = entered(server, make_user(Role.ADMIN), "oauth_client", **changed)
        with pytest.raises(RefusedError) as raised:
            tokens.token_for(credential)
    assert raised.value.code == code
    assert "does not accept this client id and secret" in raised.value.message
    assert status_of(credential).state == "refused"


def test_other_resource_and_other_redirect_address_are_the_servers_to_refuse():
    with StrictServer(redirect_uri=REDIRECT) as server:
        ada = make_user(Role.ADMIN)
        credential = entered(server, ada, resource=f"{server.url}/other")
        with pytest.raises(sign_in.VendorSignInError, match="does not know this resource"):
            complete(server.visit(begin(credential, ada)), ada)
        address = begin(credential, ada).replace("signed-in%2F", "signed-in%2Fx")
        with pytest.raises(RefusalError, match="is not registered"):
            server.visit(address)
