"""Mutual TLS, with servers that ask for the certificate of their client."""

import ssl

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions, status
from catalog.credentials.kinds.client_certificate import MutualTls
from catalog.models import Credential
from core.errors import DomainError
from core.outbound import sockets
from core.outbound.errors import ProtocolError, RefusedError
from people.models import AuditEntry, Role
from tests.certificates import Authority
from tests.factories import make_endpoint, make_user
from tests.hostile_vendor import HostileVendor, reply
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def vendor(authority, tmp_path):
    """A server that admits clients with a certificate of its authority alone."""
    with HostileVendor(reply(), tls=strict_context(authority, tmp_path)) as vendor:
        yield vendor


def strict_context(authority, path) -> ssl.SSLContext:
    context = authority.server_context(path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem)
    return context


def key_pem(key) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def issue(authority, *, key=None, days=(-1, 100)) -> dict[str, str]:
    key = key or ec.generate_private_key(ec.SECP256R1())
    certificate = authority.encode(authority.sign("Pegboard", key, [], days=days))
    return {"certificate": certificate, "secret": key_pem(key)}


def make_credential(url: str, **details) -> Credential:
    fields = {"name": "Certificate", "kind": "client_certificate", **details}
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), url=url, **fields)


def endpoint_of(vendor, authority, credential=None):
    return make_endpoint(url=vendor.url, credential=credential, authorities=authority.pem)


@pytest.mark.parametrize("make_key", [ec.SECP256R1, None], ids=["elliptic curve", "RSA"])
@pytest.mark.parametrize("line_end", ["\n", ""], ids=["lines", "one line"])
def test_the_certificate_opens_the_connection(vendor, authority, make_key, line_end):
    key = ec.generate_private_key(make_key()) if make_key else rsa.generate_private_key(65537, 2048)
    details = issue(authority, key=key)
    details["secret"] = details["secret"].replace("\n", line_end)
    endpoint = endpoint_of(vendor, authority, make_credential(vendor.url, **details))
    with sessions.open_session(endpoint) as session:
        assert session.get("/tools").status == 200
        assert session.post("/tools", json={}).status == 200
    assert "authorization" not in vendor.requests[0].headers


def refusal(endpoint) -> tuple[str, str]:
    with sessions.open_session(endpoint) as session, pytest.raises(RefusedError) as refused:
        session.get("/tools")
    return refused.value.code, refused.value.message


def test_a_strange_certificate_is_named(authority, tmp_path):
    # With TLS 1.3 the server may close the connection before its client has read the alert.
    context = strict_context(authority, tmp_path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with HostileVendor(reply(), tls=context) as vendor:
        stranger = make_credential(vendor.url, **issue(Authority("Stranger")))
        code, message = refusal(endpoint_of(vendor, authority, stranger))
    assert (code, "authority of the client certificate" in message) == ("TLS", True)
    assert vendor.requests == []


@pytest.mark.parametrize("alert", sockets._CERTIFICATE_ALERTS)
def test_each_alert_about_a_certificate_has_a_sentence(alert):
    error = ssl.SSLError(1, f"[SSL: {alert}] as OpenSSL writes it")
    error.reason = alert
    assert "client certificate" in sockets.tls_problem(error)


def test_without_a_certificate_nothing_is_sent(vendor, authority):
    endpoint = endpoint_of(vendor, authority)
    with sessions.open_session(endpoint) as session, pytest.raises(ProtocolError) as refused:
        session.get("/tools")
    assert refused.value.code in ("TLS", "RESET")
    assert vendor.requests == []


def test_another_origin_does_not_see_it(vendor, authority, tmp_path):
    credential = make_credential(vendor.url, **issue(authority))
    context = authority.server_context(tmp_path)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem)
    endpoint = endpoint_of(vendor, authority, credential)
    with HostileVendor(reply(), tls=context) as other, sessions.open_session(endpoint) as session:
        session.get("/tools")
        with session.at_url(other.url) as elsewhere:
            elsewhere.get("/tools")
            assert elsewhere._connection._certificate is None
    assert len(other.requests) == 1


