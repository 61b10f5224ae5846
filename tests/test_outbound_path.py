"""Every outbound request takes the path of the installation: its proxy and its authorities."""

import logging

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import Client
from django.utils import timezone

from catalog.credentials.oauth import tokens
from catalog.enumeration import runs as enumeration_runs
from catalog.models.runs import Trigger
from catalog.notifications import callbacks, webhooks
from catalog.notifications.models import Callback, Event, SendingState
from designer.models import RehearsalRun
from designer.rehearsals import judges, sentences
from designer.rehearsals.sentences import NewSentence
from designer.tasks import ask_judge
from execution.tasks import perform_call
from pegboard import startup_checks
from people.models import Role, User
from people.sso import provider
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import make_client
from tests.certificates import Authority
from tests.connect_proxy import ConnectProxy
from tests.execution.activities.test_http import call as call_activity
from tests.execution.activities.test_http import make_activity
from tests.execution.calls.test_invocation import ANSWER, make_version, run
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
)
from tests.hostile_vendor import GOOD, HostileVendor, json_reply, reply
from tests.identity_provider import CLIENT, SECRET, IdentityProvider
from tests.pages import text_of
from tests.serving.test_calls import ANSWER as SKY
from tests.serving.test_calls import GIVEN, desk_with, owner, runtime, url

__all__ = ["owner"]
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def tls(authority, tmp_path):
    return authority.server_context(tmp_path)


@pytest.fixture
def proxy(settings, authority, tmp_path):
    """A proxy that asks for a password, and an authority that only this installation knows."""
    bundle = tmp_path / "authorities.pem"
    bundle.write_text(f"Our own authority\n{authority.pem}")
    with ConnectProxy(authorization="Basic cGVnOnNlc2FtZQ==") as proxy:
        settings.OUTBOUND_PROXY = proxy.url.replace("://", "://peg:sesame@")
        settings.CA_FILE = str(bundle)
        yield proxy


def targets(*servers):
    return {f"127.0.0.1:{server.port}" for server in servers}


def test_an_endpoint_is_read_and_its_tools_are_called(proxy, tls):
    with HostileVendor(reply(GOOD), tls=tls) as vendor:
        run_read = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run_read.pk).status == "succeeded"
        vendor.script = ANSWER
        assert run(make_version(vendor.url)).outcome == "ok"
        assert set(proxy.targets) == targets(vendor)
        assert len(proxy.targets) == vendor.connections


def test_an_activity_sends_its_request(proxy, tls):
    with HostileVendor(json_reply({"now": {"text": "fair", "degrees": "12"}}), tls=tls) as vendor:
        assert call_activity(make_activity(f"{vendor.url}/v1/{{city}}")).outcome == "ok"
        assert set(proxy.targets) == targets(vendor)


def test_an_access_token_is_requested(proxy, tls):
    with AuthorizationServer(tls=tls) as server:
        assert server.is_good(tokens.token_for(make_client(server)).secret.reveal())
        assert len(proxy.targets) == 1


@pytest.fixture
def idp(settings, tls):
    provider.clear_cache()
    with IdentityProvider(tls) as idp:
        settings.OIDC = {
            "issuer": idp.issuer,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "name": "Example ID",
            "scopes": "openid profile email",
            "roles_claim": "",
            "roles": {},
            "default_role": "viewer",
            "domains": [],
        }
        yield idp
    provider.clear_cache()


def test_a_user_signs_in_at_the_identity_provider(proxy, idp):
    client = Client()
    answer = idp.authorize(client.get("/accounts/single-sign-on/").headers["Location"])
    assert client.get("/accounts/single-sign-on/done/", answer).status_code == 302
    assert User.objects.get().username == "ada"
    assert idp.asked == ["/.well-known/openid-configuration", "/token", "/keys"]
    assert set(proxy.targets) == {idp.issuer.removeprefix("https://")}


def test_a_certificate_of_the_identity_provider_is_named_in_the_log(settings, idp, caplog):
    with caplog.at_level(logging.WARNING, logger="people.sso.provider"):
        page = Client().get("/accounts/single-sign-on/", follow=True)
    (record,) = [record for record in caplog.records if record.name == "people.sso.provider"]
    assert record.args[0] == "TLS"
    assert "authority that is not trusted" in record.getMessage()
    assert "certificate" in text_of(page)
    assert idp.asked == []


def test_a_webhook_is_delivered(proxy, tls):
    with HostileVendor(reply(b"", status=204), tls=tls) as receiver:
        admin = make_user(Role.ADMIN)
        hook, _ = webhooks.create(actor=admin, name="Chat", url=receiver.url, events=[Event.BROKEN])
        delivery = webhooks.send_test(hook, actor=admin)
        webhooks.send_waiting(str(hook.pk))
        delivery.refresh_from_db()
        assert delivery.state == SendingState.SENT
        assert set(proxy.targets) == targets(receiver)


