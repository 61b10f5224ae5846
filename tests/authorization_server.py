"""An authorization server on loopback that keeps the rules, and breaks those that a test asks it to break.

    with AuthorizationServer() as server:
        back = server.visit(address)        # what the browser brings back: {"code": ["..."], "state": ...}

It rotates refresh tokens, and an old one that comes again ends the whole family (RFC 9700 section 4.14.2).
The same process is a vendor: everything under /tools (N-ACT) and /mcp asks for one of its access tokens.
"""

import base64
import hashlib
import http.client
import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt

from tests.hostile_vendor import HostileVendor, Line, Request, Script, json_reply, reply
from tests.vendor import tool

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLIENT_ID, CLIENT_SECRET = "pegboard:1", "s3cret/+ %:client"
PAGE = 30


@dataclass
class Family:
    """All tokens of one sign-in. `current` is the only refresh token that still counts."""

    scope: str
    current: str = ""
    is_revoked: bool = False


@dataclass
class AuthorizationServer:
    """`script` may answer a token request in place of the server, once for each that is put there."""

    client_secret: str | None = CLIENT_SECRET
    method: str = "basic"
    life: int | None = 3600
    rotates: bool = True
    latency: float = 0.0
    takes_again: bool = False  # a refresh token that was rotated, as servers with a grace period do
    loses: int = 0  # replies that do not arrive although the work was done
    grants_scope: str | None = None
    says_issuer: bool = True
    issuer_said: str | None = None
    scripts: list[Script] = field(default_factory=list)
    before_reply: Callable[[dict[str, str]], None] | None = None
    documents: dict[str, Any] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)
    access: dict[str, Family | None] = field(default_factory=dict)
    not_taken: set[str] = field(default_factory=set)
    revocations: list[dict[str, str]] = field(default_factory=list)
    revoke_script: Script | None = None
    tools: int = 1
    before_page: Callable[[int], None] | None = None
    public_keys: list[dict[str, Any]] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: dict[str, Family] = {}
        self._lock = threading.Lock()
        self._vendor = HostileVendor(self._answer, tls=self.tls)

    def __enter__(self) -> Self:
        self._vendor.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._vendor.__exit__()

    @property
    def url(self) -> str:
        return self._vendor.url

    @property
    def requests(self) -> list[Request]:
        return self._vendor.requests

    @property
    def revoked(self) -> int:
        return sum(family.is_revoked for family in self.families)

    def settings(self, **changed: Any) -> dict[str, Any]:
        """The fields that an administrator enters for a client of this server."""
        return {
            "token_url": f"{self.url}/token",
            "authorization_url": f"{self.url}/authorize",
            "issuer": self.url,
            "states_issuer": self.says_issuer,
            "client_id": CLIENT_ID,
            "client_authentication": self.method,
            "scope": "read write",
            **changed,
        }

    def count_requests(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    def visit(self, address: str) -> dict[str, list[str]]:
        """Follow the redirects as the person's browser does; return the address that it is sent back to."""
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=5)
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 302, answer.status
        return parse_qs(urlsplit(answer.headers["Location"]).query, keep_blank_values=True)

    def _answer(self, line: Line, request: Request) -> bool | None:
        if request.path == "/token":
            script = self._token(request)
        elif request.path == "/revoke":
            script = self._revoke(request)
        elif request.path == "/authorize":
            script = self._authorize(parse_qs(urlsplit(request.target).query))
        elif request.path in self.documents:
            document = self.documents[request.path]
            script = document if callable(document) else json_reply(document)
        elif request.path == "/mcp":
            script = self._mcp(request)
        elif request.path.startswith("/tools"):
            script = self._tools(request)
        else:
            script = json_reply({"message": "no such path"}, status=404)
        return script(line, request)

    def _authorize(self, query: dict[str, list[str]]) -> Script:
        fields = {name: values[0] for name, values in query.items()}
        code = f"code-{next(self._numbers)}"
        self._codes[code] = fields
        back = {"code": code, "state": fields["state"]}
        if self.says_issuer:
            back["iss"] = self.issuer_said or self.url
        where = f"{fields['redirect_uri']}?{urlencode(back)}"
        return reply(b"", status=302, headers={"Location": where})

    def _token(self, request: Request) -> Script:
        form = {
            name: values[0]
            for name, values in parse_qs(request.body.decode(), keep_blank_values=True).items()
        }
        with self._lock:
            self.forms.append(form)
            scripted = self.scripts.pop(0) if self.scripts else None
        time.sleep(self.latency)
        if scripted:
            return scripted
        with self._lock:
            answer = self._granted(request, form)
        if self.before_reply:
            self.before_reply(form)
        if self.loses:
            self.loses -= 1
            return lambda line, request: None
        return answer

    def _revoke(self, request: Request) -> Script:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.revocations.append(form)
        if self.revoke_script:
            return self.revoke_script
        if not self._knows(request, form):
            return json_reply({"error": "invalid_client"}, status=401)
        if family := self._refresh.get(form["token"]) or self.access.get(form["token"]):
            family.is_revoked = True
        return reply(b"")

    def _granted(self, request: Request, form: dict[str, str]) -> Script:
        if not self._knows(request, form):
            return json_reply({"error": "invalid_client"}, status=401)
        match form.get("grant_type"):
            case "client_credentials":
                return self._issue(None, form.get("scope", ""))
            case "authorization_code":
                return self._redeem(form)
            case "refresh_token":
                return self._rotate(form["refresh_token"])
        return json_reply({"error": "unsupported_grant_type"}, status=400)

    def _knows(self, request: Request, form: dict[str, str]) -> bool:
        authorization = request.headers.get("authorization", "")
        match self.method:
            case "basic":
                credentials = base64.b64decode(authorization.removeprefix("Basic ")).decode()
                pair = tuple(unquote_plus(part) for part in credentials.split(":", 1))
                return pair == (CLIENT_ID, self.client_secret) and "client_secret" not in form
            case "key":
                return self._believes(form) and "client_secret" not in form and not authorization
            case "post":
                pair = (form.get("client_id"), form.get("client_secret"))
                return pair == (CLIENT_ID, self.client_secret) and not authorization
        return form.get("client_id") == CLIENT_ID and "client_secret" not in form and not authorization

    def _believes(self, form: dict[str, str]) -> bool:
        """RFC 7523 section 3; a statement counts once."""
        assertion = form.get("client_assertion", "")
        keys = {key["kid"]: key for key in self.public_keys}
        key = keys.get(jwt.get_unverified_header(assertion)["kid"])
        if key is None or form.get("client_assertion_type") != JWT_BEARER or assertion in self.proofs:
            return False
        needed = {"require": ["iss", "sub", "aud", "exp", "iat", "jti"]}
        claims = jwt.decode(
            assertion, jwt.PyJWK(key), algorithms=["RS256"], audience=f"{self.url}/token", options=needed
        )
        self.proofs.append(assertion)
        return (claims["iss"], claims["sub"], form["client_id"]) == (CLIENT_ID,) * 3

    def _redeem(self, form: dict[str, str]) -> Script:
        grant = self._codes.pop(form.get("code", ""), None)
        if grant is None or grant["redirect_uri"] != form.get("redirect_uri"):
            return json_reply({"error": "invalid_grant"}, status=400)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if grant["code_challenge_method"] != "S256" or grant["code_challenge"] != challenge:
            return json_reply({"error": "invalid_grant", "error_description": "PKCE"}, status=400)
        if grant.get("resource") != form.get("resource"):
            return json_reply({"error": "invalid_target"}, status=400)
        family = Family(grant.get("scope", ""))
        self.families.append(family)
        return self._issue(family, family.scope)

    def _rotate(self, token: str) -> Script:
        family = self._refresh.get(token)
        if family is None or family.is_revoked:
            return json_reply({"error": "invalid_grant"}, status=400)
        if self.rotates and token != family.current and not self.takes_again:
            family.is_revoked = True
            return json_reply({"error": "invalid_grant", "error_description": "reused"}, status=400)
        return self._issue(family, family.scope)

    def _issue(self, family: Family | None, scope: str) -> Script:
        number = next(self._numbers)
        access = f"access-token-{number}"
        self.access[access] = family
        document: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.life is not None:
            document["expires_in"] = self.life
        if self.grants_scope is not None:
            document["scope"] = self.grants_scope
        if family and (self.rotates or not family.current):
            family.current = f"refresh-token-{number}"
            self._refresh[family.current] = family
            document["refresh_token"] = family.current
        return json_reply(document)

    def is_good(self, token: str) -> bool:
        family = self.access.get(token)
        is_revoked = family is not None and family.is_revoked
        return token in self.access and token not in self.not_taken and not is_revoked

    def _tools(self, request: Request) -> Script:
        start = int(parse_qs(urlsplit(request.target).query).get("pageCursor", ["0"])[0])
        if self.before_page:
            self.before_page(start // PAGE + 1)
        if not self._is_let_in(request):
            return self._challenge("")
        end = min(start + PAGE, self.tools)
        more = {"next": str(end)} if end < self.tools else {}
        tools = [tool(number) for number in range(start + 1, end + 1)]
        return json_reply({"items": tools, "paging": {"pageLimit": PAGE, **more}})

    def _mcp(self, request: Request) -> Script:
        """Revision 2026-07-28: every request is independent."""
        if not self._is_let_in(request):
            return self._challenge("/mcp")
        if request.method != "POST":
            return json_reply({}, status=405)
        rpc_request = json.loads(request.body)
        result = {
            "resultType": "complete",
            "tools": [{"name": "forecast", "inputSchema": {"type": "object"}}],
        }
        return json_reply({"jsonrpc": "2.0", "id": rpc_request["id"], "result": result})

    def _is_let_in(self, request: Request) -> bool:
        return self.is_good(request.headers.get("authorization", "").removeprefix("Bearer "))

    def _challenge(self, path: str) -> Script:
        where = f"{self.url}/.well-known/oauth-protected-resource{path}"
        challenge = f'Bearer resource_metadata="{where}", scope="read"'
        return json_reply({}, status=401, headers={"WWW-Authenticate": challenge})

    def refuse_all(self) -> None:
        """The vendor takes none of the tokens that were given out until now."""
        self.not_taken |= self.access.keys()

    def metadata(self, **changed: Any) -> dict[str, Any]:
        """RFC 8414 section 2."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
            "scopes_supported": ["read", "write", "admin"],
            **changed,
        }

    def resource(self, **changed: Any) -> dict[str, Any]:
        """RFC 9728 section 2."""
        return {
            "resource": f"{self.url}/tools",
            "authorization_servers": [self.url],
            "scopes_supported": ["read", "write"],
            **changed,
        }


def scripted(document: Any, status: int = 200) -> Script:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return reply(body, status=status)
