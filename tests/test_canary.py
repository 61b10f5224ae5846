"""K1: secrets are planted everywhere, everything is done and goes wrong, and no output holds one.

Searched are the text of every table, what pg_dump writes, every key of the broker, every log line down to
DEBUG, every page and reply of REST, exports, dumpdata, mails and reports of unexpected errors; each for every
secret as it is, in base64 at any place, in an address, in JSON, in HTML, in hex and reversed.
"""

import html
import io
import json
import logging
import re
import secrets
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote, quote_plus, urlsplit

import pytest
from django.conf import LazySettings
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils.log import AdminEmailHandler
from rest_framework.test import APIClient

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.enumeration import listing
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Credential, Endpoint, Grant, Run, Tool, UserGrant, Vendor
from catalog.models.calls import ACTIVE_CALLS
from catalog.models.runs import Trigger
from catalog.notifications import callbacks, webhooks
from catalog.notifications.models import Callback, Webhook
from core import redis_client
from core.errors import DomainError
from core.outbound import secret_echo
from core.outbound.limits import DEFAULT_LIMITS
from designer.agents import access_tokens
from designer.exports import FORMATS
from designer.models import Agent
from designer.rehearsals import outside, plans, sentences
from designer.releases import publishing, rehearsed
from execution.calls import invocation, requesting
from pegboard.ops import backups, logs
from people.models import Identity, Role, User
from people.sso import provider
from protocols.signature import Requirements
from tests import vendor as vendors
from tests.acp_runs import Runs
from tests.authorization_server import AuthorizationServer, scripted
from tests.catalog.credentials.oauth.cases import wear_out
from tests.factories import make_agent, make_endpoint, make_pin, make_signature, make_tool
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, json_reply, raw, reply
from tests.identity_provider import CLIENT, FOREIGN_KEY, RSA_KEY, IdentityProvider
from tests.test_roles import routes

pytestmark = pytest.mark.django_db(transaction=True)

# Not one of them is in a line of code, which reports may quote.
SPECIAL = "+/=é %"
API = "/api/v1"


