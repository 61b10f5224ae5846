import ipaddress
import json
import re
import socket
import ssl
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint
from catalog.models.runs import Trigger
from core.outbound import connection
from core.outbound.addresses import Policy
from core.outbound.connection_pool import ConnectionPool, KeptFor
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from core.outbound.sockets import tls_context
from people.models import AuditEntry
from tests.certificates import Authority
from tests.factories import make_endpoint, make_vendor
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, reply
from tests.vendor import tool

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(request=0.6, backoff=())
OUR_NAME = [x509.DNSName("vendor.example")]


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def serve(authority, tmp_path):
    """A server context for one host name, with a certificate by `signer`."""

    def make(names=OUR_NAME, signer=authority, **options):
        return signer.server_context(tmp_path, names, **options)

    return make


def to_loopback(host, port):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def open_session(vendor, authorities, host="vendor.example", **options):
    return HttpSession(
        f"https://{host}:{vendor.port}",
        policy=LOOPBACK,
        limits=QUICK,
        resolver=to_loopback,
        authorities=authorities,
        **options,
    )


@contextmanager
def talk(script, context, authorities, host="vendor.example"):
    with HostileVendor(script, tls=context) as vendor, open_session(vendor, authorities, host) as session:
        yield vendor, session


def refusal(context, authorities, host="vendor.example"):
    with (
        talk(reply(), context, authorities, host) as (vendor, session),
        pytest.raises(RefusedError) as refused,
    ):
        session.get("/")
    assert vendor.requests == []
    assert refused.value.code == "TLS"
    return refused.value.message


def test_private_authority_is_trusted_when_it_is_given(serve, authority):
    body = b" " * 300_000 + b"[1]"
    with talk(reply(body), serve(), authority.pem) as (vendor, session):
        assert session.get("/").body == body
        assert session.post("/", json={"long": "x" * 300_000}).status == 200
    assert vendor.connections == 1
    assert vendor.requests[0].headers["host"] == f"vendor.example:{vendor.port}"


def test_connection_that_is_kept_was_verified_with_the_same_authorities(serve, authority, monkeypatch):
    monkeypatch.setattr(connection, "pool", pool := ConnectionPool())
    options = {"kept_for": KeptFor("an endpoint", "")}
    with HostileVendor(reply(), tls=serve()) as vendor:
        for _ in range(3):
            with open_session(vendor, authority.pem, **options) as session:
                session.get("/")
        assert (vendor.connections, len(vendor.requests)) == (1, 3)
        with open_session(vendor, Authority().pem, **options) as session, pytest.raises(RefusedError):
            session.get("/")
        assert len(vendor.requests) == 3
        pool.begin_anew()


def test_trailing_dot_is_for_the_resolver_only(serve, authority):
    with talk(reply(), serve(), authority.pem, "vendor.example.") as (_vendor, session):
        assert session.get("/").status == 200


def test_certificate_may_be_for_an_address(serve, authority):
    context = serve([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    with talk(reply(), context, authority.pem, "127.0.0.1") as (_vendor, session):
        assert session.get("/").status == 200
    assert "for another host name" in refusal(context, authority.pem)
    assert "for another address" in refusal(serve(), authority.pem, "127.0.0.1")


def test_each_bad_certificate_has_its_own_sentence(serve, authority):
    assert "authority that is not trusted" in refusal(serve(signer=Authority("Stranger")), authority.pem)
    assert "could not be verified" in refusal(serve(signer=Authority()), authority.pem)
    assert "for another host name" in refusal(serve([x509.DNSName("other.example")]), authority.pem)
    assert "has expired" in refusal(serve(days=(-9, -2)), authority.pem)
    assert "not valid yet" in refusal(serve(days=(2, 9)), authority.pem)
    assert "is self-signed" in refusal(serve(signer=Authority("vendor")), authority.pem)


def test_private_authority_is_not_trusted_by_itself(serve):
    assert "authority that is not trusted" in refusal(serve(), "")


def test_environment_cannot_add_an_authority(serve, authority, monkeypatch, tmp_path):
    bundle = tmp_path / "canary.pem"
    bundle.write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    tls_context.cache_clear()
    assert "authority that is not trusted" in refusal(serve(), "")
    tls_context.cache_clear()


class Greeter(HostileVendor):
    """A server that answers the first bytes of a handshake with `greeting`, or resets the connection without
    one.
    """

    greeting = b""

    def _serve(self, conn):
        with conn:
            conn.recv(4096)
            conn.sendall(self.greeting)
            if not self.greeting:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("greeting", "sentence"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "no TLS version that is safe"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS on this port"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "no secure connection could be made"),
    ],
)
def test_vendor_without_sound_tls_is_told_apart(greeting, sentence):
    with Greeter(reply()) as vendor, open_session(vendor, "") as session:
        vendor.greeting = greeting
        with pytest.raises(RefusedError, match=sentence) as refused:
            session.get("/")
    assert refused.value.code == "TLS"


@pytest.mark.parametrize("greeting", [b"", b"\x16\x03\x03"])
def test_connection_that_ends_in_the_handshake_is_a_passing_failure(greeting):
    with Greeter(reply()) as vendor, open_session(vendor, "") as session:
        vendor.greeting = greeting
        with pytest.raises(UnavailableError) as unavailable:
            session.get("/")
    assert unavailable.value.code == "RESET"


def test_silent_handshake_ends():
    silent = HostileVendor(reply(), reads=False)
    with silent, open_session(silent, "") as session, pytest.raises(UnavailableError) as unavailable:
        session.get("/")
    assert unavailable.value.code == "IDLE"


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ("drips its headers", "DEADLINE"),
        ("drips its body", "DEADLINE"),
        ("stops in mid-body", "IDLE"),
        ("closes in mid-body", "BODY_TRUNCATED"),
        ("closes without a reply", "NO_REPLY"),
    ],
)
def test_limits_hold_under_tls(serve, authority, behaviour, code):
    started = time.monotonic()
    exchange = talk(BEHAVIOURS[behaviour], serve(), authority.pem)
    with exchange as (_vendor, session), pytest.raises(UnavailableError) as unavailable:
        session.get("/")
    assert unavailable.value.code == code
    assert time.monotonic() - started < QUICK.request + 1


