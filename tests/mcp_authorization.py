"""The authorization server and the protected MCP server of the official SDK, in a process of their own.

python -m tests.mcp_authorization prints its port. The storage that the SDK expects is in memory here; every
rule of OAuth that is kept is the SDK's. A consent is given without asking.
"""

import asyncio
import secrets
import socket
import sys
import time

import mcp_types as types
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.lowlevel import Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

LIFE = 3600
SCOPES = ["read", "write"]


class Memory(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.access: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or SCOPES,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issue(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        for store in (self.access, self.refresh):
            for text in [
                text for text, token_facts in store.items() if token_facts.client_id == token.client_id
            ]:
                del store[text]

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        shared = {"client_id": client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + LIFE, **shared)
        self.refresh[refresh] = RefreshToken(token=refresh, **shared)
        return OAuthToken(access_token=access, expires_in=LIFE, scope=" ".join(scopes), refresh_token=refresh)


async def list_tools(context, params):
    tools = [types.Tool(name="renew_loan", input_schema={"type": "object"})]
    return types.ListToolsResult(tools=tools)


def app_at(url: str):
    auth = AuthSettings(
        issuer_url=url,
        resource_server_url=f"{url}/mcp",
        required_scopes=["read"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES, client_secret_expiry_seconds=86_400 * 30
        ),
        revocation_options=RevocationOptions(enabled=True),
        validate_token_resource=True,
    )
    server = Server("library", on_list_tools=list_tools)
    memory = Memory()
    verifier = ProviderTokenVerifier(memory)
    return server.streamable_http_app(
        auth=auth, auth_server_provider=memory, token_verifier=verifier, json_response=True
    )


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = app_at(f"http://127.0.0.1:{port}")
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="error", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
