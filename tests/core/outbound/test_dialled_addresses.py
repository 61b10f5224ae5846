import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models.runs import Trigger
from core.outbound.addresses import Policy, in_ascii
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, json_reply, reply

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(lookup=0.3, connect=0.3, request=1, backoff=())

CONNECTS: list[object] = []
sys.addaudithook(lambda event, args: CONNECTS.append(args[1]) if event == "socket.connect" else None)


@pytest.fixture
def canary():
    """Listens on an address that must never be connected to."""
    with HostileVendor(reply(), host="127.0.0.66") as vendor:
        yield vendor
        assert vendor.connections == 0


def row(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def answering(*answers):
    """A resolver that gives one answer after the other, and counts how often it was asked."""
    answers_left = list(answers)

    def resolve(host, port):
        resolve.asked.append(host)
        hosts = answers_left.pop(0) if len(answers_left) > 1 else answers_left[0]
        return [
            (socket.AF_INET6 if ":" in h else socket.AF_INET, socket.SOCK_STREAM, 6, "", (h, port))
            for h in hosts
        ]

    resolve.asked = []
    return resolve


def ask(url, resolver=None, policy=LOOPBACK, limits=QUICK):
    options = {"resolver": resolver} if resolver else {}
    with HttpSession(url, policy=policy, limits=limits, **options) as session:
        return session.get("/")


SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "127.000.000.001",
    "127.0.0.1.",
    "0",
    "0.0.0.0",
    "0x0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000::0001]",
    "[::]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "10.0.0.1",
    "10.1",
    "167772161",
    "172.16.0.1",
    "192.168.1.1",
    "3232235777",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "0xffffffff",
    "1.2.3.4.5",
    "256.256.256.256",
    "a..b",
    "a" * 64 + ".example",
    "127.1.1.1",
    "0177.0.0.01",
    "0x7f.0x0.0x0.0x1",
    "00000000177.1",
    "0b1111111.0.0.1",
    "127.0.0.1..",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::5efe:127.0.0.1]",
    "[fe80::5efe:127.0.0.1]",
    "[2001:0:7f00:1::1]",
    "[64:ff9b:1:7f00:0:100::]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fd00:42::42]",
    "[fd00:c1::a9fe:a9fe]",
    "169.254.170.2",
    "169.254.0.23",
]

