"""A second address of a vendor, for members: the same tools below /members, with an access token.

The authorization server is as small as possible: RFC 6749 with PKCE (RFC 7636), with the metadata of RFC 8414
and RFC 9728. Tokens live for two minutes, so that one can watch their renewal. A refresh token is valid once;
if an old one is used again, the sign-in ends (RFC 9700, section 4.14.2). Clients on this machine may register
themselves (RFC 7591), and revoke their tokens (RFC 7009).
"""

import base64
import binascii
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode, urlsplit

from demo import page
from demo.web import HTML, Api, DemoRequest, Response, as_json

# No secret: it is shown on the vendor's page, for people who want to try.
CLIENT_ID, CLIENT_SECRET = "pegboard", "fair-weather-friends"
SCOPES = ("forecasts", "warnings")
PREFIX = "/members"
TOKEN_SECONDS = 120  # seconds
CODE_SECONDS = 60
ECHOED_METADATA = (
    "client_name",
    "redirect_uris",
    "grant_types",
    "response_types",
    "token_endpoint_auth_method",
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")

CONSENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · {name}</title>
<link rel="icon" href="data:,">
<style>
  :root {{ color-scheme: light dark; }}
  body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; }}
  a {{ margin-right: 1.5rem; }}
</style>
</head>
<body>
<h1>{name}</h1>
<p><strong>{host}</strong> would like to use the tools for members{wish}.</p>
<p><a href="{yes}">Allow</a> <a href="{no}">Refuse</a></p>
</body>
</html>
"""


class TokenError(Exception):
    def __init__(self, error: str, description: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(description)
        self.status = status
        self.document = {"error": error, "error_description": description}


@dataclass
class MemberSession:
    """All tokens of one consent. `current` is the only refresh token that still counts."""

    scope: str
    current: str = ""
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    redirect_uri: str
    challenge: str
    resource: str
    scope: str
    ends: float


@dataclass
class MemberArea:
    """A server in front of `behind`, for members. It forgets everything when it stops."""

    behind: Api
    codes: dict[str, Code] = field(default_factory=dict)
    refresh: dict[str, MemberSession] = field(default_factory=dict)
    access: dict[str, tuple[float, MemberSession | None]] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=lambda: {CLIENT_ID: CLIENT_SECRET})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.vendor = self.behind.vendor

    def answer(self, request: DemoRequest) -> Response:
        if request.path == PREFIX or request.path.startswith(f"{PREFIX}/"):
            return self._members(request)
        try:
            match request.method, request.path:
                case "GET", "/authorize":
                    return self._consent(request)
                case "POST", "/token":
                    return self._token(request)
                case "POST", "/register":
                    return self._register_client(request)
                case "POST", "/revoke":
                    token = self._form_of_a_client(request).get("token", "")
                    with self.lock:
                        _, sign_in = self.access.pop(token, (0.0, None))
                        for over in filter(None, (sign_in, self.refresh.get(token))):
                            over.is_over = True
                    return as_json({})
                case "GET", "/.well-known/oauth-authorization-server":
                    return as_json(_server(_base(request)))
                case "GET", "/.well-known/oauth-protected-resource/members":
                    base = _base(request)
                    return as_json(
                        {
                            "resource": f"{base}{PREFIX}",
                            "authorization_servers": [base],
                            "scopes_supported": list(SCOPES),
                            "resource_name": "The entrance for members",
                        }
                    )
        except TokenError as error:
            return as_json(error.document, error.status)
        return self.behind.answer(request)

    def _members(self, request: DemoRequest) -> Response:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        with self.lock:
            ends, sign_in = self.access.get(token, (0.0, None))
        if kind.lower() != "bearer" or ends < time.monotonic() or (sign_in and sign_in.is_over):
            where = f"{_base(request)}/.well-known/oauth-protected-resource{PREFIX}"
            challenge = f'Bearer resource_metadata="{where}", scope="{" ".join(SCOPES)}"'
            message = "Members come with an access token."
            answer = as_json({"code": "unauthorized", "message": message}, HTTPStatus.UNAUTHORIZED)
            return replace(answer, headers={"WWW-Authenticate": challenge})
        return self.behind.answer(replace(request, path=request.path.removeprefix(PREFIX) or "/"))

    def _consent(self, request: DemoRequest) -> Response:
        query = request.query
        back = query.get("redirect_uri", "")
        if query.get("client_id") not in self.clients or urlsplit(back).hostname not in LOOPBACK:
            raise TokenError("invalid_request", "Only a client on this machine may ask, by its right name.")
        if query.get("code_challenge_method") != "S256" or not query.get("code_challenge"):
            raise TokenError("invalid_request", "Sign-ins need PKCE with S256.")
        code = secrets.token_urlsafe(24)
        scope = " ".join(word for word in query.get("scope", "").split() if word in SCOPES)
        with self.lock:
            self.codes[code] = Code(
                back,
                query["code_challenge"],
                query.get("resource", ""),
                scope or " ".join(SCOPES),
                time.monotonic() + CODE_SECONDS,
            )
        shared = {"state": query.get("state", ""), "iss": _base(request)}
        text = CONSENT.format(
            name=escape(self.vendor.name),
            host=escape(urlsplit(back).netloc),
            wish=escape(f" ({scope})" if scope else ""),
            yes=escape(f"{back}?{urlencode({'code': code, **shared}, quote_via=quote)}"),
            no=escape(f"{back}?{urlencode({'error': 'access_denied', **shared}, quote_via=quote)}"),
        )
        return Response(HTTPStatus.OK, text.encode(), HTML, page.HEADERS)

    def _token(self, request: DemoRequest) -> Response:
        form = self._form_of_a_client(request)
        with self.lock:
            match form.get("grant_type"):
                case "client_credentials":
                    return self._issue_tokens(None, form.get("scope") or " ".join(SCOPES))
                case "authorization_code":
                    return self._redeem_code(form)
                case "refresh_token":
                    token = form.get("refresh_token", "")
                    sign_in = self.refresh.get(token)
                    # RFC 9700, section 4.14.2: a refresh token that comes again was stolen: its sign-in ends.
                    if sign_in and sign_in.current != token:
                        sign_in.is_over = True
                    if sign_in is None or sign_in.is_over:
                        raise TokenError("invalid_grant", "This sign-in is over.")
                    return self._issue_tokens(sign_in, sign_in.scope)
        raise TokenError("unsupported_grant_type", "This way of asking is not known here.")

    def _form_of_a_client(self, request: DemoRequest) -> Mapping[str, str]:
        form = dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))
        if _client(request.headers.get("authorization", ""), form) not in set(self.clients.items()):
            description = "The client id or the secret is wrong."
            raise TokenError("invalid_client", description, HTTPStatus.UNAUTHORIZED)
        return form

    def _register_client(self, request: DemoRequest) -> Response:
        """Any program on this machine gets a client of its own, which is forgotten when this stops."""
        try:
            metadata = json.loads(request.body)
            addresses = [urlsplit(str(address)) for address in metadata["redirect_uris"]]
        except (ValueError, TypeError, KeyError):
            raise TokenError("invalid_client_metadata", "Say where to come back to.") from None
        if not addresses or any(address.hostname not in LOOPBACK for address in addresses):
            raise TokenError("invalid_redirect_uri", "Only clients on this machine register here.")
        client = {"client_id": f"guest-{secrets.token_hex(4)}", "client_secret": secrets.token_urlsafe(24)}
        with self.lock:
            self.clients[client["client_id"]] = client["client_secret"]
        echoed = {name: metadata[name] for name in ECHOED_METADATA if name in metadata}
        return as_json(echoed | client | {"client_secret_expires_at": 0}, HTTPStatus.CREATED)

    def _redeem_code(self, form: Mapping[str, str]) -> Response:
        code = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        answer = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if code is None or code.ends < time.monotonic() or code.challenge != answer:
            raise TokenError("invalid_grant", "The code is over, or belongs to another client.")
        if (code.redirect_uri, code.resource) != (form.get("redirect_uri"), form.get("resource", "")):
            raise TokenError("invalid_grant", "The code was given for another address.")
        sign_in = MemberSession(code.scope)
        return self._issue_tokens(sign_in, sign_in.scope)

    def _issue_tokens(self, sign_in: MemberSession | None, scope: str) -> Response:
        access = secrets.token_urlsafe(24)
        now = time.monotonic()
        # Access tokens that have ended are forgotten here, so that they do not pile up.
        self.access = {token: entry for token, entry in self.access.items() if entry[0] > now}
        self.access[access] = now + TOKEN_SECONDS, sign_in
        document = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "scope": scope,
        }
        if sign_in:
            document["refresh_token"] = sign_in.current = secrets.token_urlsafe(24)
            self.refresh[sign_in.current] = sign_in
        return replace(as_json(document), headers={"Cache-Control": "no-store"})


def _base(request: DemoRequest) -> str:
    return f"http://{request.headers.get('host', '127.0.0.1')}"


def _client(authorization: str, form: Mapping[str, str]) -> tuple[str, ...]:
    """Return the id and the secret of the client, sent in either way of RFC 6749, section 2.3.1."""
    if not authorization:
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        pair = base64.b64decode(authorization.partition(" ")[2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ()
    return tuple(unquote_plus(part) for part in pair.split(":", 1))


def _server(base: str) -> dict[str, object]:
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "revocation_endpoint": f"{base}/revoke",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "authorization_response_iss_parameter_supported": True,
        "scopes_supported": list(SCOPES),
    }