class Planted:
    """Secrets by what they are for, and everything that was put out."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.outputs: dict[str, bytes] = {}
        self.log = io.StringIO()

    def new(self, name: str, special: str = "") -> str:
        self.secrets[name] = f"Kn4ry{secrets.token_hex(6)}{special}{secrets.token_hex(4)}"
        return self.secrets[name]

    def put_out(self, name: str, content: str | bytes) -> None:
        output = content.encode() if isinstance(content, str) else content
        self.outputs[f"{len(self.outputs)} {name}"] = output

    def hits(self) -> list[tuple[str, str, str]]:
        """Return the secrets in these texts, each with its place and form."""
        return [
            (name, output, form)
            for name, secret in self.secrets.items()
            for form, text in forms_of(secret)
            for output, content in self.outputs.items()
            if text in content
        ]


def forms_of(secret: str) -> Iterator[tuple[str, bytes]]:
    raw_bytes = secret.encode()
    yield "raw", raw_bytes
    yield "latin-1", secret.encode("latin-1")
    yield "in an address", quote(secret, safe="").encode()
    yield "in a form", quote_plus(secret).encode()
    yield "in JSON", json.dumps(secret)[1:-1].encode()
    yield "in HTML", html.escape(secret).encode()
    yield "hex", raw_bytes.hex().encode()
    yield "hex in capitals", raw_bytes.hex().upper().encode()
    yield "reversed", secret[::-1].encode()
    for before in range(3):
        # Leave out the characters that base64 shares with its neighbours.
        encoded = b64encode(b"\0" * before + raw_bytes)
        core = encoded[4 if before else 0 : len(encoded) - 4]
        yield f"base64 {before}", core
        yield f"base64url {before}", core.translate(bytes.maketrans(b"+/", b"-_"))


@pytest.fixture
def planted():
    """Listens to all loggers, in both forms that the product writes."""
    planted = Planted()
    root, handlers = logging.getLogger(), []
    for formatter in (logs.LineFormatter(), logs.JsonFormatter()):
        handler = logging.StreamHandler(planted.log)
        handler.setFormatter(formatter)
        handlers.append(handler)
    level = root.level
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield planted
    root.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


@pytest.fixture
def mailed_reports(settings):
    """Return the reports that Django mails, as in a deployment, with every variable."""
    settings.ADMINS = [("Ops", "ops@example.com")]
    handler = AdminEmailHandler(include_html=True)
    handler.setLevel(logging.ERROR)
    logger = logging.getLogger("django.request")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


def echoing(line, request) -> bool:
    """A vendor that repeats its whole request: in the status line, in headers, and everywhere in its JSON."""
    received = " | ".join([request.target, *request.headers.values(), request.body.decode(errors="replace")])
    tool = vendors.tool(1) | {"description": received, "name": "echo", "tags": [received[:50]]}
    body = {
        "items": [tool],
        "error": received,
        "message": received,
        "output_parameters": [{"value": received}],
    }
    header = received.encode("ascii", "ignore").decode()[:2000]
    status = {"/500": 500, "/401": 401, "/400": 400}.get(request.path[-4:], 200)
    return reply(json.dumps(body).encode(), status=status, headers={"X-Heard": header})(line, request)


def shouting(line, request) -> bool:
    """The same, as an error of a type that no client reads as JSON."""
    received = " ".join(request.headers.values()) + request.target
    head = (
        f"HTTP/1.1 500 {received[:300]}\r\nLocation: /?{received[:300]}\r\nContent-Type: text/plain\r\n\r\n"
    )
    return raw(head.encode("latin-1", "ignore") + received.encode())(line, request)


KINDS = {
    "bearer": {},
    "header": {"header": "X-Api-Key"},
    "query": {"parameter": "api_key"},
    "basic": {"username": "ada"},
    "jwt": {"issuer": "pegboard"},
}


def sign_in(planted: Planted) -> tuple[Client, APIClient]:
    """Through the page, rightly and wrongly; passwords are changed, keys made and used."""
    password = planted.new("password", SPECIAL)
    admin = User.objects.create_user("root-admin", password, role=Role.ADMIN)
    pages, api = Client(raise_request_exception=False), APIClient(raise_request_exception=False)
    wrong = planted.new("wrong password", SPECIAL)
    answer = pages.post(reverse("login"), {"username": "root-admin", "password": wrong})
    planted.put_out("login refused", answer.content)
    pages.post(reverse("login"), {"username": wrong, "password": password})
    answer = pages.post(reverse("login"), {"username": "root-admin", "password": password})
    assert answer.status_code == 302
    new = planted.new("new password", SPECIAL)
    form = {"old": password, "new": new, "new_again": new, "password": new, "again": new}
    planted.put_out("password", pages.post(reverse("password-change"), form | {"old": wrong}).content)
    planted.put_out("password", pages.post(reverse("password-change"), form).content)
    admin.refresh_from_db()
    api.force_login(admin)
    other = {"username": "other", "password": planted.new("password of another", SPECIAL)}
    planted.put_out("user", api.post(f"{API}/users/", other).content)
    planted.put_out("user", api.post(f"{API}/users/", other).content)  # there is one by now
    planted.put_out("user", pages.post(reverse("user-new"), other | {"role": "nobody"}).content)
    response = api.post(f"{API}/keys/", {"name": "CI", "scopes": ["read"]})
    assert response.status_code == 201, response.content
    key = next(value for value in response.json().values() if isinstance(value, str) and len(value) > 30)
    planted.secrets["API key"] = key
    for authorization in (f"Bearer {key}", f"Bearer {key}x", f"Token {key}", f"Basic {key}"):
        caller = Client(raise_request_exception=False)
        for path in ("/tools/", "/vendors/", "/nothing/", "/tools/?cursor=%00"):
            answer = caller.get(API + path, headers={"Authorization": authorization})
            planted.put_out(f"key {path}", answer.content)
    return pages, api


def sign_on(idp: IdentityProvider, default_role: str) -> dict[str, object]:
    return {
        "issuer": idp.issuer,
        "client_id": CLIENT,
        "client_secret": idp.secret,
        "name": "Example ID",
        "scopes": "openid profile email",
        "roles_claim": "",
        "roles": {},
        "default_role": default_role,
        "domains": [],
    }


def sign_in_elsewhere(planted: Planted, settings: LazySettings) -> None:
    """Single sign-on: once well, then with a forged token, then with a reply that repeats the request."""
    with IdentityProvider() as idp:
        idp.secret = planted.new("single sign-on secret", "/+= %:")
        settings.OIDC = sign_on(idp, "viewer")

        def signed(key: object, name: str) -> Callable[[dict[str, object]], str]:
            def sign(claims: dict[str, object]) -> str:
                planted.secrets[name] = idp.signed(claims | {"name": "Kn4ry " + name}, key=key)
                return planted.secrets[name]

            return sign

        def telling(form: dict[str, str], authorization: str) -> tuple[int, dict[str, str]]:
            received = f"{authorization} {form}"
            planted.secrets |= {"verifier": form["code_verifier"], "code": form["code"]}
            return 400, {
                "error": received,
                "error_description": received,
                "error_uri": f"https://x.example/?{received}",
            }

        honest = idp._token
        for name, key, answer in (
            ("id token", RSA_KEY, honest),
            ("forged id token", FOREIGN_KEY, honest),
            ("code", RSA_KEY, telling),
        ):
            browser = Client(raise_request_exception=False)
            idp.sign, idp._token = signed(key, name), answer
            back = idp.authorize(browser.get("/accounts/single-sign-on/").headers["Location"])
            back["code"] = planted.new("code of " + name)
            idp._codes[back["code"]] = idp._codes.popitem()[1]
            done = browser.get("/accounts/single-sign-on/done/", back)
            assert (done.status_code == 302) == (name == "id token")
            planted.put_out(f"single sign-on: {name}", done.content)
            planted.put_out("sessions", str(browser.session.items()) if name == "id token" else "")
    provider.clear_cache()
    settings.OIDC = None


def add_credentials(planted: Planted, api: APIClient, pages: Client, url: str) -> list[Credential]:
    """Add credentials of every simple kind, also refused ones, over REST and by a form."""
    for kind, details in KINDS.items():
        secret = planted.new(f"secret of {kind}", "" if kind in ("header", "bearer") else "/+=")
        payload = {"name": f"Key {kind}", "kind": kind, "url": url, "secret": secret, **details}
        planted.put_out("refused", api.post(f"{API}/credentials/", payload | {"url": "nope"}).content)
        planted.put_out("refused", pages.post("/credentials/new/", payload | {"kind": "nope"}).content)
        response = api.post(f"{API}/credentials/", payload)
        assert response.status_code == 201, response.content
        planted.put_out("credential", response.content)
        key = planted.new(f"key in an address of {kind}")
        for query in (f"?view=1&api_key={key}", f"?profile=sk-live-{key}", f"?access%5Ftoken={key}"):
            kept_payload = {"kind": "bearer", "name": "Kept", "secret": secret, "url": f"{url}/{query}"}
            with_key = {
                "protocol": "a2t",
                "url": f"{url}/{query}",
                "vendor_name": "X",
                "interval_minutes": 60,
            }
            for answer in (
                api.post(f"{API}/credentials/", kept_payload),
                pages.post("/credentials/new/", kept_payload),
                api.post(f"{API}/endpoints/preview/", {"protocol": "a2t", "url": f"{url}/{query}"}),
                pages.post(reverse("endpoint-new"), with_key),
                pages.post(reverse("endpoint-preview"), with_key),
            ):
                assert answer.status_code in (200, 400), answer.content
                planted.put_out("key in an address", answer.content)
        assert not Endpoint.objects.filter(url__contains="?").exists()
        later = planted.new(f"later secret of {kind}")
        answer = api.put(f"{API}/credentials/{response.json()['id']}/", {"secret": later})
        assert answer.status_code == 200, answer.content
        planted.put_out("replaced", answer.content)
    return list(Credential.objects.order_by("name"))


def perform(endpoint: Endpoint) -> str:
    fresh = Endpoint.objects.select_related("vendor", "credential").get(pk=endpoint.pk)
    run = enumeration_runs.perform(enumeration_runs.request_run(fresh, trigger=Trigger.COMMAND).pk)
    return run.error_code or run.status


def try_out(endpoint: Endpoint, user: User) -> None:
    tool = make_tool(endpoint=endpoint)
    call = requesting.request_call(tool.current, actor=user, arguments={"city": "Oslo"})
    invocation.perform_due_calls()
    call.refresh_from_db()
    assert call.outcome
    assert call.error_code != "INTERNAL"


def read_echoes(planted: Planted, api: APIClient, rows: list[Credential], vendor: HostileVendor) -> list[str]:
    """Every kind of credential meets vendors that send it back, and some that break off."""
    user, codes = User.objects.get(username="root-admin"), []
    moods = {"200": echoing, "shouts": shouting, **{name: BEHAVIOURS[name] for name in SOME_BEHAVIOURS}}
    for row in rows:
        for mood, script in moods.items():
            vendor.script = script
            endpoint = make_endpoint(url=f"{vendor.url}/{row.kind}/{mood[:3]}", credential=row)
            codes.append(perform(endpoint))
            payload = {"protocol": "a2t", "url": endpoint.url, "credential": str(row.pk)}
            if mood in ("200", "shouts"):
                planted.put_out("preview", api.post(f"{API}/endpoints/preview/", payload).content)
                try_out(endpoint, user)
        elsewhere = make_endpoint(url="http://127.0.0.77:9/", credential=row)
        codes.append(perform(elsewhere))
    return codes


SOME_BEHAVIOURS = ("closes in mid-body", "closes without a reply")


def preview_drafts(planted: Planted, pages: Client, vendor: HostileVendor) -> None:
    """A secret that is never saved."""
    vendor.script = echoing
    secret = planted.new("secret of a draft", "/+=")
    form = {"protocol": "a2t", "url": vendor.url, "credential": "new", "kind": "bearer", "secret": secret}
    form |= {"vendor_name": "Draft", "interval_minutes": 60}
    planted.put_out("draft", pages.post(reverse("endpoint-preview"), form).content)
    planted.put_out("draft", pages.post(reverse("endpoint-new"), form | {"url": "nope"}).content)


def sign_in_at_a_vendor(planted: Planted, api: APIClient, pages: Client) -> None:
    """OAuth, both ways; the server's replies contain secrets, and so do its errors."""
    with AuthorizationServer() as server:
        server.client_secret = planted.new("client secret", "/+ %:")
        access = [planted.new(f"access token {n}", "-._~") for n in range(3)]
        refresh = [planted.new(f"refresh token {n}", "-._~") for n in range(2)]
        token_reply = {"token_type": "Bearer", "expires_in": 3600}
        refused = {"error": "invalid_client", "error_description": f"we got {server.client_secret}"}
        client = {"kind": "oauth_client", "url": f"{server.url}/", "secret": server.client_secret}
        response = api.post(f"{API}/credentials/", client | {"name": "Machine", "client": server.settings()})
        assert response.status_code == 201, response.content
        planted.put_out("client", response.content)
        machine = make_endpoint(url=f"{server.url}/", credential_id=response.json()["id"])
        server.scripts = [scripted(refused, 401)]
        perform(machine)
        Grant.objects.update(refused_at=None, retry_at=None, error_code="", failures=0)
        server.scripts = [scripted(token_reply | {"access_token": access[0]})]
        server.documents["/tools"] = echoing
        perform(machine)
        assert Grant.objects.exclude(access_token="").exists()

        response = api.post(
            f"{API}/credentials/",
            client | {"name": "Person", "kind": "oauth_code", "client": server.settings()},
        )
        row = Credential.objects.get(pk=response.json()["id"])
        page = pages.post(f"/credentials/{row.pk}/sign-in/").content.decode()
        address = html.unescape(page.partition('content="0; url=')[2].partition('"')[0])
        back = {name: values[0] for name, values in server.visit(address).items()}
        planted.secrets["state"] = back["state"]
        server.scripts = [scripted(token_reply | {"access_token": access[1], "refresh_token": refresh[0]})]
        wrong = pages.get(reverse("credential-callback"), back | {"state": back["state"] + "x"}, follow=True)
        planted.put_out("forged", wrong.content.replace(back["state"].encode() + b"x", b""))
        planted.put_out("callback", pages.get(reverse("credential-callback"), back, follow=True).content)
        endpoint = make_endpoint(url=f"{server.url}/", credential=row)
        perform(endpoint)
        wear_out(row)
        server.scripts = [scripted(token_reply | {"access_token": access[2], "refresh_token": refresh[1]})]
        perform(endpoint)
        try_out(endpoint, User.objects.get(username="root-admin"))
        assert refresh[1] not in str(list(Grant.objects.values()))
        Grant.objects.filter(credential=row).update(refused_at=None)
        wear_out(row)
        server.scripts = [scripted({"error": "invalid_grant", "error_description": refresh[1]}, 400)]
        perform(endpoint)


