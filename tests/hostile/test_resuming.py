"""A list that broke off is read on from there (52), and nothing old is taken for new."""

import json
import zlib
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from catalog import bounds
from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.enumeration import deadline, kept_replies, known_pages, lease, listing, schedule
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, KeptReply, Run, Tool
from catalog.models.runs import Trigger
from core.outbound.limits import Limits
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import sign, signed_in
from tests.factories import make_endpoint, make_user
from tests.hostile.bench import SECRET, SHORT, Bench, as_admin
from tests.hostile.dialects import DIALECTS, PAGE
from tests.hostile_vendor import HostileVendor, json_reply, reply, then_waits

pytestmark = pytest.mark.django_db

PAGED = ("a2t", "mcp", "acp")
IMPATIENT = Limits(backoff=())
FAILING = json_reply({"message": "later"}, status=503)


@pytest.fixture
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin())


def on_protocols(*protocols):
    return pytest.mark.parametrize("bench", protocols, indirect=True)


def breaks_off(bench, page=3, how=FAILING, limits=IMPATIENT):
    """A reading that ends on this page; the vendor is well again afterwards."""
    bench.shop.turn = lambda number, document: how if number == page else document
    run = bench.enumerate(limits)
    assert (run.status, run.error_code) == ("failed", "INCOMPLETE")
    assert KeptReply.objects.exists()
    bench.shop.well()
    return run


