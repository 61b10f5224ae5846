"""An OpenID provider on loopback that answers honestly unless a test changes it.

with IdentityProvider() as idp:
    answer = idp.authorize(location)   # what the person's browser would bring back
"""

import base64
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT, SECRET = "pegboard", "a-client-secret+with/odd=characters"
PROGRAM = "a-client-of-mcp"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)
FOREIGN_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, kid: str, **members: str) -> dict[str, Any]:
    kind = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **members}


class IdentityProvider:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.secret = SECRET
        self.claims: dict[str, Any] = {"sub": "ada-1", "preferred_username": "ada", "name": "Ada Berger"}
        self.keys = [jwk(RSA_KEY, "r1"), jwk(EC_KEY, "e1")]
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.metadata: dict[str, Any] = {}
        # Status, content type and body of a good token reply, made of its members.
        self.token_frame: Callable[[dict[str, Any]], tuple[int, str, bytes]] | None = None
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.issuer = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def signed(
        self,
        claims: dict[str, Any],
        *,
        key: Any = RSA_KEY,
        alg: str = "RS256",
        kid: str | None = "r1",
        **header,
    ) -> str:
        key_header = {"kid": kid} if kid else {}
        return jwt.encode(claims, key, algorithm=alg, headers={**key_header, **header})

    def authorize(self, location: str) -> dict[str, str]:
        """The person agrees; answers with the query that the browser brings back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def authorize_client(self, path: str) -> str:
        """The same for a program that registered itself; where the browser is sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        assert (query["client_id"], query["code_challenge_method"]) == (PROGRAM, "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.issuer}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def access_token(self, audience: object, **changed: Any) -> str:
        """Return a token of RFC 9068, changed by claims and by the arguments of `signed`; None leaves a
        claim out.
        """
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": "ada-1", "aud": audience, "iat": now, "exp": now + 300}
        claims |= {"client_id": PROGRAM, "jti": f"{now}", "scope": "openid"}
        how = {name: changed.pop(name) for name in ("key", "alg", "kid", "typ") if name in changed}
        claims = {name: value for name, value in (claims | changed).items() if value is not None}
        return self.signed(claims, **{"typ": "at+jwt"} | how)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                if self.path == "/.well-known/openid-configuration":
                    self._answer(200, provider._metadata_document())
                elif self.path.startswith("/authorize?"):
                    self._redirect(provider.authorize_client(self.path))
                else:
                    self._answer(200, {"keys": provider.keys})

            def do_POST(self) -> None:
                provider.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if self.path == "/register":
                    self._answer(201, json.loads(body) | {"client_id": PROGRAM})
                    return
                form = {name: values[0] for name, values in parse_qs(body).items()}
                status, document = provider._token(form, self.headers.get("Authorization", ""))
                self._send(*provider._framed(status, document))

            def _redirect(self, where: str) -> None:
                self.send_response(302)
                self.send_header("Location", where)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _answer(self, status: int, document: object) -> None:
                self._send(status, "application/json", json.dumps(document).encode())

            def _send(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _framed(self, status: int, document: dict[str, Any]) -> tuple[int, str, bytes]:
        if status == 200 and self.token_frame:
            return self.token_frame(document)
        return status, "application/json", json.dumps(document).encode()

    def _metadata_document(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/logout",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        } | self.metadata

    def _token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        pair = urlencode({"": CLIENT})[1:] + ":" + urlencode({"": self.secret})[1:]
        proof = f"Basic {base64.b64encode(pair.encode()).decode()}"
        posted = (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)
        is_program = form.get("client_id") == PROGRAM and not authorization
        if authorization != proof and not posted and not is_program:
            return 401, {"error": "invalid_client"}
        authorization_request = self._codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            authorization_request is None
            or authorization_request["redirect_uri"] != form.get("redirect_uri")
            or base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
            != authorization_request["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        if is_program:
            assert form["resource"] == authorization_request["resource"]
            token = self.access_token(authorization_request["resource"])
            return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 300}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": authorization_request["nonce"],
        }
        token = self.sign({**claims, **self.claims})
        return 200, {"access_token": "unused", "token_type": "Bearer", "id_token": token}