def act_for_users(planted: Planted, api: APIClient, pages: Client, vendor: HostileVendor) -> None:
    """A user of an agent, a secret that a tool asks for, and tokens of that user; a vendor repeats it all."""
    admin, name = User.objects.get(username="root-admin"), planted.new("user of an agent")
    secret = planted.new("secret in a vault", "/+= %")
    requirements = {
        "authorization": [{"id": "google", "oauth2": {"scopes": ["mail"]}}],
        "secrets": [{"id": "pin"}],
    }
    needs = Requirements(secrets=("pin",))
    signature = make_signature("act", requirements=needs, rest={"requirements": requirements})
    endpoint = make_endpoint(url=f"{vendor.url}/oxp", protocol="oxp")
    agent = make_agent(name="Acting")
    make_pin(agent, make_tool(signature, endpoint=endpoint), name="act")
    publishing.publish(agent, actor=admin, channel="live")
    vault = f"/endpoints/{endpoint.pk}/secrets/"
    for payload in ({"name": "", "value": secret}, {"name": "pin", "value": secret}):
        planted.put_out("vault", api.post(API + vault, payload).content)
        planted.put_out("vault", pages.post(vault, payload).content)
    invoke = f"{API}/agents/{agent.slug}/releases/live/tools/act/invoke/"
    call_payload = {"arguments": {"city": "Oslo"}, "on_behalf_of": {"id": name}}
    visit = {"id": "google", "url": "https://auth.example/go", "check_url": f"{vendor.url}/check"}
    with AuthorizationServer() as server:
        vendor.script = json_reply({"missing_requirements": {"authorization": [visit]}}, status=400)
        planted.put_out("challenge", api.post(invoke, call_payload).content)
        assert UserGrant.objects.get().check_url
        server.client_secret = planted.new("client secret for users", "/+ %:")
        client = {"kind": "oauth_users", "url": endpoint.url, "secret": server.client_secret, "name": "Users"}
        response = api.post(f"{API}/credentials/", client | {"client": server.settings()})
        assert response.status_code == 201, response.content
        provider_payload = {"provider": "google", "credential": response.json()["id"]}
        planted.put_out(
            "chosen", api.post(f"{API}/endpoints/{endpoint.pk}/providers/", provider_payload).content
        )
        answer = api.post(invoke, call_payload)
        link, browser = urlsplit(answer.json()["asks"][0]["url"]).path, Client()
        page = browser.post(link).content.decode()
        address = html.unescape(page.partition('content="0; url=')[2].partition('"')[0])
        back = {name: values[0] for name, values in server.visit(address).items()}
        tokens = [planted.new(f"token of a user {n}", "-._~") for n in range(2)]
        got = {"token_type": "Bearer", "access_token": tokens[0], "refresh_token": tokens[1]}
        server.scripts = [scripted(got)]
        planted.put_out("authorized", browser.get("/grants/callback/", back).content)
        # A vendor may know the user; our secrets are not for it to repeat.
        vendor.script = telling_the_context
        answer = api.post(invoke, call_payload)
        assert answer.json()["error"]["code"] == "ECHO", answer.content
        planted.put_out("echo", answer.content)