def test_the_end_of_a_call_is_reported_to_its_caller(proxy, tls, owner):
    with HostileVendor(SKY, tls=tls) as vendor, HostileVendor(reply(b"", status=204), tls=tls) as receiver:
        agent, _ = desk_with(owner, vendor)
        accepted = runtime(owner, agent).post(url(), GIVEN | {"mode": "async", "callback": receiver.url})
        perform_call(accepted.json()["call"])
        callbacks.send(str(Callback.objects.get().pk))
        assert Callback.objects.get().state == "sent"
        assert set(proxy.targets) == targets(vendor, receiver)


def test_an_evaluation_model_is_asked(proxy, tls, designer_api, monkeypatch):
    monkeypatch.setattr("celery.current_app.send_task", lambda *_, **__: None)
    agent = make_agent(slug="desk", name="Front desk")
    make_pin(agent, make_tool(make_signature("forecast", inputs=(make_parameter(),))), name="forecast")
    sentences.add(
        agent, actor=make_user(Role.DESIGNER), new_sentences=[NewSentence("The weather in Oslo", "forecast")]
    )
    tool_call = {
        "id": "1",
        "type": "function",
        "function": {"name": "forecast", "arguments": '{"city": "Oslo"}'},
    }
    choice = {"choices": [{"message": {"role": "assistant", "tool_calls": [tool_call]}}]}
    with HostileVendor(json_reply(choice), tls=tls) as model:
        judge = judges.create(
            actor=make_user(Role.ADMIN), name="Big model", url=f"{model.url}/v1", model="big-1",
            key="sk-a-secret-of-ours", tries=1, seconds=5,
        )  # fmt: skip
        designer_api.put(
            "/api/v1/agents/desk/rehearsals/gate/", {"gate": "refuse", "judge": str(judge.pk)}, format="json"
        )
        designer_api.post("/api/v1/agents/desk/rehearsals/run/")
        RehearsalRun.objects.update(due_at=timezone.now())
        ask_judge()
        assert RehearsalRun.objects.get().status == "succeeded"
        assert set(proxy.targets) == targets(model)


def test_a_closed_network_is_refused_before_the_proxy_is_asked(proxy, settings, tls):
    settings.OUTBOUND_ALLOW = ""
    with HostileVendor(reply(GOOD), tls=tls) as vendor:
        settings.OUTBOUND_PORTS = str(vendor.port)
        run_read = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run_read.pk).error_code == "ADDRESS"
    assert proxy.heads == []


@pytest.mark.parametrize(
    ("status", "code"), [(403, "PROXY_REFUSED"), (407, "PROXY_REFUSED"), (502, "CONNECT")]
)
def test_a_refusal_of_the_proxy_is_the_result_of_the_run(proxy, tls, status, code, caplog):
    proxy.status = status
    with HostileVendor(reply(GOOD), tls=tls) as vendor:
        run_read = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
        run_read = enumeration_runs.perform(run_read.pk)
        assert (run_read.error_code, vendor.connections) == (code, 0)
    assert "sesame" not in run_read.error_message + caplog.text


def test_variables_of_the_environment_change_no_path(settings, monkeypatch, authority, tls, tmp_path):
    bundle = tmp_path / "authorities.pem"
    bundle.write_text(authority.pem)
    settings.CA_FILE = str(bundle)
    with ConnectProxy() as canary, HostileVendor(reply(GOOD), tls=tls) as vendor:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, canary.url)
            monkeypatch.setenv(name.lower(), canary.url)
        monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
        run_read = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run_read.pk).status == "succeeded"
        assert canary.heads == []
    with ConnectProxy() as proxy, HostileVendor(reply(GOOD), tls=tls) as vendor:
        settings.OUTBOUND_PROXY = proxy.url
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "*")
        run_read = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run_read.pk).status == "succeeded"
        assert set(proxy.targets) == targets(vendor)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTBOUND_PROXY", "proxy.example:3128"),
        ("OUTBOUND_PROXY", "socks5://peg:sesame@proxy.example:1080"),
        ("OUTBOUND_DIRECT", "http://vendor.example"),
        ("OUTBOUND_PROXY_RESOLVES", "yes"),
        ("CA_FILE", "/nonexistent/authorities.pem"),
        ("CA_FILE", __file__),
        ("CA_FILE", "/"),
    ],
)
def test_a_setting_that_cannot_be_used_stops_the_start(settings, name, value):
    setattr(settings, name, value)
    (problem,) = startup_checks.network_problems()
    assert problem.startswith(f"PEGBOARD_{name}: ")
    assert "sesame" not in problem
    assert problem in startup_checks.problems()
    with pytest.raises(SystemCheckError, match="E004"):
        call_command("check")


def test_a_file_with_a_private_key_is_refused(settings, authority, tmp_path):
    certificate, key = authority.write(tmp_path)
    bundle = tmp_path / "both.pem"
    bundle.write_bytes(certificate.read_bytes() + key.read_bytes())
    settings.CA_FILE = str(bundle)
    (problem,) = startup_checks.network_problems()
    assert "private key" in problem
