"""`manage.py doctor` about the proxy, the identity provider, the mail server and authorities."""

import socket
from io import StringIO
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command

from people.sso import provider
from tests.catalog.notifications.receivers import mail_server
from tests.certificates import Authority
from tests.connect_proxy import ConnectProxy
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, reply
from tests.identity_provider import CLIENT, SECRET, IdentityProvider
from tests.pegboard.ops import test_doctor
from tests.pegboard.ops.test_doctor import local

__all__ = ["local"]
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def trusted(settings, authority, tmp_path):
    settings.CA_FILE = str(tmp_path / "authorities.pem")
    (tmp_path / "authorities.pem").write_text(authority.pem)


def failed_checks():
    """The checks that speak; one of those that do not concern this changes a setting of the transaction."""
    return test_doctor.failed_checks("--skip", "statement_timeout")


def report():
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--skip", "worker", "--free", "0", stdout=out)
    return out.getvalue()


def sign_in_with(settings, idp):
    provider.clear_cache()
    settings.OIDC = {
        "issuer": idp.issuer, "client_id": CLIENT, "client_secret": SECRET, "name": "Example ID",
        "scopes": "openid", "roles_claim": "", "roles": {}, "default_role": "viewer", "domains": [],
    }  # fmt: skip


def test_a_setting_that_cannot_be_used_is_found_once(settings):
    settings.CA_FILE = "/nonexistent/authorities.pem"
    assert failed_checks() == ["outbound_settings"]


@pytest.mark.parametrize("days", [(-9, -1), (-9, 10)])
def test_an_authority_that_ends_is_found(settings, authority, tmp_path, days):
    ending = authority.sign("Old authority", authority.key, [], days=days, is_authority=True)
    settings.CA_FILE = str(tmp_path / "authorities.pem")
    pem = Authority.encode(ending)
    (tmp_path / "authorities.pem").write_text(pem)
    assert failed_checks() == ["authorities"]
    settings.CA_FILE = ""
    make_endpoint(authorities=pem)
    assert failed_checks() == ["endpoint_authorities"]


def test_an_authority_that_lasts_is_left_in_peace(settings, tmp_path):
    lasting = Authority(days=(-1, 400))
    settings.CA_FILE = str(tmp_path / "authorities.pem")
    (tmp_path / "authorities.pem").write_text(lasting.pem)
    make_endpoint(authorities=lasting.pem)
    assert failed_checks() == []


def test_a_proxy_that_works_is_left_in_peace(settings):
    with ConnectProxy() as proxy, HostileVendor(reply()) as vendor:
        settings.OUTBOUND_PROXY = proxy.url
        assert failed_checks() == []
        make_endpoint(url=vendor.url)
        assert failed_checks() == []
        assert proxy.targets == [f"127.0.0.1:{vendor.port}"]


def test_a_dead_proxy_is_found(settings):
    with ConnectProxy() as proxy:
        settings.OUTBOUND_PROXY = proxy.url.replace("://", "://peg:sesame@")
    assert failed_checks() == ["outbound_proxy"]
    assert "sesame" not in report()


@pytest.mark.parametrize("status", [403, 407])
def test_a_proxy_that_refuses_is_found(settings, status):
    with ConnectProxy(status=status) as proxy, HostileVendor(reply()) as vendor:
        settings.OUTBOUND_PROXY = proxy.url
        make_endpoint(url=vendor.url)
        assert failed_checks() == ["outbound_proxy"]


def test_a_vendor_that_is_away_is_no_fault_of_the_proxy(settings):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with ConnectProxy() as proxy:
        settings.OUTBOUND_PROXY = proxy.url
        make_endpoint(url=f"http://127.0.0.1:{port}")
        assert failed_checks() == []


def test_an_identity_provider_that_works_is_left_in_peace(settings, authority, trusted, tmp_path):
    with IdentityProvider(authority.server_context(tmp_path)) as idp:
        sign_in_with(settings, idp)
        assert "identity_provider" not in failed_checks()


def test_a_certificate_of_the_identity_provider_is_found(settings, authority, tmp_path):
    with IdentityProvider(authority.server_context(tmp_path)) as idp:
        sign_in_with(settings, idp)
        assert failed_checks() == ["identity_provider"]
        assert "authority that is not trusted" in report()


@pytest.mark.parametrize("fault", ["issuer", "token_endpoint", "keys", "away"])
def test_an_identity_provider_that_cannot_be_used_is_found(settings, fault):
    with IdentityProvider() as idp:
        sign_in_with(settings, idp)
        match fault:
            case "keys":
                idp.keys = []
            case "away":
                idp.stop()
            case _:
                idp.metadata = {fault: "http://elsewhere.example" if fault == "issuer" else None}
        assert failed_checks() == ["identity_provider"]


def use_mail_server(settings, server):
    parts = urlsplit(server.url)
    settings.EMAIL_BACKEND = "core.mail_backend.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", parts.port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
    settings.MAIL_IS_SET_UP, settings.PUBLIC_URL = True, "https://pegboard.example"
    settings.MAIL_FROM = "Pegboard <pegboard@pegboard.example>"


def test_a_mail_server_that_works_is_left_in_peace(settings):
    with mail_server() as server:
        use_mail_server(settings, server)
        assert failed_checks() == []


@pytest.mark.parametrize("fault", ["away", "no STARTTLS", "wrong password"])
def test_a_mail_server_that_cannot_be_used_is_found(settings, fault):
    with mail_server() as server:
        use_mail_server(settings, server)
        match fault:
            case "away":
                with socket.create_server(("127.0.0.1", 0)) as closed:
                    settings.EMAIL_PORT = closed.getsockname()[1]
            case "no STARTTLS":
                settings.EMAIL_USE_TLS = True
            case "wrong password":
                settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "peg", "a-password-of-mail"
        assert failed_checks() == ["mail_server"]
        assert "a-password-of-mail" not in report()


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_the_mail_server_is_verified(settings, authority, trusted, tmp_path, is_wrapped):
    with mail_server(authority.server_context(tmp_path), is_wrapped=is_wrapped) as server:
        use_mail_server(settings, server)
        settings.EMAIL_USE_SSL, settings.EMAIL_USE_TLS = is_wrapped, not is_wrapped
        assert "mail_server" not in failed_checks()
        settings.CA_FILE = ""
        assert failed_checks() == ["mail_server"]