def of_yesterday(context):
    """A real one: TLS 1.0 and nothing newer."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    return context


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_server_of_yesterday_is_refused(serve, authority):
    sentence = refusal(of_yesterday(serve()), authority.pem)
    assert "no TLS version that is safe (1.2 or newer)" in sentence


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_five_faults_read_differently(serve, authority):
    """Each fault has its own sentence, because an administrator repairs each one differently."""
    messages = {
        refusal(serve(signer=Authority("vendor")), authority.pem),
        refusal(serve([x509.DNSName("other.example")]), authority.pem),
        refusal(serve(days=(-9, -2)), authority.pem),
        refusal(serve(signer=Authority("Stranger")), authority.pem),
        refusal(of_yesterday(serve()), authority.pem),
    }
    assert len({sentence.partition(": ")[2] for sentence in messages}) == 5


def test_nothing_in_the_product_skips_verification():
    root = Path(__file__).resolve().parents[3]
    switches = re.compile(
        r"CERT_NONE|CERT_OPTIONAL|check_hostname\s*=\s*False|verify\s*=\s*False|_create_unverified|verify_mode"
        r"|assert_hostname|InsecureRequest|skip_verif|insecure_skip",
        re.IGNORECASE,
    )
    violations = [
        f"{path.relative_to(root)}: {match[0]}"
        for package in (
            "catalog",
            "protocols",
            "designer",
            "execution",
            "serving",
            "people",
            "pegboard",
            "templates",
        )
        for path in (root / package).rglob("*.*")
        if path.suffix in (".py", ".html")
        for match in switches.finditer(path.read_text())
    ]
    assert violations == []
    assert tls_context("").verify_mode == ssl.CERT_REQUIRED
    assert tls_context("").check_hostname
    assert tls_context("").minimum_version == ssl.TLSVersion.TLSv1_2


LISTING = json.dumps({"items": [tool(1), tool(2)], "paging": {"pageLimit": 10}}).encode()


@pytest.fixture
def private_vendor(serve):
    context = serve([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    with HostileVendor(reply(LISTING), tls=context) as vendor:
        yield vendor


def test_endpoint_with_an_authority_of_its_own_is_read(admin_api, authority, private_vendor):
    slug = make_vendor().slug
    payload = {"vendor": slug, "protocol": "a2t", "url": private_vendor.url}
    plain = admin_api.post("/api/v1/endpoints/", payload)
    trusting = admin_api.post(
        "/api/v1/endpoints/", payload | {"url": f"{private_vendor.url}/below", "authorities": authority.pem}
    )
    assert (plain.status_code, trusting.status_code) == (201, 201)
    assert trusting.data["authorities"] == authority.pem.strip()
    runs = []
    for response in (plain, trusting):
        endpoint = Endpoint.objects.get(pk=response.data["id"])
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
        runs.append(enumeration_runs.perform(run.pk))
    assert (runs[0].error_code, runs[0].seen) == ("TLS", 0)
    assert "authority that is not trusted here" in runs[0].error_message
    assert (runs[1].status, runs[1].seen) == ("succeeded", 2)
    assert authority.pem not in str(list(AuditEntry.objects.values_list("after", flat=True)))
    preview_request = {"protocol": "a2t", "url": private_vendor.url, "authorities": authority.pem}
    assert admin_api.post("/api/v1/endpoints/preview/", preview_request).data["tools"] == 2
    taken_back = admin_api.patch(f"/api/v1/endpoints/{trusting.data['id']}/", {"authorities": ""})
    assert taken_back.data["authorities"] == ""


@pytest.mark.parametrize(
    ("authorities", "expected_text"),
    [
        ("no certificate", "Paste certificates in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "Paste certificates in PEM form"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "contains a private key"),
        ("ü" * 10, "Paste certificates in PEM form"),
        ("x" * 70_000, "65536"),
    ],
)
def test_what_is_no_certificate_is_not_taken(admin_api, authorities, expected_text):
    endpoint = make_endpoint()
    refused = admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"authorities": authorities})
    assert refused.status_code == 400
    assert expected_text in refused.data["fields"]["authorities"]


def test_page_takes_and_keeps_the_certificates(admin_api, authority):
    endpoint = make_endpoint()
    page = admin_api.get(f"/endpoints/{endpoint.pk}/?tab=settings").content.decode()
    assert "Certificates of your own authority" in page
    form = {"url": endpoint.url, "interval_minutes": 60, "authorities": authority.pem}
    pace = {"requests_per_second": 3, "requests_at_once": 2}
    saved = admin_api.post(f"/endpoints/{endpoint.pk}/", form | pace, format="multipart")
    assert saved.status_code == 302, saved.content.decode()
    endpoint.refresh_from_db()
    assert endpoint.authorities.split() == authority.pem.split()
    assert (endpoint.requests_per_second, endpoint.requests_at_once) == (3, 2)
    refused = admin_api.post(f"/endpoints/{endpoint.pk}/", form | {"authorities": "x"}, format="multipart")
    assert "Paste certificates in PEM form" in refused.content.decode()
