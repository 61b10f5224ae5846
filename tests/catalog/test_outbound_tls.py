import datetime
import ipaddress
import socket
import ssl
import struct
import time
from contextlib import contextmanager

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from catalog.addresses import Policy
from catalog.outbound import Session
from catalog.protocols.errors import RefusedError, UnavailableError
from catalog.wire import Limits, tls_context
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, reply

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(idle=0.4, request=0.8, backoff=())
OUR_NAME = [x509.DNSName("vendor.example")]
NOW = datetime.datetime.now(datetime.UTC)


class Authority:
    """Signs certificates, as a company's own authority does."""

    def __init__(self, name="Test authority"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self.sign(name, self.key, [], is_authority=True)

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, name, key, names, *, days=(-1, 1), is_authority=False):
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + datetime.timedelta(days=days[0]))
            .not_valid_after(NOW + datetime.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def serve(authority, tmp_path):
    """A server context for one host name, with a certificate by `signer`."""

    def make(names=OUR_NAME, signer=authority, **given):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = signer.sign("vendor", key, names, **given)
        path = tmp_path / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    return make


def to_loopback(host, port):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def open_session(vendor, authorities, host="vendor.example"):
    return Session(
        f"https://{host}:{vendor.port}",
        policy=LOOPBACK,
        limits=QUICK,
        resolver=to_loopback,
        authorities=authorities,
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
    """Answers the first bytes of a handshake with `greeting`, or resets the connection without one."""

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
        (b"\x15\x03\x01\x00\x02\x02\x46", "no TLS version that is still safe"),
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
