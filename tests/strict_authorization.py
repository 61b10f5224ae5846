"""A second authorization server, written from the RFCs alone and as strict as they let it be.

    with StrictServer(method="client_secret_post") as server: ...

It shares nothing with tests/authorization_server.py, so that requests that both accept follow the RFCs and
not one server's habit. Each broken rule is listed in `faults`, with its section. Settings of a test
are in the fields; the process is the protected resource as well, under /mcp and /tools.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from tests.vendor import tool

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
CODE_LIFE = 60.0
UNRESERVED = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class RefusalError(Exception):
    """RFC 6749 section 5.2, or RFC 7591 section 3.2.2."""

    def __init__(self, error: str, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.error, self.why, self.status = error, reason, status


@dataclass
class Family:
    """All tokens of one consent; RFC 9700 section 4.14.2."""

    client: str
    scope: list[str]
    resource: str
    is_over: bool = False


@dataclass
class Client:
    secret: str | None
    method: str
    redirect_uris: list[str]


@dataclass
class StrictServer:
    method: str = "client_secret_basic"
    secret: str | None = "s3cret+%: &=/?~client"
    client_id: str = "client:with%odd+chars"
    redirect_uri: str = ""
    life: Any = 3600  # the value in the reply; None: left out
    counts: float = 3600.0  # seconds that a token is really good for
    token_type: str = "bearer"
    scopes: tuple[str, ...] = ("read", "write", "offline_access")
    granted: tuple[str, ...] | None = None
    names_scope: bool = True
    rotates: bool = True
    says_issuer: bool = True
    delay: float = 0.0
    registers: bool = True
    revokes: bool = True
    path: str = ""  # of the issuer
    described_at: str = "/.well-known/oauth-protected-resource/mcp"
    posts_only: bool = False  # /mcp answers GET with 405 before it looks at tokens, as MCP servers may
    first_scope: str = "read write"  # of the challenge that meets a stranger
    needs: dict[str, str] = field(default_factory=dict)  # scopes by the method of MCP
    faults: list[str] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._codes: dict[str, dict[str, Any]] = {}
        self._spent: dict[str, Family] = {}
        self._refresh: dict[str, Family] = {}
        self._old: dict[str, Family] = {}
        self.client_scope: list[str] = []  # of the last token that a client got for itself
        self._access: dict[str, tuple[float, str, Family | None]] = {}
        self._lock = threading.RLock()
        self.calls: list[tuple[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._serve(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.issuer = self.url + self.path
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        if self.client_id:
            self.clients[self.client_id] = Client(
                self.secret if self.method != "none" else None, self.method, [self.redirect_uri]
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    # Requests of the browser.

    def visit(self, address: str) -> dict[str, list[str]]:
        """The person agrees; what comes back with the browser. Raises RefusalError for what stays there."""
        query = self._once(urlsplit(address).query)
        client = self.clients.get(query.get("client_id", ""))
        if client is None:
            raise RefusalError("invalid_client", "RFC 6749 4.1.2.1: unknown client")
        if query.get("redirect_uri") not in client.redirect_uris:
            raise RefusalError(
                "invalid_request", f"RFC 9700 4.1.3: {query.get('redirect_uri')} is not registered"
            )
        try:
            back = {"code": self._code(query, client)}
        except RefusalError as refusal:
            self.faults.append(str(refusal))
            back = {"error": refusal.error, "error_description": refusal.why}
        if "state" in query:
            back["state"] = query["state"]
        if self.says_issuer:
            back["iss"] = self.issuer
        return {name: [text] for name, text in back.items()}

    def _code(self, query: dict[str, str], client: Client) -> str:
        if query.get("response_type") != "code":
            raise RefusalError("unsupported_response_type", "RFC 6749 4.1.1")
        if query.get("code_challenge_method") != "S256":
            raise RefusalError("invalid_request", "RFC 7636 4.4.1: S256 is required")
        challenge = query.get("code_challenge", "")
        if len(challenge) != 43 or not set(challenge) <= UNRESERVED - {".", "~"}:
            raise RefusalError("invalid_request", "RFC 7636 4.2: no challenge")
        if query.get("resource") != self.resource:
            raise RefusalError("invalid_target", f"RFC 8707 2.1: {query.get('resource')} is not served here")
        if len(query.get("state", "")) < 16:
            raise RefusalError("invalid_request", "RFC 9700 4.7: a state that can be guessed")
        if client.secret and query.keys() & {"client_secret", "code_verifier"}:
            raise RefusalError("invalid_request", "a secret went through the browser")
        code = secrets.token_urlsafe(24)
        self._codes[code] = query | {"ends": time.monotonic() + CODE_LIFE}
        return code

    # Requests of programs.

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.calls.append((handler.command, parts.path))
        try:
            status, document, headers = self._routed(handler, parts.path, body)
        except RefusalError as refusal:
            self.faults.append(f"{parts.path}: {refusal}")
            document = {"error": refusal.error, "error_description": refusal.why}
            status, headers = refusal.status, dict(NO_STORE)
            if status == 401:  # RFC 6749 section 5.2
                headers["WWW-Authenticate"] = 'Basic realm="clients", charset="UTF-8"'
        content = b"" if document is None else json.dumps(document).encode()
        handler.send_response(status)
        if document is not None:
            handler.send_header("Content-Type", "application/json;charset=UTF-8")
        handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _routed(
        self, handler: BaseHTTPRequestHandler, path: str, body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        if path.startswith("/.well-known/") or path == self.described_at:
            return self._described(path)
        if path == "/mcp" or path.startswith("/tools"):
            return self._resource(handler, path, body)
        if path == "/authorize":
            back = self.visit(handler.path)
            to = self._once(urlsplit(handler.path).query)["redirect_uri"]
            return 302, None, {"Location": f"{to}?{urlencode(back, doseq=True)}"}
        if handler.command != "POST":
            raise RefusalError("invalid_request", "RFC 6749 3.2: only POST", 405)
        time.sleep(self.delay)
        with self._lock:
            match path:
                case "/token":
                    return 200, self._token(handler, body), dict(NO_STORE)
                case "/revoke" if self.revokes:
                    self._revoke(handler, body)
                    return 200, None, {}
                case "/register" if self.registers:
                    return 201, self._register(handler, body), dict(NO_STORE)
        return 404, {"message": "no such path"}, {}

    def _described(self, path: str) -> tuple[int, Any, dict[str, str]]:
        if path == self.described_at:
            return 200, {"resource": self.resource, "authorization_servers": [self.issuer]}, {}
        if path != f"/.well-known/oauth-authorization-server{self.path}":
            return 404, {}, {}
        document: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [self.method],
            "scopes_supported": list(self.scopes),
            "authorization_response_iss_parameter_supported": self.says_issuer,
        }
        if self.registers:
            document["registration_endpoint"] = f"{self.url}/register"
        if self.revokes:
            document["revocation_endpoint"] = f"{self.url}/revoke"
        return 200, document, {"Cache-Control": "max-age=60"}

    def _once(self, text: str) -> dict[str, str]:
        """RFC 6749 section 3.1: no parameter twice, and none without a value."""
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True)
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise RefusalError("invalid_request", "RFC 6749 3.1: a parameter came twice")
        return dict(pairs)

    def _form(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[dict[str, str], str]:
        """The fields, and the id of the client that has proved itself: RFC 6749 section 2.3.1."""
        if handler.headers.get("Content-Type", "").partition(";")[0] != "application/x-www-form-urlencoded":
            raise RefusalError("invalid_request", "RFC 6749 appendix B: not a form")
        form = self._once(body.decode("ascii"))
        authorization = handler.headers.get("Authorization", "")
        if authorization and form.keys() & {"client_secret"}:
            raise RefusalError("invalid_request", "RFC 6749 2.3: two ways to authenticate at once")
        if authorization:
            kind, _, encoded = authorization.partition(" ")
            if kind.lower() != "basic":
                raise RefusalError("invalid_client", "RFC 6749 2.3.1", 401)
            name, _, word = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
            name, word, way = unquote_plus(name), unquote_plus(word), "client_secret_basic"
            if form.get("client_id", name) != name:
                raise RefusalError("invalid_request", "two clients at once")
        else:
            name, word = form.get("client_id", ""), form.get("client_secret")
            way = "none" if word is None else "client_secret_post"
        client = self.clients.get(name)
        if client is None or client.method != way or client.secret != word:
            raise RefusalError("invalid_client", f"{name!r} came by {way}", 401)
        return form, name

    def _token(self, handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        form, client = self._form(handler, body)
        match form.get("grant_type"):
            case "authorization_code":
                return self._redeem(form, client)
            case "refresh_token":
                return self._renew(form, client)
            case "client_credentials":
                if self.clients[client].method == "none":
                    raise RefusalError("unauthorized_client", "RFC 6749 4.4: confidential clients only")
                self.client_scope = form.get("scope", "").split()
                return self._issue(None, self.client_scope, form.get("resource", ""))
        raise RefusalError("unsupported_grant_type", str(form.get("grant_type")))

    def _redeem(self, form: dict[str, str], client: str) -> dict[str, Any]:
        code = form.get("code", "")
        if family := self._spent.get(code):  # RFC 6749 section 4.1.2
            family.is_over = True
            raise RefusalError("invalid_grant", "RFC 6749 4.1.2: the code was used before")
        grant = self._codes.pop(code, None)
        if grant is None or grant["ends"] < time.monotonic() or grant["client_id"] != client:
            raise RefusalError("invalid_grant", "no such code")
        if grant["redirect_uri"] != form.get("redirect_uri"):
            raise RefusalError("invalid_grant", "RFC 6749 4.1.3: another redirect_uri")
        verifier = form.get("code_verifier", "")
        if not 43 <= len(verifier) <= 128 or not set(verifier) <= UNRESERVED:
            raise RefusalError("invalid_grant", "RFC 7636 4.1: no verifier")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if digest != grant["code_challenge"]:
            raise RefusalError("invalid_grant", "RFC 7636 4.6: another verifier")
        if form.get("resource") != grant["resource"]:
            raise RefusalError("invalid_target", "RFC 8707 2.2: another resource than was agreed to")
        scopes_requested = grant.get("scope", "").split()
        allowed = self.scopes if self.granted is None else self.granted
        family = Family(client, [scope for scope in scopes_requested if scope in allowed], grant["resource"])
        self._spent[code] = family
        return self._issue(family, family.scope, family.resource)

    def _renew(self, form: dict[str, str], client: str) -> dict[str, Any]:
        token = form.get("refresh_token", "")
        if old := self._old.get(token):
            old.is_over = True
            raise RefusalError("invalid_grant", "RFC 9700 4.14.2: a refresh token came twice")
        family = self._refresh.get(token)
        if family is None or family.is_over or family.client != client:
            raise RefusalError("invalid_grant", "no such refresh token")
        if form.get("resource", family.resource) != family.resource:
            raise RefusalError("invalid_target", "RFC 8707 2.2")
        if not set(form.get("scope", "").split()) <= set(family.scope):
            raise RefusalError("invalid_scope", "RFC 6749 6: more than was agreed to")
        if self.rotates:
            self._old[token] = self._refresh.pop(token)
        return self._issue(family, family.scope, family.resource)

    def _issue(self, family: Family | None, scope: list[str], resource: str) -> dict[str, Any]:
        access = secrets.token_urlsafe(24)
        self._access[access] = (time.monotonic() + self.counts, resource, family)
        document: dict[str, Any] = {"access_token": access, "token_type": self.token_type}
        if self.life is not None:
            document["expires_in"] = self.life
        if self.names_scope:
            document["scope"] = " ".join(scope)
        if family and (self.rotates or not any(other is family for other in self._refresh.values())):
            refresh = secrets.token_urlsafe(24)
            self._refresh[refresh] = family
            document["refresh_token"] = refresh
        return document

    def _revoke(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """RFC 7009 section 2.1: a token that is not known is no error."""
        form, client = self._form(handler, body)
        token = form.get("token")
        if not token:
            raise RefusalError("invalid_request", "RFC 7009 2.1: no token")
        _, _, family = self._access.get(token, (0.0, "", None))
        family = self._refresh.get(token) or family
        if family and family.client != client:
            raise RefusalError("invalid_client", "RFC 7009 2.1: somebody else's token", 401)
        if family:
            family.is_over = True
            self.revoked.append(form.get("token_type_hint", ""))

    def _register(self, handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        """RFC 7591 section 3.1, for clients that sign in."""
        if handler.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            raise RefusalError("invalid_client_metadata", "RFC 7591 3.1: not JSON")
        registration_request = json.loads(body)
        addresses = registration_request.get("redirect_uris")
        if not addresses or any(urlsplit(address).fragment for address in addresses):
            raise RefusalError("invalid_redirect_uri", "RFC 7591 2")
        if registration_request.get("token_endpoint_auth_method", "client_secret_basic") != self.method:
            raise RefusalError("invalid_client_metadata", f"only {self.method} here")
        if "code" not in registration_request.get("response_types", ["code"]):
            raise RefusalError("invalid_client_metadata", "RFC 7591 2.1: response types and grants differ")
        name, word = secrets.token_urlsafe(12), secrets.token_urlsafe(24)
        self.clients[name] = Client(None if self.method == "none" else word, self.method, addresses)
        document = registration_request | {"client_id": name, "client_id_issued_at": int(time.time())}
        document |= {"registration_access_token": secrets.token_urlsafe(24)}
        document |= {"registration_client_uri": f"{self.url}/register/{name}"}
        if self.method != "none":
            document |= {"client_secret": word, "client_secret_expires_at": 0}
        return document

    def _resource(
        self, handler: BaseHTTPRequestHandler, path: str, body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        """RFC 6750 and 9728: tokens for another audience are none."""
        kind, _, token = handler.headers.get("Authorization", "").partition(" ")
        ends, resource, family = self._access.get(token, (0.0, "", None))
        where = f'resource_metadata="{self.url}{self.described_at}"'
        if self.posts_only and handler.command != "POST":
            return 405, {}, {"Allow": "POST"}
        if not token:
            return 401, {}, {"WWW-Authenticate": f'Bearer realm="mcp", {where}, scope="{self.first_scope}"'}
        is_good = ends > time.monotonic() and not (family and family.is_over) and resource == self.resource
        if kind != "Bearer" or not is_good:
            return 401, {}, {"WWW-Authenticate": f'Bearer error="invalid_token", {where}'}
        if path.startswith("/tools"):
            return 200, {"items": [tool(1)], "paging": {"pageLimit": 30}}, {}
        rpc_request = json.loads(body)
        needed = self.needs.get(rpc_request["method"], "")
        if not set(needed.split()) <= set(family.scope if family else self.client_scope):
            wants = f'Bearer error="insufficient_scope", scope="{needed}", {where}'
            return 403, {"error": "insufficient_scope"}, {"WWW-Authenticate": wants}
        result: dict[str, Any] = {
            "resultType": "complete",
            "tools": [{"name": "forecast", "inputSchema": {"type": "object"}}],
        }
        if rpc_request["method"] == "tools/call":
            result = {"resultType": "complete", "content": [{"type": "text", "text": "fair"}]}
        return 200, {"jsonrpc": "2.0", "id": rpc_request["id"], "result": result}, {}