def telling_the_context(line, request) -> bool:
    context = json.loads(request.body)["context"]
    received = [context["authorization"], context["secrets"]]
    return json_reply({"call_id": "1", "success": True, "value": {"heard": received}})(line, request)


def act_for_runtimes(planted: Planted, vendor: HostileVendor, settings: LazySettings) -> None:
    """A client signs its user in; calls are reported to callback addresses, and by vendors to Pegboard's."""
    with IdentityProvider() as idp:
        settings.PUBLIC_URL, settings.OIDC = "https://pegboard.example", sign_on(idp, "none")
        settings.OIDC |= {"runtimes": "marked", "audiences": [], "runtime_scopes": []}
        access_tokens.clear_cache()
        call_for_a_client(planted, vendor, idp)
    provider.clear_cache()
    access_tokens.clear_cache()
    settings.PUBLIC_URL, settings.OIDC = "", None


def call_for_a_client(planted: Planted, vendor: HostileVendor, idp: IdentityProvider) -> None:
    admin = User.objects.get(username="root-admin")
    Identity.objects.create(user=admin, issuer=idp.issuer, subject="ada-1")
    runs, agent = Runs(), make_agent(name="Running")
    signature = make_signature("send", rest={"specs": {"capabilities": {"callbacks": True}}})
    with HostileVendor(runs) as agency:
        for name, url, protocol, tool_signature in (
            ("echo", vendor.url, "a2t", make_signature("echo")),
            ("send", agency.url, "acp", signature),
        ):
            endpoint = make_endpoint(url=url, protocol=protocol)
            make_pin(agent, make_tool(tool_signature, endpoint=endpoint), name=name)
        publishing.publish(agent, actor=admin, channel="live")
        release_url = f"{API}/agents/{agent.slug}/releases/live"
        token, elsewhere = (
            idp.access_token(f"https://pegboard.example/serve/{slug}") for slug in (agent.slug, "nowhere")
        )
        planted.secrets |= {"access token of a client": token, "access token for another": elsewhere}
        for access_token in (token, elsewhere, f"{token}x"):
            client = APIClient(raise_request_exception=False)
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {access_token}")
            for path in (f"{release_url}/tools/?format=mcp", f"/serve/{agent.slug}/live/a2t/tools"):
                planted.put_out(f"client {path}", client.get(path).getvalue())
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        for script in (echoing, shouting):
            vendor.script = script
            address = f"{vendor.url}/{planted.new(f'address of a callback {script.__name__}')}"
            payload = {"arguments": {"city": "Oslo"}, "mode": "async", "callback": address}
            body = client.post(f"{release_url}/tools/echo/invoke/", payload).json()
            planted.secrets[f"callback secret {script.__name__}"] = body.pop("callback_secret")
            planted.put_out("begun", json.dumps(body))
            invocation.perform_due_calls()
            callbacks.send(str(Callback.objects.get(call=body["call"]).pk))
        assert Callback.objects.exclude(error="").exists()
        client.post(f"{release_url}/tools/send/invoke/", {"arguments": {"city": "Oslo"}, "mode": "async"})
        invocation.perform_due_calls()
        (started,) = runs.started.values()
        planted.secrets["address of a hint"] = started["webhook"].strip("/").rpartition("/")[2]
        runs.end({"letter": "Dear all"})
        assert client.post(urlsplit(started["webhook"]).path).status_code == 200
        invocation.perform_due_calls()
        assert "creation" in json.dumps(Call.objects.latest("pk").result)


