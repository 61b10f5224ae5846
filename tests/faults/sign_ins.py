"""The two rows that hold tokens of a sign-in, as one interface for the tests of their renewal."""

from datetime import timedelta
from typing import Any, Protocol

from django.db.models.functions import Now

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import grant_status
from catalog.models import EndUser, Grant, UserGrant
from catalog.models.user_grants import GrantState
from execution.user_grants import authorizing, end_users, grants
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, make_client, sign, signed_in, status_of, wear_out
from tests.factories import make_agent, make_endpoint, make_user
from tests.faults import deeds

REDIRECT = "https://pegboard.example/grants/callback/"


class SignIn(Protocol):
    """A sign-in with tokens. `deed` with `argument` is how a process asks for its token."""

    deed: str
    argument: str

    def row(self) -> Grant | UserGrant: ...
    def wear_out(self, seconds: int = -1) -> None: ...
    def is_over(self) -> bool: ...
    def sign_in_again(self) -> None: ...
    def remove_tokens(self) -> None: ...


class CredentialSignIn:
    deed = deeds.token.__name__

    def __init__(self, server: AuthorizationServer) -> None:
        self.server = server
        self.credential = signed_in(server)
        self.argument = str(self.credential.pk)

    def row(self) -> Grant:
        return grant_of(self.credential)

    def wear_out(self, seconds: int = -1) -> None:
        wear_out(self.credential, seconds)

    def is_over(self) -> bool:
        return status_of(self.credential).state == grant_status.SignInState.NEEDS_SIGN_IN

    def sign_in_again(self) -> None:
        sign(self.server, self.credential, make_user(Role.ADMIN))

    def remove_tokens(self) -> None:
        credential_operations.sign_out(self.credential, actor=make_user(Role.ADMIN))


class UserSignIn:
    deed = deeds.user_token.__name__

    def __init__(self, server: AuthorizationServer) -> None:
        self.server = server
        agent, endpoint = make_agent(), make_endpoint()
        user = EndUser.objects.create(agent=agent.pk, digest=end_users.digest_of(agent.pk, "ada"))
        grant = UserGrant.objects.create(
            end_user=user,
            endpoint=endpoint,
            provider="google",
            scopes="read",
            credential=make_client(server, "oauth_users"),
        )
        self.argument = str(grant.pk)
        self.sign_in_again()

    def row(self) -> UserGrant:
        return UserGrant.objects.timed().select_related("end_user").get(pk=self.argument)

    def update(self, **columns: Any) -> None:
        UserGrant.objects.filter(pk=self.argument).update(**columns)

    def wear_out(self, seconds: int = -1) -> None:
        past = Now() - timedelta(minutes=2)
        self.update(token_expires_at=Now() + timedelta(seconds=seconds), renew_at=past)

    def is_over(self) -> bool:
        return self.row().state == GrantState.EXPIRED

    def sign_in_again(self) -> None:
        self.update(state=GrantState.PENDING, expires_at=Now() + timedelta(hours=1), link_digest="")
        address, state = authorizing.begin(self.row(), redirect_uri=REDIRECT)
        authorizing.complete(self.server.visit(address), began_with=state, redirect_uri=REDIRECT)

    def remove_tokens(self) -> None:
        grants.forget(self.row(), actor=make_user(Role.ADMIN))


SIGN_INS: tuple[type[SignIn], ...] = (CredentialSignIn, UserSignIn)
