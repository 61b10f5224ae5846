"""Credentials of the suite's authorization server."""

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import grant_status, sign_in
from catalog.models import Credential, Grant
from people.models import Role, User
from tests.authorization_server import AuthorizationServer
from tests.factories import make_user

REDIRECT = "https://pegboard.example/credentials/signed-in/"
SESSION = "the key of a login session"


def make_client(server: AuthorizationServer, kind: str = "oauth_client", **changed: Any) -> Credential:
    secret = changed.pop("secret", server.client_secret or "")
    return credential_operations.create_credential(
        actor=changed.pop("actor", None) or make_user(Role.ADMIN),
        name=changed.pop("name", "Weather"),
        kind=kind,
        url=changed.pop("url", f"{server.url}/"),
        secret=secret,
        **server.settings(**changed),
    )


def signed_in(server: AuthorizationServer, **changed: Any) -> Credential:
    """A credential after its sign-in: with an access token and a refresh token."""
    actor = make_user(Role.ADMIN)
    credential = make_client(server, "oauth_code", actor=actor, **changed)
    sign(server, credential, actor)
    return credential


def sign(server: AuthorizationServer, credential: Credential, actor: User) -> None:
    address = begin(credential, actor)
    complete(server.visit(address), actor)


def begin(credential: Credential, actor: User, session: str = SESSION) -> str:
    return sign_in.begin(credential, actor=actor, session_key=session, redirect_uri=REDIRECT)


def complete(query: dict[str, list[str]], actor: User, session: str = SESSION) -> Credential:
    return sign_in.complete(query, actor=actor, session_key=session, redirect_uri=REDIRECT)


def grant_of(credential: Credential) -> Grant:
    return Grant.objects.timed().select_related("credential", "signed_in_by").get(credential=credential)


def status_of(credential: Credential) -> grant_status.CredentialStatus:
    grant = grant_of(credential)
    return grant_status.status_of(grant, grant.now)


def wear_out(credential: Credential, seconds: int = -1) -> None:
    """Its access token ends so many seconds from now, and renewal is due."""
    Grant.objects.filter(credential=credential).update(
        expires_at=Now() + timedelta(seconds=seconds), renew_at=Now() - timedelta(minutes=2)
    )