def prove_with_a_key(planted: Planted, api: APIClient) -> None:
    """A client with Pegboard's own key, at a server that repeats its requests."""
    with AuthorizationServer(client_secret=None, method="key") as server:
        client = {"kind": "oauth_client", "url": f"{server.url}/", "name": "Proving"}
        response = api.post(f"{API}/credentials/", client | {"client": server.settings()})
        assert response.status_code == 201, response.content
        planted.put_out("client", response.content)
        row = Credential.objects.get(pk=response.json()["id"])
        private = sessions.decrypt(row).reveal()
        planted.secrets["private key"] = max(re.findall(r"[A-Za-z0-9+/_-]{40,}", private), key=len)
        server.documents["/tools"] = echoing
        perform(make_endpoint(url=f"{server.url}/", credential=row))


def tell_webhooks(planted: Planted, api: APIClient, vendor: HostileVendor) -> None:
    payload = {"name": "Chat", "url": f"{vendor.url}/hook", "events": ["endpoint.broken"]}
    response = api.post(f"{API}/webhooks/", payload)
    assert response.status_code == 201, response.content
    planted.secrets["webhook secret"] = response.json()["secret"]
    row = Webhook.objects.get()
    for script in (echoing, shouting):
        vendor.script = script
        planted.put_out("test", api.post(f"{API}/webhooks/{row.pk}/test/").content)
    planted.secrets["later webhook secret"] = webhooks.replace_secret(
        row, actor=User.objects.get(username="root-admin")
    ).reveal()