# Whole addresses: what makes two parsers read two hosts, or carries more than a host.
DISGUISES = [
    "https://[::1%25lo]/",
    "https://[::1%lo]/",
    "https://[fe80::1%25eth0]:8080/",
    "https://127.0.0.1%00.example.com/",
    "https://127.0.0.1%2f@example.com/",
    "https://%31%32%37.0.0.1/",
    "https://api.example.com@127.0.0.1/",
    "https://api.example.com:443@127.0.0.1/",
    "https://127.0.0.1@api.example.com/",
    "https://foo@127.0.0.1:80@api.example.com/",
    "https://1.1.1.1 &@127.0.0.1# @3.3.3.3/",
    "https://api.example.com\\@127.0.0.1/",
    "https://127.0.0.1\\@api.example.com/",
    "https://127.1.1.1:80\\@127.2.2.2:80/",
    "https://127.0.0.1#@api.example.com/",
    "https://127.0.0.1?@api.example.com/",
    "https://api.example.com#@127.0.0.1/",
    "https://127.0.0.1:80:443/",
    "https://127.0.0.1:80443/",
    "https://127.0.0.1:\uff10\uff18\uff10/",
    "https://127.0.0.1\r\nHost: api.example.com/",
    "https://127.0.0.1\t/",
    "https://127.0.0.1\x00/",
    " https://127.0.0.1/",
    "https:// 127.0.0.1/",
    "https:127.0.0.1/",
    "https:/127.0.0.1/",
    "https:///127.0.0.1/",
    "//127.0.0.1/",
    "\\\\127.0.0.1\\share",
    "https://①②⑦.⓪.⓪.①/",
    "https://127。0。0。1/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "https://[::1/",
    "https://::1/",
    "https://[127.0.0.1]/",
    "https://[[::1]]/",
    "https://127.0.0.1]/",
    "https://[::ffff:0x7f000001]/",
    "https://+127.0.0.1/",
    "https://127.0.0.1,/",
    "gopher://127.0.0.1:6379/_INFO",
    "dict://127.0.0.1:11211/stat",
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "ldap://127.0.0.1/",
    "jar:https://127.0.0.1!/",
    "data:text/plain,hello",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_no_spelling_of_an_inner_address_is_ever_connected_to(scheme):
    elsewhere = Policy.parse("10.99.0.0/16")
    CONNECTS.clear()
    for host in SPELLINGS:
        with pytest.raises((RefusedError, UnavailableError)) as refused:
            ask(f"{scheme}://{host}:8080/", policy=elsewhere)
        assert refused.value.code in {"ADDRESS", "DNS"}
    assert CONNECTS == []


@pytest.mark.parametrize("policy", [LOOPBACK, Policy(), Policy.parse("0.0.0.0/0 ::/0 127.0.0.0/8 ::1")])
def test_no_disguise_is_ever_connected_to(policy):
    CONNECTS.clear()
    for url in DISGUISES:
        with pytest.raises(RefusedError) as refused:
            ask(in_ascii(url), policy=policy)
        assert refused.value.code == "URL", url
    assert CONNECTS == []


def test_of_twenty_blocked_targets_none_can_be_told_apart(canary):
    """Ports that listen and ports that do not, hosts that are there and hosts that are not."""
    ports = [canary.port, 1, 22, 25, 53, 80, 443, 3306, 5432, 6379, 8080, 9200]
    targets = [f"http://127.0.0.66:{port}/" for port in ports]
    targets += [f"https://{host}/" for host in ("10.0.0.1", "192.168.0.1", "169.254.169.254", "[fc00::1]")]
    targets += [f"https://{host}:8443/" for host in ("[::1]", "[fe80::1]", "127.0.0.2", "0.0.0.0")]
    assert len(targets) == 20
    refusals, times = set(), []
    shut = Policy.parse("127.0.0.1/32:1 10.99.0.0/16")
    for url in targets:
        durations = []
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(RefusedError) as refused:
                ask(url, policy=shut)
            durations.append(time.monotonic() - started)
            refusals.add((type(refused.value), refused.value.code, refused.value.message))
        times.append(min(durations))
    assert len(refusals) == 1
    assert max(times) - min(times) < 0.05


@pytest.mark.django_db
def test_blocked_target_looks_the_same_to_an_administrator(canary, settings):
    settings.OUTBOUND_ALLOW = "127.0.0.1/32"
    outcomes = set()
    for url in (canary.url, "http://127.0.0.66:1/", "https://10.0.0.1/", "https://169.254.169.254/latest"):
        run = enumeration_runs.request_run(make_endpoint(url=url), trigger=Trigger.COMMAND)
        run = enumeration_runs.perform(run.pk)
        outcomes.add((run.status, run.error_code, run.error_message, run.pages, str(run.reached)))
    assert len(outcomes) == 1


def test_refusal_says_nothing_of_what_lives_there(canary):
    sentences = set()
    for url in (canary.url, "http://127.0.0.66:1/", "https://10.0.0.1/", "https://[fc00::1]/"):
        times = []
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(RefusedError) as refused:
                ask(url)
            times.append(time.monotonic() - started)
            sentences.add(refused.value.message)
        assert min(times) < 0.05
    assert len(sentences) == 1


def test_address_that_was_judged_is_the_one_dialled():
    resolver = answering(["127.0.0.1"])
    with HostileVendor(reply()) as vendor:
        ask(f"http://Vendor.Example:{vendor.port}/", resolver)
    assert resolver.asked == ["vendor.example"]
    assert vendor.requests[0].headers["host"] == f"vendor.example:{vendor.port}"


def test_name_that_moves_inside_is_refused_at_its_next_connection(canary):
    resolver = answering(["127.0.0.1"], ["127.0.0.66"])
    with HostileVendor(reply(keep=False)) as vendor:
        url = f"http://vendor.example:{vendor.port}/"
        with HttpSession(url, policy=LOOPBACK, limits=QUICK, resolver=resolver) as session:
            session.get("/")
            time.sleep(0.02)
            with pytest.raises(RefusedError) as refused:
                session.get("/")
    assert refused.value.code == "ADDRESS"
    assert resolver.asked == ["vendor.example"] * 2


def test_names_that_change_with_the_resolver_of_this_machine():
    """glibc asks a real name server with TTL 0; that takes a namespace, which some containers forbid."""
    isolated = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*isolated, "true"], check=False).returncode:
        pytest.skip("this machine grants no namespaces")
    script = Path(__file__).with_name("name_server.py")
    child = subprocess.run(
        [*isolated, sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert child.returncode == 0, child.stderr
    facts = json.loads(child.stdout)
    assert facts["heard"] == [200, "ADDRESS", "ADDRESS", "ADDRESS", "DNS"]
    assert facts["asked"][:4] == ["moving.example", "moving.example", "mixed.example", "metadata.example"]
    assert (facts["vendor"], facts["canary"]) == (1, False)


def test_kept_connection_needs_no_second_lookup():
    resolver = answering(["127.0.0.1"], ["127.0.0.66"])
    with HostileVendor(reply()) as vendor:
        url = f"http://vendor.example:{vendor.port}/"
        with HttpSession(url, policy=LOOPBACK, limits=QUICK, resolver=resolver) as session:
            session.get("/")
            session.get("/")
    assert resolver.asked == ["vendor.example"]


@pytest.mark.parametrize("answer", [["127.0.0.1", "127.0.0.66"], ["127.0.0.66", "127.0.0.1"], []])
def test_mixed_or_empty_answer_is_refused_whole(canary, answer):
    with HostileVendor(reply()) as vendor, pytest.raises(RefusedError) as refused:
        ask(f"http://vendor.example:{vendor.port}/", answering(answer))
    assert refused.value.code == "ADDRESS"
    assert vendor.connections == 0


def test_next_address_is_tried_when_the_first_is_down():
    policy = Policy.parse("127.0.0.1/32 127.0.0.2/32 ::1")
    with HostileVendor(reply()) as vendor:
        answer = ask(
            f"http://vendor.example:{vendor.port}/", answering(["::1", "127.0.0.2", "127.0.0.1"]), policy
        )
    assert answer.status == 200


@pytest.mark.parametrize("url", ["http://vendor.example/", "https://vendor/", "https://vendor:8000/"])
def test_plain_http_and_bare_names_reach_no_public_address(url):
    CONNECTS.clear()
    with pytest.raises(RefusedError) as refused:
        ask(url, answering(["93.184.216.34"]))
    assert refused.value.code == "ADDRESS"
    assert CONNECTS == []


@pytest.mark.parametrize(
    "location", ["http://127.0.0.66:{port}/", "//127.0.0.66:{port}/", "http://127.0.0.1@127.0.0.66:{port}/"]
)
@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
def test_redirect_is_never_followed(canary, location, status):
    moved = reply(b"", status=status, headers={"Location": location.format(port=canary.port)})
    with HostileVendor(moved) as vendor, pytest.raises(RefusedError) as refused:
        ask(vendor.url)
    assert refused.value.code == "REDIRECT"
    assert f"127.0.0.66:{canary.port}" in refused.value.message
    assert len(vendor.requests) == 1


def test_addresses_inside_replies_are_not_visited(canary):
    body = {"next": canary.url, "items": [{"img": canary.url, "$ref": canary.url}]}
    challenge = f'Bearer resource_metadata="{canary.url}/meta"'
    headers = {"WWW-Authenticate": challenge, "Link": f"<{canary.url}>; rel=next"}
    with HostileVendor(json_reply(body, headers=headers)) as vendor:
        ask(vendor.url)
    rejecting = HostileVendor(json_reply(body, status=401, headers=headers))
    with rejecting as vendor, pytest.raises(RefusedError):
        ask(vendor.url)


def test_no_cookie_is_ever_sent_back():
    crumbs = {"Set-Cookie": "session=1; Path=/", "Set-Cookie2": "old=1"}
    with HostileVendor(reply(headers=crumbs)) as vendor:
        with HttpSession(vendor.url, policy=LOOPBACK, limits=QUICK) as session:
            assert "set-cookie" not in session.get("/").headers
            session.get("/")
        ask(vendor.url)
    assert [request.headers.get("cookie") for request in vendor.requests] == [None] * 3


@pytest.mark.django_db
def test_entry_that_opened_a_network_is_kept_with_the_run(admin_api, vendor, settings):
    settings.OUTBOUND_ALLOW = "10.0.0.0/8 127.0.0.0/30:1-65535"
    run = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
    run = enumeration_runs.perform(run.pk)
    assert run.reached == {"127.0.0.1": "127.0.0.0/30:1-65535"}
    assert admin_api.get(f"/api/v1/runs/{run.pk}/").data["reached"] == run.reached
    page = admin_api.get(f"/runs/{run.pk}/").content.decode()
    assert "Reached 127.0.0.1 through the deployment\u2019s entry 127.0.0.0/30:1-65535." in page


def test_environment_has_no_say(canary, monkeypatch, tmp_path):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, canary.url)
        monkeypatch.setenv(name.lower(), canary.url)
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login canary password canary\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with HostileVendor(reply()) as vendor:
        ask(vendor.url)
    assert "authorization" not in vendor.requests[0].headers
    assert vendor.requests[0].target == "/"


def test_lookup_that_hangs_is_given_up():
    over = threading.Event()
    with pytest.raises(UnavailableError, match=r"could not be looked up within 0\.3 s") as unavailable:
        ask("https://vendor.example/", lambda host, port: over.wait(5))
    over.set()
    assert unavailable.value.code == "DNS"


def test_hanging_lookups_do_not_pile_up():
    over = threading.Event()
    before = threading.active_count()
    for _ in range(8):
        with pytest.raises(UnavailableError):
            ask(
                "https://vendor.example/",
                lambda host, port: over.wait(5),
                limits=Limits(lookup=0.02, backoff=()),
            )
    assert threading.active_count() <= before + 4
    over.set()


def test_unknown_name_is_said_plainly():
    def resolve(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(UnavailableError, match=r"The name vendor\.example could not be found") as unavailable:
        ask("https://vendor.example/", resolve)
    assert unavailable.value.code == "DNS"


def test_closed_port_of_an_allowed_address_is_said_plainly():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port} could not be reached: Connection refused"):
        ask(f"http://127.0.0.1:{port}/")


def test_vendor_that_accepts_no_connection_is_given_up():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        with pytest.raises(UnavailableError, match=r"accepted no connection within 0\.3 s") as unavailable:
            ask(f"http://127.0.0.1:{port}/")
        for sock in waiting:
            sock.close()
    assert unavailable.value.code == "CONNECT_TIMEOUT"


def test_refused_connection_is_tried_again():
    port_holder = socket.create_server(("127.0.0.1", 0))
    port = port_holder.getsockname()[1]
    port_holder.close()
    resolver = answering(["127.0.0.1"])
    with pytest.raises(UnavailableError):
        ask(f"http://vendor.example:{port}/", resolver, limits=Limits(backoff=(0.01, 0.01)))
    assert len(resolver.asked) == 3


@pytest.mark.parametrize("location", ["http://ada:pw@{host}/tools?key=1", "//{host}/tools"])
def test_redirect_within_the_host_is_shown_with_its_port(location):
    with HostileVendor(b"") as vendor:
        host = urlsplit(vendor.url).netloc
        vendor.script = reply(b"", status=302, headers={"Location": location.format(host=host)})
        with pytest.raises(RefusedError) as refused:
            ask(vendor.url)
    assert f"answered 302 to http://{host}/tools; " in refused.value.message


def test_what_is_interrupted_while_its_address_is_looked_up_is_not_sent():
    def resolve(host, port):
        session.interrupt()
        return [row("127.0.0.1", port)]

    with HostileVendor(reply()) as vendor:
        session = HttpSession(vendor.url, policy=LOOPBACK, limits=QUICK, resolver=resolve)
        with session, pytest.raises(UnavailableError) as caught:
            session.post("/run", json={})
        assert caught.value.code == "RESET"
        assert vendor.requests == []
