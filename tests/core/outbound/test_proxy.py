import socket
import time

import pytest
from cryptography import x509

from core.outbound.addresses import Policy
from core.outbound.connection_pool import KeptFor
from core.outbound.egress import Egress
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from tests.certificates import Authority
from tests.connect_proxy import ConnectProxy
from tests.hostile_vendor import HostileVendor, in_turn, reply

QUICK = Limits(request=1.5, backoff=())
NAME = [x509.DNSName("vendor.example")]
BODY = b"[" + b" " * 300_000 + b"1]"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def vendor(authority, tmp_path):
    with HostileVendor(reply(BODY), tls=authority.server_context(tmp_path, NAME)) as vendor:
        yield vendor


@pytest.fixture(params=["http", "https"])
def proxy(request, authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("proxy")
    tls = authority.server_context(path) if request.param == "https" else None
    with ConnectProxy(tls=tls) as proxy:
        yield proxy


def to_loopback(host, port):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def open_session(vendor, egress, *, allow="127.0.0.1/32", host="vendor.example", **session_options):
    options = {"limits": QUICK, "resolver": to_loopback, **session_options}
    scheme = "https" if vendor.tls else "http"
    policy = Policy.parse(allow, "1-65535", egress=egress)
    return HttpSession(f"{scheme}://{host}:{vendor.port}", policy=policy, **options)


def through(proxy, authority, *, direct="", resolves="", url=""):
    return Egress.parse(url or proxy.url, direct, resolves, authority.pem)


def failure_of(session):
    with session, pytest.raises(ProtocolError) as failed:
        session.get("/tools")
    return failed.value


def test_a_request_goes_through_the_proxy_to_the_address_that_was_checked(vendor, proxy, authority):
    with open_session(vendor, through(proxy, authority), reached_addresses=(reached := {})) as session:
        assert session.get("/tools").body == BODY
        assert session.post("/call", json={"text": "x" * 200_000}).body == BODY
    assert proxy.targets == [f"127.0.0.1:{vendor.port}"]
    assert reached == {"127.0.0.1": "127.0.0.1/32"}
    assert b"vendor.example" not in proxy.heads[0]


def test_plain_http_goes_through_a_tunnel_too(proxy, authority):
    with (
        HostileVendor(reply()) as vendor,
        open_session(vendor, through(proxy, authority)) as session,
    ):
        session.get("/tools")
        assert proxy.targets == [f"127.0.0.1:{vendor.port}"]


def test_a_kept_connection_through_the_proxy_serves_the_next_session(vendor, proxy, authority):
    kept_for = KeptFor("endpoint 1", "credential 1")
    for _ in range(3):
        with open_session(vendor, through(proxy, authority), kept_for=kept_for) as session:
            session.get("/tools")
    assert len(proxy.targets) == 1
    with open_session(vendor, Egress.parse("", "", "", authority.pem), kept_for=kept_for) as session:
        session.get("/tools")
    assert len(vendor.requests) == 4
    assert vendor.connections == 2


@pytest.mark.parametrize("address", ["10.0.0.7", "169.254.169.254", "127.0.0.2"])
def test_a_name_of_a_closed_network_is_refused_before_the_proxy_is_asked(vendor, proxy, authority, address):
    def resolve(host, port):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    session = open_session(vendor, through(proxy, authority), resolver=resolve)
    assert failure_of(session).code == "ADDRESS"
    assert proxy.heads == []


def test_the_proxy_looks_names_up_where_the_installation_says_so(vendor, proxy, authority):
    proxy.names = {"vendor.example": "127.0.0.1"}

    def resolve(host, port):
        assert host == "127.0.0.1"
        return to_loopback(host, port)

    egress = through(proxy, authority, resolves="1")
    with open_session(vendor, egress, allow="", resolver=resolve) as session:
        assert session.get("/tools").body == BODY
    assert proxy.targets == [f"vendor.example:{vendor.port}"]


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "127.1", "0x7f000001", "169.254.169.254", "[::1]"])
def test_addresses_are_checked_here_also_where_the_proxy_looks_names_up(vendor, proxy, authority, host):
    def resolve(name, port):
        return to_loopback(name, port) if name in ("127.1", "0x7f000001") else socket.getaddrinfo(name, port)

    egress = through(proxy, authority, resolves="1")
    with pytest.raises(RefusedError) as refused:
        open_session(vendor, egress, allow="", host=host, resolver=resolve).get("/")
    assert refused.value.code in ("ADDRESS", "URL")
    assert proxy.heads == []


@pytest.mark.parametrize(
    "direct", ["vendor.example", ".example", "*.example", "127.0.0.0/8", "10.0.0.0/8,127.0.0.1"]
)
def test_hosts_of_the_list_are_reached_without_the_proxy(vendor, proxy, authority, direct):
    with open_session(vendor, through(proxy, authority, direct=direct)) as session:
        session.get("/tools")
    assert proxy.heads == []


@pytest.mark.parametrize("direct", ["endor.example", "other.vendor.example", "10.0.0.0/8", "example"])
def test_other_hosts_go_through_it(vendor, proxy, authority, direct):
    with open_session(vendor, through(proxy, authority, direct=direct)) as session:
        session.get("/tools")
    assert len(proxy.heads) == 1


