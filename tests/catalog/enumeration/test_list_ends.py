"""A list ends by the sign of its protocol. If it ends otherwise, there is a note and no tool is withdrawn."""

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from catalog.models.tools import ToolStatus
from people.models import Role
from tests.clients import signed_in
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, json_reply

pytestmark = pytest.mark.django_db
AGENT_IDS = [f"5f0a3c1e-8d7b-4f16-9a52-0c6e1b2d3f{number:02}" for number in range(1, 26)]


def mcp_tool(name):
    return {"name": name, "description": "Does it.", "inputSchema": {"type": "object"}}


def a2t_tool(number):
    identity = f"00000000-0000-0000-0000-0000000000{number:02}"
    output = {"id": "o", "name": "o", "type": "string", "description": "What came of it."}
    tool = {"toolId": identity, "name": f"t{number}", "description": "Does it.", "version": 1}
    return tool | {"output_parameters": [output]}


class Mcp:
    """Answers `tools/list` with the result of `page` for a cursor, None for the first page."""

    def __init__(self, page, is_modern=True):
        self.page, self.is_modern = page, is_modern
        self.cursors = []

    def __call__(self, line, request):
        message = request.json()
        return json_reply(self.answer(message, request))(line, request)

    def answer(self, message, request):
        frame = {"jsonrpc": "2.0", "id": message.get("id")}
        if not self.is_modern and "mcp-method" in {name.lower() for name in request.headers}:
            return frame | {"error": {"code": -32600, "message": "Unknown."}}
        if message["method"] == "initialize":
            version = {"protocolVersion": "2025-11-25", "capabilities": {}}
            return frame | {"result": version | {"serverInfo": {"name": "v", "version": "1"}}}
        if message["method"] != "tools/list":
            return frame | {"result": {}}
        cursor = message["params"].get("cursor")
        self.cursors.append(cursor)
        page = self.page(cursor)
        if page is None:
            return frame | {"error": {"code": -32602, "message": "Unknown cursor."}}
        more = {"resultType": "complete"} if self.is_modern else {}
        return frame | {"result": more | {"tools": [mcp_tool(name) for name in page[0]]} | page[1]}


def run_enumeration(endpoint):
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def run_body(run):
    """Return the run over REST."""
    return signed_in(Role.VIEWER).get(f"/api/v1/runs/{run.pk}/").json()


def codes(run):
    return [note["code"] for note in run_body(run)["notes"]]


def active():
    return sorted(Tool.objects.filter(status=ToolStatus.ACTIVE).values_list("name", flat=True))


PAGES = {None: (["t0", "t1"], {"nextCursor": ""}), "": (["t2", "t3"], {})}


def test_an_empty_cursor_of_2026_leads_to_the_next_page():
    speak = Mcp(PAGES.get)
    with HostileVendor(speak) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="mcp")
        run = run_enumeration(endpoint)
        assert (run.status, run.pages, run.seen, codes(run)) == ("succeeded", 2, 4, [])
        speak.cursors.clear()
        assert run_enumeration(endpoint).unchanged == 4
        assert speak.cursors[:2] == [None, ""]
        speak.page = {None: PAGES[None], "": (["t2"], {})}.get
        assert run_enumeration(endpoint).withdrawn == 1
        assert active() == ["t0", "t1", "t2"]


def test_an_empty_cursor_may_come_after_another_one():
    pages = {None: (["t0"], {"nextCursor": "a"}), "a": (["t1"], {"nextCursor": ""}), "": (["t2"], {})}
    with HostileVendor(Mcp(pages.get)) as vendor:
        run = run_enumeration(make_endpoint(url=vendor.url, protocol="mcp"))
    assert (run.status, run.seen, run.pages) == ("succeeded", 3, 3)


def test_an_empty_cursor_before_2026_is_the_end():
    speak = Mcp(PAGES.get, is_modern=False)
    with HostileVendor(speak) as vendor:
        run = run_enumeration(make_endpoint(url=vendor.url, protocol="mcp"))
    assert (run.status, run.seen, codes(run)) == ("succeeded", 2, [])
    assert set(speak.cursors) == {None}


