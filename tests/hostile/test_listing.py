"""Lists that lead nowhere, change while they are read, or lose what they had (47 to 55 and 70)."""

from datetime import UTC

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Tool
from core.outbound.limits import Limits
from tests.hostile.bench import SHORT, USUAL, Bench, as_admin, rejections
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, json_reply, raw, reply

pytestmark = pytest.mark.django_db

CURSORS = ("a2t", "mcp")
PAGED = ("a2t", "mcp", "acp")
FAILING = json_reply({"message": "later"}, status=503)


@pytest.fixture
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin())


def on_protocols(protocols):
    return pytest.mark.parametrize("bench", protocols, indirect=True)


def ends(bench, code, message, *, turn, limits=USUAL, pages=None):
    """Reads once with `turn`, which must fail so, and once without, which must find all as it was."""
    before = bench.dump()
    bench.shop.turn = turn
    run = bench.enumerate(limits)
    message = message.format(host=bench.host)
    assert (run.status, run.error_code, run.error_message) == ("failed", code, message)
    assert pages is None or run.pages == pages
    bench.is_told(run, code, message)
    assert bench.dump() == before
    bench.shop.well()
    again = bench.enumerate()
    assert (again.status, again.unchanged, again.withdrawn) == ("succeeded", 6, 0)
    assert bench.dump() == before
    return run


def follow(bench, page, cursor):
    """Return a change of the list that replaces the cursor of `page`."""
    return lambda number, document: bench.dialect.follow(document, cursor) if number == page else document


@on_protocols(CURSORS)
def test_47_a_cursor_that_repeats_ends_the_list(bench):
    message = "Page 3 points back to page 2, so the listing never ends."
    ends(bench, "CURSOR_LOOP", message, turn=follow(bench, 3, "2"))
    message = "Page 2 points back to page 2, so the listing never ends."
    ends(bench, "CURSOR_LOOP", message, turn=follow(bench, 2, "2"))


@on_protocols(CURSORS)
def test_48_new_cursors_over_the_same_tools_end_after_twenty_pages(bench):
    def turn(number, document):
        bench.dialect.items_in(document)[:] = bench.shop.tools[:2]
        return bench.dialect.follow(document, f"x{len(bench.vendor.requests)}")

    request_count = len(bench.vendor.requests)
    message = "20 pages in a row, up to page 21, contained no new tool, but the list continues."
    ends(bench, "NO_PROGRESS", message, turn=turn, pages=21)
    assert len(bench.vendor.requests) <= request_count + 28


@on_protocols(("acp",))
def test_48_a_search_that_heeds_no_offset_is_read_once(bench):
    before = bench.dump()
    bench.shop.turn = lambda number, document: bench.dialect.page(bench.shop.tools, None, None)
    run = bench.enumerate()
    assert (run.status, run.unchanged) == ("succeeded", 6)
    assert bench.dump() == before


@on_protocols(PAGED)
def test_49_one_tool_more_than_the_endpoint_lets_in(bench):
    before = bench.dump()
    Endpoint.objects.update(max_tools=3)
    bench.endpoint.refresh_from_db()
    run = bench.enumerate()
    message = (
        "The list contains more than 3 tools. An administrator can raise “Tools in the list, at most” in the "
        "endpoint's settings, up to 1,000,000."
    )
    assert (run.error_code, run.error_message) == ("TOO_MANY_TOOLS", message)
    bench.is_told(run, "TOO_MANY_TOOLS", message)
    assert bench.dump() == before
    Endpoint.objects.update(max_tools=6)
    bench.endpoint.refresh_from_db()
    assert bench.enumerate().unchanged == 6


@on_protocols(("a2t",))
def test_50_a_next_page_on_another_server_is_not_asked(bench):
    with HostileVendor(reply(), host="127.0.0.66") as canary:
        for url in (f"{canary.url}/tools?pageCursor=2", f"HTTP://127.0.0.66:{canary.port}/"):
            message = (
                f"Page 2: The list continues at 127.0.0.66:{canary.port}. "
                "Pegboard does not follow a list to another server."
            )
            ends(bench, "FOREIGN_NEXT", message, turn=follow(bench, 2, url))
        assert canary.connections == 0


@on_protocols(("mcp",))
def test_50_a_cursor_that_looks_like_an_address_is_a_text(bench):
    before = bench.dump()
    with HostileVendor(reply(), host="127.0.0.66") as canary:
        bench.shop.turn = follow(bench, 2, f"{canary.url}/mcp")
        run = bench.enumerate()
        assert (run.status, run.error_code) == ("failed", "CURSOR_LOOP")
        assert canary.connections == 0
    assert bench.dump() == before