def test_a_new_certificate_is_used_at_once(vendor, authority):
    credential = make_credential(vendor.url, **issue(authority))
    endpoint, actor = endpoint_of(vendor, authority, credential), make_user(Role.ADMIN)
    with sessions.open_session(endpoint, keeps_connection=True) as session:
        session.get("/tools")
    credential_operations.update_credential(credential, actor=actor, **issue(authority))
    endpoint.credential.refresh_from_db()
    with sessions.open_session(endpoint, keeps_connection=True) as session:
        session.get("/tools")
    assert vendor.connections == 2
    entry = AuditEntry.objects.latest("pk")
    assert entry.before["certificate"] != entry.after["certificate"]
    assert "BEGIN" not in str([*AuditEntry.objects.values("before", "after")])


def test_the_private_key_lies_nowhere_in_the_clear(authority, monkeypatch, tmp_path, vendor):
    details = issue(authority)
    credential = make_credential(vendor.url, **details)
    body = "".join(details["secret"].split("\n")[1:-2])
    assert body not in str([*Credential.objects.values(), *AuditEntry.objects.values()])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with sessions.open_session(endpoint_of(vendor, authority, credential)) as session:
        session.get("/tools")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]


@pytest.mark.parametrize(
    ("days", "state"), [((-9, 100), "new"), ((-9, 5), "expiring"), ((-9, -1), "refused")]
)
def test_the_status_says_when_the_certificate_ends(authority, days, state):
    credential = make_credential("https://api.example", **issue(authority, days=days))
    certificate_status = status.status_of(credential, timezone.now())
    assert certificate_status.state == state
    assert abs((certificate_status.expires_at - timezone.now()).days - days[1]) <= 1


def test_a_pair_that_does_not_fit_is_refused(authority):
    one, other = issue(authority), issue(authority)
    cases = [
        ("https://api.example", one | {"secret": other["secret"]}, "secret"),
        ("https://api.example", one | {"secret": "hunter2-hunter2"}, "secret"),
        ("https://api.example", one | {"certificate": ""}, "certificate"),
        ("https://api.example", one | {"certificate": "-----BEGIN CERTIFICATE-----"}, "certificate"),
        ("https://api.example", one | {"certificate": one["certificate"] + one["secret"]}, "certificate"),
        ("http://api.example", one, "url"),
    ]
    for url, details, field in cases:
        with pytest.raises(DomainError) as refused:
            make_credential(url, **details)
        assert set(refused.value.fields) == {field}
    credential = make_credential("https://api.example", **one)
    change = {"certificate": other["certificate"]}
    with pytest.raises(DomainError) as refused:
        credential_operations.update_credential(credential, actor=make_user(Role.ADMIN), **change)
    assert set(refused.value.fields) == {"secret"}


def test_an_administrator_enters_it_on_the_page(authority):
    admin = signed_in(Role.ADMIN)
    assert str(MutualTls.secret_help) in text_of(admin.get("/credentials/new/"))
    details = issue(authority) | {"name": "Certificate", "kind": "client_certificate"}
    page = admin.post("/credentials/new/", details | {"url": "https://api.example"}, follow=True)
    assert "sha256:" in text_of(page)
    assert "BEGIN" not in page.content.decode()
    assert Credential.objects.get().kind == "client_certificate"


def test_rest_takes_it_and_gives_the_key_back_to_nobody(admin_api, authority):
    details = issue(authority) | {"name": "Certificate", "kind": "client_certificate"}
    response = admin_api.post("/api/v1/credentials/", details | {"url": "https://api.example"})
    assert response.status_code == 201
    assert response.json()["certificate"] == details["certificate"].strip()
    assert response.json()["status"]["expires_at"]
    assert "PRIVATE" not in response.content.decode()