@pytest.mark.parametrize("takes_empty", [True, False])
def test_an_empty_cursor_that_means_the_end_all_the_same_is_noted(takes_empty):
    def page(cursor):
        return (names, {"nextCursor": ""}) if cursor is None or takes_empty else None

    names = ["t0", "t1"]
    with HostileVendor(Mcp(page)) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="mcp")
        assert (run_enumeration(endpoint).status, active()) == ("succeeded", ["t0", "t1"])
        names = ["t1"]
        run = run_enumeration(endpoint)
    assert (run.status, run.withdrawn, codes(run)) == ("succeeded", 0, ["LIST_END_UNKNOWN"])
    assert active() == ["t0", "t1"]


def test_an_empty_cursor_that_comes_back_is_a_loop():
    pages = {None: (["t0"], {"nextCursor": ""}), "": (["t1"], {"nextCursor": ""})}
    with HostileVendor(Mcp(pages.get)) as vendor:
        run = run_enumeration(make_endpoint(url=vendor.url, protocol="mcp"))
    assert (run.status, run.error_code) == ("failed", "CURSOR_LOOP")


def mcp_of(pages):
    def page(cursor):
        number = int(cursor or 0)
        more = {} if number == len(pages) - 1 else {"nextCursor": str(number + 1)}
        return [f"t{number}" for number in pages[number]], more

    return "mcp", Mcp(page)


def a2t_of(pages):
    def script(line, request):
        number = int(request.target.partition("pageCursor=")[2] or 0)
        paging = {} if number == len(pages) - 1 else {"next": str(number + 1)}
        items = [a2t_tool(number) for number in pages[number]]
        return json_reply({"items": items, "paging": paging})(line, request)

    return "a2t", script


@pytest.mark.parametrize("vendor_of", [a2t_of, mcp_of])
@pytest.mark.parametrize("empty", [1, 19])
def test_pages_without_a_tool_are_passed(vendor_of, empty):
    protocol, script = vendor_of([[1, 2], *[[]] * empty, [3, 4]])
    with HostileVendor(script) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol=protocol)
        run = run_enumeration(endpoint)
        assert (run.status, run.seen, codes(run)) == ("succeeded", 4, [])
        assert run_enumeration(endpoint).unchanged == 4


@pytest.mark.parametrize("vendor_of", [a2t_of, mcp_of])
@pytest.mark.parametrize("pages", [[[1], *[[]] * 40, [2]], [[1], *[[1]] * 40, [2]]])
def test_many_pages_without_a_new_tool_end_the_run(vendor_of, pages):
    protocol, script = vendor_of(pages)
    with HostileVendor(script) as vendor:
        run = run_enumeration(make_endpoint(url=vendor.url, protocol=protocol))
    assert (run.status, run.error_code, run.pages) == ("failed", "NO_PROGRESS", 21)


class Acp:
    """Sends at most `cap` agents for a search, and heeds the offset or not."""

    def __init__(self, ids, cap, heeds_offset=True):
        self.ids, self.cap, self.heeds_offset = ids, cap, heeds_offset

    def __call__(self, line, request):
        metadata = {"ref": {"name": "agent", "version": "1.0.0"}, "description": "Does it."}
        if request.path != "/agents/search":
            specs = {"capabilities": {}, "input": {"type": "object"}, "output": {"type": "object"}}
            return json_reply({"metadata": metadata, "specs": specs})(line, request)
        start = request.json()["offset"] if self.heeds_offset else 0
        page_ids = self.ids[start : start + min(self.cap, request.json()["limit"])]
        return json_reply([{"agent_id": agent_id, "metadata": metadata} for agent_id in page_ids])(
            line, request
        )


@pytest.mark.parametrize("cap", [1, 2, 5, 9, 25, 100])
def test_a_server_of_agents_may_cap_its_replies(cap):
    speak = Acp(AGENT_IDS, cap)
    with HostileVendor(speak) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="acp")
        run = run_enumeration(endpoint)
        assert (run.status, run.seen, run.pages, codes(run)) == ("succeeded", 25, -(-25 // cap), [])
        speak.ids = AGENT_IDS[:-1]
        assert run_enumeration(endpoint).withdrawn == 1


def test_a_server_of_agents_that_heeds_no_offset_withdraws_nothing():
    speak = Acp(AGENT_IDS[:5], 5, heeds_offset=False)
    with HostileVendor(speak) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="acp")
        assert run_enumeration(endpoint).seen == 5
        speak.ids = AGENT_IDS[:4]
        run = run_enumeration(endpoint)
    assert (run.status, run.withdrawn, codes(run)) == ("succeeded", 0, ["LIST_END_UNKNOWN"])
    assert Tool.objects.filter(status=ToolStatus.ACTIVE).count() == 5