@on_protocols(CURSORS)
def test_51_a_cursor_that_is_none_ends_the_list(bench):
    member = "paging.next" if bench.dialect.name == "a2t" else "nextCursor"
    message = (
        f"Page 2: “{member}” is not a cursor: it must be text of at most 2,048 characters, "
        "none of them a control character."
    )
    odd = ("x" * 100_000, "a\r\nX-Evil: 1", {"a": 1}, ["2"], 2, True, 1.5, "\ud800", "a\u0085b")
    for cursor in odd:
        ends(bench, "BAD_CURSOR", message, turn=follow(bench, 2, cursor))


@on_protocols(PAGED)
def test_52_a_page_that_fails_three_times_leaves_the_list_as_it_was(bench):
    last_success = bench.endpoint.last_success_at.astimezone(UTC)
    message = (
        "2 of ? pages were read. Page 3: {host} answered 503 Service Unavailable. "
        f"The list of {last_success:%-d %b, %H:%M} stays."
    )
    request_count = len(bench.vendor.requests)
    bench.shop.tools = [bench.dialect.described(tool, "Other words.") for tool in bench.shop.tools]
    before = bench.dump()
    bench.shop.turn = lambda number, page: FAILING if number == 3 else page
    run = bench.enumerate(Limits(backoff=(0.001, 0.001)))
    assert (run.status, run.error_code, run.error_message) == (
        "failed",
        "INCOMPLETE",
        message.format(host=bench.host),
    )
    assert (run.pages, run.seen) == (2, 4)
    bench.is_told(run, "INCOMPLETE", run.error_message)
    assert bench.dump() == before
    lists = [request for request in bench.vendor.requests[request_count:] if bench.dialect.is_list(request)]
    assert len(lists) == 5
    bench.shop.well()
    assert bench.enumerate().changed == 6


@on_protocols(PAGED)
def test_52_fails_at_each_page(bench):
    for page in (1, 2, 3):
        before = bench.dump()
        bench.shop.turn = lambda number, document, page=page: raw(b"") if number == page else document
        run = bench.enumerate(SHORT)
        assert (run.status, run.pages) == ("failed", page - 1)
        assert run.error_code == ("INCOMPLETE" if page > 1 else "NO_REPLY")
        assert bench.dump() == before
        bench.shop.well()
        assert bench.enumerate().unchanged == 6


@on_protocols(PAGED)
def test_53_a_list_that_changes_while_it_is_read_three_times(bench):
    """The third page shows other words than the first: what was read belongs to no moment."""
    message = "The list changed each time while it was read, 3 times in a row. It is read again later."
    readings = []

    def turn(number, document):
        if number == 2:
            readings.append(number)
            words = f"Words of reading {len(readings)}."
            bench.shop.tools = [bench.dialect.described(tool, words) for tool in bench.shop.tools]
        return document

    before = bench.dump()
    bench.shop.turn = turn
    run = bench.enumerate()
    assert (run.status, run.error_code, run.error_message) == ("failed", "UNSTABLE", message)
    bench.is_told(run, "UNSTABLE", message)
    assert bench.dump() == before
    # An agent's page is known to be one of several once the page after it has come.
    assert len(readings) == (6 if bench.dialect.name == "acp" else 3)
    bench.shop.well()
    bench.shop.tools = [bench.dialect.tool(number) for number in range(1, 7)]
    assert bench.enumerate().unchanged == 6


@on_protocols(PAGED)
def test_53_a_list_that_changes_once_is_read_again_and_taken_whole(bench):
    turns = []

    def turn(number, document):
        if number == 2 and not turns:
            turns.append(number)
            bench.shop.tools = [bench.dialect.described(tool, "Other words.") for tool in bench.shop.tools]
        return document

    bench.shop.turn = turn
    run = bench.enumerate()
    assert (run.status, run.changed, run.unchanged) == ("succeeded", 6, 0)
    tools = Tool.objects.filter(endpoint=bench.endpoint).select_related("current", "stopped")
    words = {(tool.stopped or tool.current).decoded().description for tool in tools}
    assert words == {"Other words."}
    assert [bool(tool.stopped) for tool in tools] == [bool(tool.current.label) for tool in tools], (
        "held for review where the vendor rewrote what it had numbered, and nowhere else"
    )