def ask_a_judge(planted: Planted, api: APIClient, vendor: HostileVendor) -> None:
    key = planted.new("key of a judge", "+/=")
    payload = {"name": "Model", "url": f"{vendor.url}/v1", "model": "m", "key": key}
    response = api.post(f"{API}/judges/", payload)
    assert response.status_code == 201, response.content
    agent = make_agent(slug="judged")
    make_pin(agent, make_tool(make_signature("judged")), name="judged")
    actor = User.objects.get(username="root-admin")
    sentences.add(agent, actor=actor, new_sentences=[sentences.NewSentence("Judge it", "judged")])
    plans.set_gate(agent, actor=actor, gate="warn", judge=response.json()["id"])
    for script in (echoing, shouting):
        vendor.script = script
        run = rehearsed.run(agent, actor=actor)
        outside.perform(run.pk)
        planted.put_out("judged", api.get(f"{API}/agents/judged/rehearsals/run/").content)
        run.refresh_from_db()
        assert run.results[0]["failed"], run.results


def crash(planted: Planted, api: APIClient, pages: Client, rows: list[Credential], monkeypatch) -> None:
    """Programming errors while a secret is in use: in a page, in REST and in a task."""

    def bug(*arguments, **options):
        values = (arguments, options)
        raise RuntimeError(f"a bug with {len(values)} things in hand")

    secret = planted.new("secret in a crash", SPECIAL)
    form = {"name": "Crash", "kind": "bearer", "url": "https://api.example.com/", "secret": secret}
    with monkeypatch.context() as broken:
        broken.setattr(credential_operations, "draft_credential", bug)
        for answer in (
            pages.post("/credentials/new/", form, headers={"Authorization": f"Bearer {secret}"}),
            api.post(f"{API}/credentials/", form),
        ):
            assert answer.status_code == 500
            planted.put_out("500", answer.content)
    with monkeypatch.context() as broken:
        broken.setattr(listing._Pass, "read", lambda self, session, *arguments: bug(session, vars(session)))
        assert perform(make_endpoint(url=rows[0].origin, credential=rows[0])) == "INTERNAL"