def test_the_password_is_sent_to_the_proxy_and_shown_nowhere(vendor, proxy, authority):
    scheme, _, place = proxy.url.partition("://")
    egress = through(proxy, authority, url=f"{scheme}://peg:p%40ss%3Aw%2Frd@{place}")
    proxy.authorization = "Basic cGVnOnBAc3M6dy9yZA=="
    with open_session(vendor, egress, exchanges=(exchanges := [])) as session:
        session.get("/tools")
    assert "proxy-authorization" not in vendor.requests[0].headers
    proxy.authorization = "Basic other"
    error = failure_of(open_session(vendor, egress))
    assert error.code == "PROXY_REFUSED"
    assert isinstance(error, RefusedError)
    text = f"{error!r} {error} {egress!r} {exchanges!r}"
    assert "407" in text
    for secret in ("p@ss:w/rd", "p%40ss", "cGVnOnBAc3M6dy9yZA"):
        assert secret not in text


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "PROXY_REFUSED"),
        (407, "PROXY_REFUSED"),
        (302, "PROXY_REFUSED"),
        (502, "CONNECT"),
        (504, "CONNECT"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_says_whether_someone_has_to_act(vendor, proxy, authority, status, code):
    proxy.status = status
    assert failure_of(open_session(vendor, through(proxy, authority))).code == code
    assert vendor.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"",
        b"HTTP/1.1 200 Fine\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 20_000,
    ],
)
def test_a_proxy_that_answers_oddly_is_named(vendor, proxy, authority, answer):
    proxy.reply = answer
    if not answer:
        proxy.is_silent = True
    error = failure_of(open_session(vendor, through(proxy, authority)))
    assert error.code == "PROXY"
    assert isinstance(error, UnavailableError)
    assert vendor.requests == []


def test_a_dead_proxy_is_named_and_nothing_goes_past_it(vendor, authority):
    with ConnectProxy() as proxy:
        url = proxy.url
    error = failure_of(open_session(vendor, through(None, authority, url=url)))
    assert error.code == "PROXY"
    assert vendor.connections == 0


def test_a_silent_proxy_ends_with_the_deadline(vendor, proxy, authority):
    proxy.is_silent = True
    began = time.monotonic()
    error = failure_of(open_session(vendor, through(proxy, authority)))
    assert error.code == "PROXY"
    assert time.monotonic() - began < 20  # the proxy itself would wait for 30 s


def test_a_proxy_with_a_foreign_certificate_gets_no_password(vendor, authority, tmp_path):
    tls = Authority("Foreign").server_context(tmp_path)
    with ConnectProxy(tls=tls) as proxy:
        egress = through(proxy, authority, url=f"https://peg:secret@127.0.0.1:{proxy.port}")
        assert failure_of(open_session(vendor, egress)).code == "PROXY_REFUSED"
        assert proxy.heads == []


def test_a_vendor_with_a_foreign_certificate_is_refused_through_the_proxy(proxy, authority, tmp_path):
    tls = Authority("Foreign").server_context(tmp_path, NAME)
    with HostileVendor(reply(), tls=tls) as vendor:
        assert failure_of(open_session(vendor, through(proxy, authority))).code == "TLS"
        assert vendor.requests == []


def test_authorities_of_an_endpoint_are_the_only_ones_it_trusts(vendor, proxy, authority):
    session = open_session(vendor, through(proxy, authority), authorities=Authority("Other").pem)
    assert failure_of(session).code == "TLS"


def test_a_redirect_is_not_followed_through_the_proxy(proxy, authority, tmp_path):
    away = reply(b"", status=302, headers={"Location": "https://elsewhere.example/"})
    with HostileVendor(in_turn(away), tls=authority.server_context(tmp_path, NAME)) as vendor:
        assert failure_of(open_session(vendor, through(proxy, authority))).code == "REDIRECT"
        assert len(proxy.heads) == 1


def test_an_interrupted_session_stops_reading_through_the_proxy(proxy, authority, tmp_path):
    import threading

    from tests.hostile_vendor import then_waits

    slow = then_waits(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[")
    with HostileVendor(slow, tls=authority.server_context(tmp_path, NAME)) as vendor:
        session = open_session(vendor, through(proxy, authority), limits=Limits(request=30, backoff=()))
        threading.Timer(0.4, session.interrupt).start()
        began = time.monotonic()
        failure_of(session)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "url",
    [
        "proxy.example:3128", "socks5://proxy:1080", "http://proxy", "http://proxy:0x50", "http://proxy:99999",
        "http://user:sec/ret@proxy:3128", "http://user:sec#ret@proxy:3128", "http://proxy:3128/path",
        "http://us%0der:secret@proxy:3128", "http://:3128", "http://pro xy:3128", "http://us%3Aer:secret@proxy:1",
        "http://[::1:3128",
    ],
)  # fmt: skip
def test_a_bad_address_is_refused_without_repeating_it(url):
    with pytest.raises(ValueError, match="PEGBOARD_OUTBOUND_PROXY") as refused:
        Egress.parse(url, "", "", "")
    assert "ret" not in str(refused.value)


@pytest.mark.parametrize("direct", ["a/b", "10.0.0.0/40", "http://x", "-", "10.0.0.1/8"])
def test_a_bad_list_of_direct_hosts_is_refused(direct):
    with pytest.raises(ValueError, match="PEGBOARD_OUTBOUND_DIRECT"):
        Egress.parse("http://proxy:3128", direct, "", "")