@on_protocols(PAGED)
def test_53_pages_that_shrink_while_they_are_read_lose_nothing(bench):
    """A tool that is taken off the first page moves another over the edge that was read already."""
    removed_tool = bench.shop.tools[0]

    def turn(number, document):
        if number == 1 and removed_tool in bench.shop.tools:
            bench.shop.tools.remove(removed_tool)
        return document

    bench.shop.turn = turn
    run = bench.enumerate()
    assert (run.status, run.seen, run.withdrawn) == ("succeeded", 5, 1)
    active = Tool.objects.filter(endpoint=bench.endpoint, status="active")
    assert {tool.tool_id for tool in active} == {bench.dialect.id_of(tool) for tool in bench.shop.tools}


@on_protocols(DIALECTS)
def test_54_an_empty_list_waits_for_a_person(bench):
    message = (
        "The vendor now lists none of the tools it listed before. Nothing was withdrawn. "
        "Confirm if these tools are really gone, or sync again later."
    )
    before = bench.dump()
    tools, bench.shop.tools = bench.shop.tools, []
    run = bench.enumerate()
    assert (run.status, run.error_code, run.error_message) == ("failed", "EMPTY_HELD", message)
    assert (run.would_withdraw, bench.endpoint.status) == (6, "held")
    bench.is_told(run, "EMPTY_HELD", message)
    assert "Yes, withdraw 6 tools" in bench.run_page(run)
    assert bench.dump() == before
    bench.shop.tools = tools
    assert (bench.enumerate().unchanged, bench.endpoint.status) == (6, "ok")
    assert bench.dump() == before


@on_protocols(DIALECTS)
def test_55_a_list_without_more_than_thirty_percent_waits_for_a_person(bench):
    before = bench.dump()
    tools = bench.shop.tools
    bench.shop.tools = tools[2:]
    run = bench.enumerate()
    message = (
        "2 of 6 tools are missing from the vendor's list. Nothing was withdrawn. "
        "Confirm if these tools are really gone, or sync again later."
    )
    assert (run.status, run.error_code, run.error_message) == ("failed", "SHRINK_HELD", message)
    bench.is_told(run, "SHRINK_HELD", message)
    assert bench.dump() == before
    bench.shop.tools = tools[1:]
    run = bench.enumerate()
    assert (run.status, run.withdrawn) == ("succeeded", 1)
    bench.shop.tools = tools
    assert bench.enumerate().returned == 1


@on_protocols(DIALECTS)
@pytest.mark.parametrize("count", [69, 71])
def test_55_the_line_is_thirty_percent(bench, count):
    bench.shop.page_size = 200
    bench.shop.tools = [bench.dialect.tool(number) for number in range(1, 101)]
    if bench.dialect.name == "acp":
        bench.endpoint.settings = {"page_size": 200}
        bench.endpoint.save()
    assert bench.enumerate().added == 94
    bench.shop.tools = bench.shop.tools[:count]
    run = bench.enumerate()
    assert run.error_code == ("SHRINK_HELD" if count == 69 else "")
    assert (run.would_withdraw, run.withdrawn) == ((31, 0) if count == 69 else (0, 29))
    confirmed_run = enumeration_runs.confirm_held(run, actor=bench.admin) if count == 69 else None
    assert confirmed_run is None or enumeration_runs.perform(confirmed_run.pk).withdrawn == 31


@on_protocols(("mcp",))
def test_70_an_answer_to_another_request_is_no_answer(bench):
    message = "{host} answered another request than the one that was asked."
    for other in (0, -1, 10**30, "1", True, 1.0, {}, [], None):
        before = bench.dump()
        bench.shop.turn = lambda number, page, other=other: page | {"id": other}
        run = bench.enumerate()
        assert (run.status, run.error_code) == ("failed", "RPC_MISMATCH"), other
        assert run.error_message == message.format(host=bench.host)
        bench.is_told(run, "RPC_MISMATCH", run.error_message)
        assert bench.dump() == before
        bench.shop.well()
        assert bench.enumerate().unchanged == 6


@on_protocols(("mcp",))
def test_70_an_error_with_status_200_is_told_in_the_vendors_words(bench):
    words = "<script>x</script> \x1b[31m \u202e " + "long " * 200

    def turn(number, page):
        error = {"code": -32099, "message": words}
        return json_reply({"jsonrpc": "2.0", "id": page["id"], "error": error})

    before = bench.dump()
    bench.shop.turn = turn
    run = bench.enumerate()
    assert (run.status, run.error_code) == ("failed", "RPC_ERROR")
    assert run.error_message.isprintable()
    assert len(run.error_message) < 600
    assert r"<script>x</script> \x1b[31m \u202e long" in run.error_message
    page = bench.pages.get(f"/runs/{run.pk}/").content.decode()
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert bench.dump() == before
    bench.shop.well()
    assert bench.enumerate().unchanged == 6
    assert rejections(run) == []