def publish(planted: Planted) -> None:
    """Every tool that was read with a secret, in every format of the exports."""
    agent = make_agent()
    for tool in Tool.objects.filter(endpoint__credential__isnull=False, status="active"):
        make_pin(agent, tool, name=f"tool_{tool.pk}")
    release = publishing.publish(agent, actor=User.objects.get(username="root-admin"))
    for format_ in FORMATS:
        with suppress(DomainError):
            body, _ = publishing.export(release, format_.name, is_partial=True)
            planted.put_out(f"export {format_.name}", body)


def look(planted: Planted, pages: Client, api: APIClient) -> None:
    """Get every address."""
    for path in addresses():
        client = api if path.startswith("/api/") else pages
        planted.put_out(path, client.get(path).getvalue())


def dump(planted: Planted) -> None:
    """Return everything that was stored or sent."""
    for app in ("catalog", "designer", "people", "sessions"):
        out = io.StringIO()
        try:
            call_command("dumpdata", app, stdout=out, stderr=out)
        except (CommandError, TypeError, ValueError) as refusal:
            out.write(str(refusal))
        planted.put_out(f"dumpdata {app}", out.getvalue())
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            planted.put_out(f"table {table}", "\n".join(text for (text,) in cursor.fetchall()))
    with tempfile.TemporaryFile() as file:
        programs, server = backups.find_client_programs(), backups._server_version()
        pg_dump = backups.choose_pg_dump(programs, server=server)
        backups._run_program(pg_dump, "--format=plain", "--no-owner", output=file.fileno())
        file.seek(0)
        planted.put_out("pg_dump", file.read())
    planted.put_out("broker", repr(held_by_the_broker()))
    planted.put_out("mail", "\n".join(message.message().as_string() for message in mail.outbox))
    planted.put_out("mail", "\n".join(message.body for message in mail.outbox))
    planted.put_out(
        "mail", "\n".join(text for m in mail.outbox for text, _ in getattr(m, "alternatives", ()))
    )
    planted.put_out("logs", planted.log.getvalue())


def held_by_the_broker() -> list[object]:
    server, stored_values = redis_client.client(), []
    for key in server.scan_iter():
        match server.type(key):
            case "string":
                stored_values.append(server.get(key))
            case "list":
                stored_values.append(server.lrange(key, 0, -1))
            case "hash":
                stored_values.append(server.hgetall(key))
            case "set":
                stored_values.append(server.smembers(key))
            case "zset":
                stored_values.append(server.zrange(key, 0, -1))
    return stored_values


def addresses() -> list[str]:
    """Every address that can be got, for the rows there are."""
    rows = {
        "vendor": Vendor.objects.values_list("slug", flat=True)[:2],
        "agent": Agent.objects.values_list("slug", flat=True)[:2],
        "credential": Credential.objects.values_list("pk", flat=True),
        "webhook": Webhook.objects.values_list("pk", flat=True),
        "user": User.objects.values_list("pk", flat=True)[:3],
        "tool": Tool.objects.values_list("pk", flat=True)[:3],
        "call": Call.objects.values_list("pk", flat=True)[:3],
        # One for each way to end.
        "endpoint": one_for_each(Endpoint, "error_code"),
        "run": one_for_each(Run, "error_code"),
    }
    # And on the pages that people read, one for each way to end with each kind of credential.
    by_kind = {
        "endpoint": one_for_each(Endpoint, "credential__kind", "error_code"),
        "run": one_for_each(Run, "endpoint__credential__kind", "error_code"),
    }
    # The events of an open call would be waited for, should its number be that of the latest tool.
    open_calls = Call.objects.filter(status__in=ACTIVE_CALLS).values_list("pk", flat=True)
    numbers = {Tool.objects.latest("pk").pk, Call.objects.latest("pk").pk} - {*open_calls}
    paths = []
    for route in routes():
        name = route.name.removeprefix("api-").partition("-")[0]
        values = by_kind.get(route.name) or rows.get(name, numbers)
        sample = next((part for part in ("1", "x", UUID) if f"/{part}/" in route.path), None)
        if sample is None:
            paths.append(route.path)
        else:
            paths += [route.path.replace(f"/{sample}/", f"/{value}/", 1) for value in values]
    return sorted(set(paths))