def reads(bench, limits=IMPATIENT):
    """The run, and the pages of the list that it asked for, in order."""
    before = len(bench.vendor.requests)
    run = bench.enumerate(limits)
    requests = [request for request in bench.vendor.requests[before:] if bench.dialect.is_list(request)]
    # An MCP vendor gets further requests at the same address, for its other lists.
    lists = [request for request in requests if b'"server/discover"' not in request.body]
    return run, [int(bench.dialect.cursor_of(list_request) or 0) // PAGE + 1 for list_request in lists]


def remaining_pages(bench, page, page_count):
    """A search without an end gets one more request, whose page is empty."""
    return list(range(page, page_count + 1 + (bench.dialect.name == "acp")))


def beginning(bench):
    """The look at the first page, which a search shows once it is known whether another one follows."""
    return [1, 2] if bench.dialect.name == "acp" else [1]


def reword(bench, words):
    bench.shop.tools = [bench.dialect.described(tool, words) for tool in bench.shop.tools]


def words_of(bench):
    """Return the newest versions: held for review where the vendor rewrote one in place, else as listed."""
    tools = Tool.objects.filter(endpoint=bench.endpoint).select_related("current", "stopped")
    assert [bool(tool.stopped) for tool in tools] == [bool(tool.current.label) for tool in tools]
    return {(tool.stopped or tool.current).decoded().description for tool in tools}


@pytest.mark.parametrize(
    ("bench", "how"),
    [*((dialect, FAILING) for dialect in PAGED), ("a2t", then_waits(b""))],
    indirect=["bench"],
)
def test_52_the_next_reading_goes_on_where_the_last_one_broke_off(bench, how):
    reword(bench, "Other words.")
    before = bench.dump()
    breaks_off(bench, 3, how, SHORT)
    assert bench.dump() == before, "what was read is kept for us, and shown to nobody"
    run, pages = reads(bench)
    assert (run.status, run.changed, run.withdrawn) == ("succeeded", 6, 0)
    assert pages == [*remaining_pages(bench, 3, page_count=3), *beginning(bench)], (
        "the rest, and once more the beginning"
    )
    assert run.pages == 3
    assert words_of(bench) == {"Other words."}
    assert [note["code"] for note in run.notes if note["code"] == "RESUMED"] == ["RESUMED"]
    assert not KeptReply.objects.exists()


@on_protocols("a2t", "acp")
def test_52_each_try_goes_further(bench):
    bench.shop.tools += [bench.dialect.tool(number) for number in range(7, 11)]
    for page in (2, 4, 4, 5):
        run = breaks_off(bench, page)
        assert run.pages == page - 1
    run, pages = reads(bench)
    assert (run.status, run.seen, run.added) == ("succeeded", 10, 4)
    assert pages == [*remaining_pages(bench, 5, page_count=5), *beginning(bench)]


@on_protocols("acp")
def test_agents_that_were_described_are_not_asked_again(bench):
    request_count = len(bench.vendor.requests)
    breaks_off(bench, 3)
    first = [
        request.path
        for request in bench.vendor.requests[request_count:]
        if request.path.endswith("/descriptor")
    ]
    assert len(first) == 4
    request_count = len(bench.vendor.requests)
    assert bench.enumerate().unchanged == 6
    again = [
        request.path
        for request in bench.vendor.requests[request_count:]
        if request.path.endswith("/descriptor")
    ]
    assert again[:2] == [path for path in again if path not in first]
    assert len(again) == 4, "those of the last page, and of the first in the second look"


@on_protocols(*PAGED)
def test_a_list_that_changed_meanwhile_is_read_from_its_beginning(bench):
    breaks_off(bench)
    reword(bench, "Words of today.")
    run, pages = reads(bench)
    assert (run.status, run.changed, run.unchanged) == ("succeeded", 6, 0)
    all_pages = remaining_pages(bench, 1, page_count=3)
    assert pages == [*all_pages[2:], *beginning(bench), *all_pages, *beginning(bench)]
    assert words_of(bench) == {"Words of today."}


@on_protocols("a2t", "mcp")
def test_what_is_as_it_always_was_is_looked_at_all_the_same(bench):
    """Replies of an hour ago prove nothing about now, even if the rest of the list is as remembered."""
    breaks_off(bench)
    bench.shop.tools[0] = bench.dialect.described(bench.shop.tools[0], "Words of today.")
    run, pages = reads(bench)
    assert (run.changed, run.unchanged) == (1, 5)
    assert pages[:2] == [3, 1]


@on_protocols("a2t")
def test_tools_that_are_gone_are_withdrawn_only_after_a_reading_of_its_own(bench):
    breaks_off(bench)
    del bench.shop.tools[-1]
    run, pages = reads(bench)
    assert (run.status, run.withdrawn) == ("succeeded", 1)
    assert pages[-4:].count(2) == 1


@on_protocols(*PAGED)
def test_a_cursor_that_died_meanwhile_ends_no_run(bench):
    breaks_off(bench)
    turns = []

    def turn(number, document):
        if number == 3 and not turns:
            turns.append(number)
            return json_reply({"message": "Which page?"}, status=404)
        return document

    bench.shop.turn = turn
    run, pages = reads(bench)
    assert (run.status, run.unchanged) == ("succeeded", 6)
    asked_anew = {"mcp": [3, 3, 1], "a2t": [3, 1, 2, 3], "acp": [3, 1, 2, 3, 4, 1, 2]}
    assert pages == asked_anew[bench.dialect.name]


@on_protocols("mcp")
def test_a_cursor_that_a_vendor_of_mcp_has_forgotten(bench):
    breaks_off(bench)
    turns = []

    def turn(number, document):
        if number == 3 and not turns:
            turns.append(number)
            error = {"code": -32602, "message": "Unknown cursor"}
            return json_reply({"jsonrpc": "2.0", "id": document["id"], "error": error})
        return document

    bench.shop.turn = turn
    run, pages = reads(bench)
    assert (run.status, run.unchanged) == ("succeeded", 6)
    assert pages == [3, 1, 2, 3, 1]


@on_protocols("mcp")
def test_an_answer_that_says_later_is_no_page(bench):
    """It comes with status 200, and would be reused for an hour if it were stored."""

    def turn(number, document):
        error = {"code": -32603, "message": "Overloaded"}
        return (
            document if number < 3 else json_reply({"jsonrpc": "2.0", "id": document["id"], "error": error})
        )

    bench.shop.turn = turn
    assert bench.enumerate().error_code == "INCOMPLETE"
    bench.shop.well()
    run, pages = reads(bench)
    assert (run.status, pages) == ("succeeded", [3, 1])


@on_protocols("a2t")
def test_a_page_that_cannot_be_read_is_kept_for_nobody(bench):
    breaks_off(bench)
    bench.shop.turn = lambda number, document: b"{" if number == 3 else document
    run, pages = reads(bench)
    assert (run.status, run.error_code) == ("failed", "JSON_SYNTAX")
    assert pages == [3, 1, 2, 3], "whether it is the vendor's list or what we kept is found out at once"
    assert not KeptReply.objects.exists()
    bench.shop.well()
    assert reads(bench)[1][:3] == [1, 2, 3]


@on_protocols("a2t")
def test_reading_it_from_its_beginning_takes_no_second_time_of_its_own(bench, monkeypatch):
    """Twice the time would be more than a worker has."""
    breaks_off(bench)
    before = len(bench.vendor.requests)
    clock = SimpleNamespace(monotonic=lambda: 130.0 * (len(bench.vendor.requests) - before))
    for module in (enumeration_runs, listing, deadline):
        monkeypatch.setattr(module, "time", clock)
    bench.shop.turn = lambda number, document: b"{" if number == 3 else document
    run, pages = reads(bench)
    assert (run.error_code, pages) == ("DEADLINE", [3, 1, 2])


@on_protocols("a2t")
def test_kept_bytes_that_cannot_be_read_do_no_harm(bench):
    breaks_off(bench)
    KeptReply.objects.update(body=zlib.compress(b'{"items": "none"}'))
    run, pages = reads(bench)
    assert (run.status, run.unchanged, pages[:3]) == ("succeeded", 6, [1, 2, 3])


@on_protocols("a2t")
def test_after_an_hour_the_list_is_read_from_its_beginning(bench):
    breaks_off(bench)
    KeptReply.objects.update(since=timezone.now() - timedelta(minutes=59))
    breaks_off(bench)
    age = timezone.now() - KeptReply.objects.latest("since").since
    assert age > timedelta(minutes=58), "what a later try adds is no younger than what it goes on from"
    KeptReply.objects.update(since=timezone.now() - timedelta(minutes=61))
    assert reads(bench)[1][:3] == [1, 2, 3]
    breaks_off(bench)
    schedule.tick()
    assert KeptReply.objects.exists()
    KeptReply.objects.update(since=timezone.now() - timedelta(minutes=61))
    schedule.tick()
    assert not KeptReply.objects.exists()


@on_protocols("a2t")
@pytest.mark.parametrize("change", ["address", "setting", "credential"])
def test_what_another_reader_read_is_not_used(bench, change):
    breaks_off(bench)
    if change == "credential":
        credential_operations.replace_secret(
            bench.endpoint.credential, actor=bench.admin, secret="another-0f5b2c9e7d"
        )
    else:
        changes = {
            "address": {"url": bench.endpoint.url + "/tools"},
            "setting": {"settings": {"page_size": 7}},
        }
        Endpoint.objects.filter(pk=bench.endpoint.pk).update(**changes[change])
    bench.endpoint = Endpoint.objects.get(pk=bench.endpoint.pk)
    request_count = len(bench.vendor.requests)
    bench.enumerate()
    assert len(bench.vendor.requests) >= request_count + 3
    assert not KeptReply.objects.exists()


def test_whoever_signs_in_anew_reads_a_list_of_their_own():
    with AuthorizationServer() as server:
        credential = signed_in(server)
        endpoint = make_endpoint(url=f"{server.url}/", credential=credential)

        def reader():
            current_endpoint = Endpoint.objects.get(pk=endpoint.pk)
            return known_pages.reader_of(current_endpoint, current_endpoint.build_protocol())

        before = reader()
        assert reader() == before
        sign(server, credential, make_user(Role.ADMIN))
        after = reader()
        credential_operations.update_credential(credential, actor=make_user(Role.ADMIN), scope="write")
        assert len({before, after, reader()}) == 3


def test_another_user_name_reads_a_list_of_its_own():
    url, actor = "http://127.0.0.1:9/", make_user(Role.ADMIN)
    details = {"name": "Ours", "kind": "basic", "url": url, "secret": "s3cret", "username": "ada"}
    credential = credential_operations.create_credential(actor=actor, **details)
    endpoint = make_endpoint(url=url, credential=credential)
    before = known_pages.reader_of(endpoint, endpoint.build_protocol())
    credential_operations.update_credential(credential, actor=actor, username="bob")
    endpoint = Endpoint.objects.get(pk=endpoint.pk)
    assert known_pages.reader_of(endpoint, endpoint.build_protocol()) != before


@on_protocols("a2t")
def test_a_held_list_is_read_from_its_beginning_when_a_person_has_confirmed(bench):
    breaks_off(bench)
    bench.shop.tools = bench.shop.tools[:2]
    run = bench.enumerate()
    assert run.error_code == "SHRINK_HELD"
    assert not KeptReply.objects.exists()


@on_protocols("a2t")
def test_a_list_that_never_rests_leaves_nothing_to_go_on_from(bench):
    count = iter(range(1_000))
    bench.shop.turn = lambda number, document: (
        document | {"items": [item | {"description": f"Words {next(count)}."} for item in document["items"]]}
    )
    assert bench.enumerate().error_code == "UNSTABLE"
    assert not KeptReply.objects.exists()


@on_protocols("a2t")
def test_a_run_that_is_given_up_leaves_nothing_to_go_on_from(bench):
    breaks_off(bench)
    run = enumeration_runs.request_run(bench.endpoint, trigger=Trigger.COMMAND)
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(status="running", attempt=lease.MAX_ATTEMPTS, lease_until=past)
    schedule.tick()
    assert Run.objects.get(pk=run.pk).error_code == "PARKED"
    assert not KeptReply.objects.exists()


@on_protocols("a2t")
def test_no_secret_is_kept(bench):
    bench.shop.headers = {"Set-Cookie": "session=cookie-0f5b2c9e7d", "X-Token": "token-0f5b2c9e7d"}
    breaks_off(bench)
    for row in KeptReply.objects.all():
        text = f"{row.url} {row.headers} {zlib.decompress(row.body)!r}"
        assert "0f5b2c9e7d" not in text
        assert SECRET not in text


@on_protocols("a2t")
def test_a_list_read_in_several_runs_may_be_no_longer_than_one_read_in_one(bench, monkeypatch):
    breaks_off(bench)
    size = sum(len(zlib.decompress(row.body)) for row in KeptReply.objects.all())
    monkeypatch.setattr(bounds, "MIB", size)
    Endpoint.objects.update(max_megabytes=1)
    bench.endpoint.refresh_from_db()
    run = bench.enumerate()
    assert run.error_code == "BODY_TOO_LARGE"
    assert f"{bench.host} sent more than" in run.error_message
    assert "raise “Megabytes of all replies of one sync”" in run.error_message
    assert not KeptReply.objects.exists()


@on_protocols("a2t")
def test_whoever_lost_the_run_keeps_nothing(bench):
    run = enumeration_runs.request_run(bench.endpoint, trigger=Trigger.COMMAND)
    run = lease.claim(run.pk)
    replies = kept_replies.Replies(run)
    with sessions.open_session(bench.endpoint) as session:
        talk = replies.over(session, "a2t")
        talk.get("/tools", params={"pageLimit": "2"})
        talk.get("/tools", params={"pageLimit": "2", "pageCursor": "2"})
        replies.store()
        assert KeptReply.objects.count() == 1, "whether the newest can be read is not known yet"
        talk.get("/tools", params={"pageLimit": "2", "pageCursor": "4"})
    Run.objects.filter(pk=run.pk).update(attempt=2)
    replies.store()
    assert KeptReply.objects.count() == 1
    with pytest.raises(lease.LostLeaseError):
        lease.lock(run)


class OldServer:
    """MCP of 2025-11-25: pages are given in a session only, and a session's id is as good as a key."""

    def __init__(self):
        self.sessions = []
        self.asked = []
        self.is_away = self.is_gone = False

    def __call__(self, line, request):
        return self.answer(request)(line, request)

    def answer(self, request):
        if request.method == "DELETE":
            return reply(b"", status=204)
        if self.is_gone:
            return FAILING
        rpc_request = request.json()
        self.asked.append(rpc_request["method"] + str(rpc_request.get("params", {}).get("cursor", "")))
        if request.headers.get("mcp-session-id") not in self.sessions:
            return self.greet(rpc_request)
        if rpc_request["method"] != "tools/list":
            return reply(b"", status=202)
        start = int(rpc_request["params"].get("cursor", 0))
        if self.is_away and start == 2:
            return FAILING
        after = {"nextCursor": str(start + 1)} if start < 2 else {}
        return self.result(rpc_request, {"tools": [DIALECTS["mcp"].tool(start)], **after})

    def greet(self, rpc_request):
        if rpc_request["method"] != "initialize":
            return json_reply({"message": "Say hello first."}, status=400)
        self.sessions.append(f"session-{len(self.sessions)}-0f5b2c9e7d")
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}}
        return self.result(rpc_request, hello, {"Mcp-Session-Id": self.sessions[-1]})

    def result(self, rpc_request, result, headers=None):
        message = {"jsonrpc": "2.0", "id": rpc_request["id"], "result": result}
        return reply(json.dumps(message).encode(), headers=headers or {})


def test_a_session_is_opened_anew_and_the_list_goes_on():
    server = OldServer()
    with HostileVendor(server) as vendor:
        endpoint = make_endpoint(protocol="mcp", url=vendor.url, requests_per_second=1_000)
        server.is_away = True
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run.pk).error_code == "INCOMPLETE"
        assert "0f5b2c9e7d" not in str(list(KeptReply.objects.values("url", "headers")))
        server.is_gone, server.sessions = True, []
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
        assert enumeration_runs.perform(run.pk).error_code == "HTTP_503"
        assert KeptReply.objects.count() == 2, "who does not even get in loses nothing of it"
        server.is_gone = server.is_away = False
        server.asked.clear()
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
        run = enumeration_runs.perform(run.pk)
    assert (run.status, run.pages, run.added) == ("succeeded", 3, 3)
    hello = ["initialize", "notifications/initialized"]
    assert server.asked == [*hello, "tools/list2", *hello, "tools/list"]