def one_for_each(model: type[Model], *facts: str) -> list[int]:
    return list(model.objects.order_by(*facts).distinct(*facts).values_list("pk", flat=True))


UUID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def no_second_tries(monkeypatch):
    """A failing vendor gets one request: a repetition would reveal nothing more."""
    usual = sessions.open_session

    def once(endpoint, exchanges=None, limits=DEFAULT_LIMITS, **options):
        return usual(endpoint, exchanges, replace(limits, backoff=()), **options)

    monkeypatch.setattr(sessions, "open_session", once)


def test_no_secret_comes_out_anywhere(planted, mailed_reports, no_second_tries, monkeypatch, settings):
    pages, api = sign_in(planted)
    sign_in_elsewhere(planted, settings)
    with HostileVendor(echoing) as vendor:
        rows = add_credentials(planted, api, pages, f"{vendor.url}/")
        codes = read_echoes(planted, api, rows, vendor)
        assert {"ECHO", "CREDENTIAL_ELSEWHERE"} <= set(codes), codes
        preview_drafts(planted, pages, vendor)
        tell_webhooks(planted, api, vendor)
        ask_a_judge(planted, api, vendor)
        act_for_users(planted, api, pages, vendor)
        act_for_runtimes(planted, vendor, settings)
        crash(planted, api, pages, rows, monkeypatch)
    sign_in_at_a_vendor(planted, api, pages)
    prove_with_a_key(planted, api)
    publish(planted)
    look(planted, pages, api)
    dump(planted)

    assert len(planted.secrets) >= 20
    assert len(planted.outputs) > 150
    assert any("export mcp" in name for name in planted.outputs)
    messages = next(content for name, content in planted.outputs.items() if name.endswith(" broker"))
    assert b'"task": "' in messages
    assert any(b"COPY public.catalog_credential" in content for content in planted.outputs.values())
    assert {"single sign-on secret", "id token", "forged id token", "verifier"} <= planted.secrets.keys()
    assert {"access token of a client", "private key", "address of a hint"} <= planted.secrets.keys()
    assert b"a bug with 2 things" in b"".join(planted.outputs.values())
    assert {hit[:2] for hit in planted.hits()} == set()


def test_search_finds_every_form(planted):
    """Each in the middle of something else."""
    secret = planted.new("planted", SPECIAL)
    spellings = [
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        secret.encode().hex(),
        secret[::-1],
        json.dumps({"a": secret}),
        html.escape(secret),
        *(b64encode(f"{before}{secret}after".encode()).decode() for before in ("", "x", "xy", "Bearer ")),
    ]
    for text in spellings:
        planted.outputs = {"somewhere": f"before {text} behind".encode()}
        assert planted.hits(), text


def believes_everything(monkeypatch) -> None:
    """The product without its check for echoes."""
    monkeypatch.setattr(secret_echo.SecretScanner, "holds", lambda self, text: False)


def writes_it_down(monkeypatch) -> None:
    """The product with one careless line in its audit trail."""
    careful = credential_operations.create_credential

    def careless(**options):
        row = careful(**options)
        logging.getLogger("catalog").info("added %s with %s", row, options["secret"])
        return row

    monkeypatch.setattr(credential_operations, "create_credential", careless)


@pytest.mark.parametrize("mutant", [believes_everything, writes_it_down])
def test_one_careless_line_is_found(planted, monkeypatch, mutant):
    mutant(monkeypatch)
    pages, api = sign_in(planted)
    with HostileVendor(echoing) as vendor:
        rows = add_credentials(planted, api, pages, f"{vendor.url}/")
        vendor.script = echoing
        perform(make_endpoint(url=f"{vendor.url}/", credential=rows[0]))
    dump(planted)
    assert planted.hits()
