"""The client and the server of a protocol, over loopback: what one writes, the other reads."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, RefusedError
from core.outbound.limits import Limits
from protocols.a2t.client import A2T
from protocols.a2t.server import A2TServer
from protocols.acp.client import ACP
from protocols.acp.server.server import ACPServer
from protocols.base import Context
from protocols.call_outcome import Ask
from protocols.list_pages import NoKnownPages
from protocols.mcp.client import MCP
from protocols.mcp.eras import HANDSHAKE_ERA, MODERN_ERA
from protocols.mcp.server.release import Argument, ContextItem
from protocols.mcp.server.server import MCPServer
from protocols.oxp.client import OXP
from protocols.oxp.server import OXPServer
from protocols.server import RetryAdvice, ServedTool, ServedVersion, Server, ServerRequest, ToolCallResult
from tests.factories import make_parameter, make_signature
from tests.hostile_vendor import then_waits
from tests.protocols.memory import ACPMemory, MCPMemory
from tests.protocols.served import OK, MemoryRelease, conversation
from tests.protocols.toy.client import Toy
from tests.protocols.toy.server import ToyServer

ZIP = make_parameter("zip")
SKY = make_parameter("sky", required=False)
TOOL_ERROR = ToolCallResult(outcome="tool_error", code="BROKEN", message="The sky fell.")
SOON = RetryAdvice(can_retry=True, after_ms=2000, is_transient=True, hint="")
LINK = "https://auth.example/start"


@dataclass(frozen=True)
class Pair:
    """A client and a server. `ids` are of two tools, `labels` of the versions of the first, the oldest
    first."""

    client: Callable[[], Any]
    server: Server[Any]
    ids: tuple[str, str]
    labels: tuple[str, ...]
    unknown: tuple[str, str]
    serve: Callable[[MemoryRelease], Any] = lambda release: release

    def release(self, *inputs: Any) -> MemoryRelease:
        first, second = self.ids
        tools = {first: [self.tool(first, label, "sky", *inputs) for label in self.labels]}
        tools[second] = [self.tool(second, self.labels[0], "sea")]
        return MemoryRelease(tools)

    def tool(self, tool_id: str, label: str, name: str, *inputs: Any) -> ServedTool:
        signature = make_signature(name, description=f"{name} {label}", inputs=inputs, outputs=(SKY,))
        document = self.client().write(signature, tool_id, label)
        return ServedTool(ServedVersion(tool_id, label), name, document)

    def call(self, session: Any, tool: ServedTool, **arguments: Any) -> Any:
        client, version = self.client(), tool.version
        signature = client.read(dict(tool.document))
        return client.invoke(session, version.tool_id, version.label or None, signature, arguments)


UUIDS = tuple(f"3fa85f64-5717-4562-b3fc-2c963f66afa{n}" for n in (6, 7))
MODERN = partial(MCP, {"era": MODERN_ERA})
HANDSHAKE = partial(MCP, {"era": HANDSHAKE_ERA})
NAMES = ("sky", "sea")
PAIRS = {
    "a2t": Pair(A2T, A2TServer(), UUIDS, ("1", "2"), (UUIDS[0][:-1] + "0", "1")),
    "oxp": Pair(OXP, OXPServer(), ("Kit.Sky", "Kit.Sea"), ("1.0.0", "1.1.0"), ("Kit.Other", "1.0.0")),
    "toy": Pair(Toy, ToyServer(), NAMES, ("",), ("other", "")),
    "mcp": Pair(MODERN, MCPServer(), NAMES, ("",), ("other", ""), MCPMemory),
    "mcp with a handshake": Pair(HANDSHAKE, MCPServer(), NAMES, ("",), ("other", ""), MCPMemory),
    "acp": Pair(ACP, ACPServer(), UUIDS, ("1.0.0",), (UUIDS[0][:-1] + "0", "1.0.0"), ACPMemory),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]


def talk(pair, release, **options):
    return conversation(pair.server, pair.serve(release), **options)


def enumerated(session, client):
    pages = list(client.enumerate(session, NoKnownPages()))
    assert [entry for page in pages for entry in (*page.rejected, *page.notes)] == []
    return pages


def enumerated_items(session, client):
    return [item for page in enumerated(session, client) for item in page.items]


def interface_in(pair, document):
    signature = pair.client().read(dict(document))
    return signature.name, signature.description, signature.inputs, signature.outputs


def test_listed_tools_are_those_of_the_release(pair):
    release = pair.release(ZIP)
    with talk(pair, release) as session:
        items = enumerated_items(session, pair.client())
    tools_listed = [(item.tool_id, item.label, interface_in(pair, item.document)) for item in items]
    assert tools_listed == [
        (tool.version.tool_id, tool.version.label, interface_in(pair, tool.document))
        for tool in release.tools()
    ]


def test_an_empty_release_is_an_empty_list(pair):
    with talk(pair, MemoryRelease({})) as session:
        assert enumerated_items(session, pair.client()) == []


def test_a_list_is_read_page_by_page():
    pair = PAIRS["a2t"]
    with talk(pair, pair.release()) as session:
        pages = enumerated(session, A2T({"page_size": 1}))
    assert [[item.tool_id for item in page.items] for page in pages] == [[tool_id] for tool_id in pair.ids]
    assert [page.next is None for page in pages] == [False, True]


def test_a_cursor_of_another_list_ends_the_run():
    pair, release = PAIRS["a2t"], PAIRS["a2t"].release()
    with talk(pair, release) as session:
        pages = A2T({"page_size": 1}).enumerate(session, NoKnownPages())
        next(pages)
        release.list_id = "release 2"
        with pytest.raises(RefusedError) as refused:
            next(pages)
    assert refused.value.code == "HTTP_400"


@pytest.mark.parametrize("name", ["a2t", "oxp"])
def test_all_versions_of_a_tool_are_listed_or_fetched_one_by_one(name):
    pair = PAIRS[name]
    release = pair.release(ZIP)
    with talk(pair, release) as session:
        client, tool_id = pair.client(), pair.ids[0]
        versions = [item for page in client.versions(session, tool_id) for item in page.items]
        current = client.fetch(session, tool_id)
    assert current.label == pair.labels[-1]
    # The one list of OXP has each tool in the version that the release shows.
    assert [item.label for item in versions] == list(
        reversed(pair.labels) if name == "a2t" else pair.labels[-1:]
    )
    if name == "a2t":
        with talk(pair, release) as session:
            fetched = [pair.client().fetch(session, tool_id, item.label) for item in versions]
        assert [item.digest for item in fetched] == [item.digest for item in versions]


def test_one_tool_is_fetched_as_it_was_listed(pair):
    with talk(pair, pair.release(ZIP)) as session:
        for item in enumerated_items(session, pair.client()):
            assert pair.client().fetch(session, item.tool_id).digest == item.digest


def test_a_tool_that_is_not_there_cannot_be_fetched(pair):
    with talk(pair, pair.release()) as session, pytest.raises(RefusedError) as refused:
        pair.client().fetch(session, pair.unknown[0])
    assert refused.value.code == "NOT_FOUND"


def test_arguments_reach_the_release_and_outputs_come_back(pair):
    release = pair.release(ZIP)
    tool = release.tools()[0]
    with talk(pair, release) as session:
        outcome = pair.call(session, tool, zip="0150")
    assert (outcome.outcome, outcome.outputs["sky"], outcome.error) == ("ok", "fair", None)
    (request,) = release.calls
    assert (request.tool_name, dict(request.arguments)) == ("sky", {"zip": "0150"})


def test_an_older_version_runs_by_its_label():
    for pair in (PAIRS["a2t"], PAIRS["oxp"]):
        release = pair.release(ZIP)
        (old, new) = release.tools_by_id[pair.ids[0]]
        for tool in (old, new):
            with talk(pair, release) as session:
                assert pair.call(session, tool, zip="0150").outcome == "ok"
        assert len(release.calls) == 2


# The outcome at the clients of A2T, OXP, the toy, MCP and ACP, and its code. Each has the message, too.
COMES_BACK = {
    "tool error": (
        TOOL_ERROR,
        "tool_error HTTP_424",
        "tool_error TOOL_ERROR",
        "tool_error HTTP_424",
        "tool_error TOOL_ERROR",
        "tool_error RUN_FAILED",
    ),
    "refused arguments": (
        ToolCallResult(
            outcome="invalid_arguments", code="ARGUMENTS", message="It is odd.", fields={"zip": "is short"}
        ),
        *(
            "invalid_arguments HTTP_400",
            "invalid_arguments HTTP_422",
            "invalid_arguments HTTP_400",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "needs authorization": (
        ToolCallResult(
            outcome="needs_authorization",
            code="MISSING_REQUIREMENTS",
            message="Sign in first.",
            asks=[Ask("google", "Sign in.", url=LINK, check_url=f"{LINK}/state")],
        ),
        *(
            "tool_error HTTP_409",
            "needs_authorization MISSING_REQUIREMENTS",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "asks the user": (
        ToolCallResult(
            outcome="needs_input",
            code="QUESTION",
            message="Which city?",
            asks=[Ask("city", "Which city?")],
            can_resume=True,
        ),
        *(
            "tool_error HTTP_409",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "needs_input INPUT_REQUIRED",
            "needs_input INTERRUPT",
        ),
    ),
    "away for now": (
        ToolCallResult(outcome="unavailable", code="HTTP_503", message="Come back.", retry=SOON),
        *(
            "unavailable HTTP_503",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "refused": (
        ToolCallResult(outcome="refused", code="FORBIDDEN", message="It may not."),
        *(
            "tool_error HTTP_409",
            "refused NOT_RUN",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "not known": (
        ToolCallResult(outcome="unknown", code="DEADLINE", message="Nobody knows."),
        *(
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "still running": (
        ToolCallResult(outcome=None, code="STILL_RUNNING", message="Not yet."),
        *(
            "tool_error HTTP_409",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "outputs too long": (
        replace(OK, is_too_long=True, code="TOO_LONG", message="It is long."),
        *(
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "the model answers": (
        ToolCallResult(
            outcome="latent", code="LATENT", message="Answer it.", output_schema={"type": "string"}
        ),
        *(
            "tool_error HTTP_409",
            "tool_error TOOL_ERROR",
            "tool_error HTTP_424",
            "tool_error TOOL_ERROR",
            "tool_error RUN_FAILED",
        ),
    ),
    "refused before the call": (
        DomainError("confirm_needed", "It destroys.", status=409),
        *(
            "tool_error HTTP_409",
            "refused NOT_RUN",
            "tool_error HTTP_409",
            "needs_input INPUT_REQUIRED",
            "refused CONFLICT",
        ),
    ),
}


@pytest.mark.parametrize("situation", COMES_BACK)
def test_what_is_no_success_comes_back_with_its_message(pair, situation):
    result, *expected = COMES_BACK[situation]
    release = pair.release(ZIP)
    release.result = result
    with talk(pair, release) as session:
        outcome = pair.call(session, release.tools()[0], zip="0150")
    code = outcome.error["code"]
    name = pair.client().name
    expected_result = dict(zip(("a2t", "oxp", "toy", "mcp", "acp"), expected, strict=True))[name]
    assert f"{outcome.outcome} {code}" == expected_result
    if outcome.outcome == "needs_input":
        assert [ask.message for ask in outcome.asks] == [result.message]
    # A server that is away for now has another sentence, of the client's own session.
    elif not expected_result.startswith("unavailable"):
        assert result.message in outcome.error["message"]
    if isinstance(result, ToolCallResult) and result.fields and name in ("a2t", "oxp"):
        assert outcome.error["fields"] == result.fields
    if isinstance(result, ToolCallResult) and result.retry and name in ("a2t", "oxp"):
        assert (outcome.retry_after, outcome.can_retry) == (2.0, True)


def test_a_link_to_authorize_comes_through_with_the_way_to_ask_about_it():
    pair, release = PAIRS["oxp"], PAIRS["oxp"].release(ZIP)
    release.result = COMES_BACK["needs authorization"][0]
    with talk(pair, release) as session:
        (ask,) = pair.call(session, release.tools()[0], zip="0150").asks
    assert (ask.id, ask.url, ask.check_url) == ("google", LINK, f"{LINK}/state")


@pytest.mark.parametrize("pair", [pair for name, pair in PAIRS.items() if name != "acp"])
def test_a_transfer_is_a_success_with_an_address(pair):
    """ACP lists no transfers: they are no agents that could run."""
    transfer = {"agent": "refills", "address": "https://x.example/serve"}
    release = pair.release()
    release.result = ToolCallResult(outcome="transfer", transfer=transfer)
    with talk(pair, release) as session:
        outcome = pair.call(session, release.tools()[0])
    assert outcome.outcome == "ok"
    if pair.client().name == "mcp":
        assert all(text in outcome.outputs["text"] for text in transfer.values())
    else:
        assert transfer in (outcome.outputs, outcome.outputs.get("result"))


@pytest.mark.parametrize("name", ["mcp", "mcp with a handshake", "acp"])
def test_an_answer_to_a_question_continues_the_call(name):
    pair, release = PAIRS[name], PAIRS[name].release(ZIP)
    release.result, served = COMES_BACK["asks the user"][0], pair.serve(release)
    served.answered = OK
    tool = release.tools()[0]
    signature = pair.client().read(dict(tool.document))
    with conversation(pair.server, served) as session:
        asked = pair.call(session, tool, zip="0150")
        outcome = pair.client().resume(
            session, tool.version.tool_id, None, signature, asked.resume, {asked.asks[0].id: {"name": "Oslo"}}
        )
    assert (outcome.outcome, outcome.outputs["sky"]) == ("ok", "fair")
    assert served.answers == [{"city": {"name": "Oslo"}}]


@pytest.mark.parametrize("name", ["mcp", "mcp with a handshake", "acp"])
def test_partial_results_arrive_before_the_last_one(name):
    pair, release, partials = PAIRS[name], PAIRS[name].release(ZIP), []
    served = pair.serve(release)
    served.partials = [{"outputs": {"sky": "red"}} if name == "acp" else {"progress": {"progress": 1}}]
    with conversation(pair.server, served, follower=partials.append) as session:
        (item, _) = enumerated_items(session, pair.client())
        signature, client = pair.client().read(item.document), pair.client()
        run = client.start if name == "acp" else client.invoke
        outcome = run(session, item.tool_id, item.label or None, signature, {"zip": "0150"})
    assert (outcome.outcome, outcome.outputs["sky"]) == ("ok", "fair")
    assert partials[-1] == served.partials[0]


@pytest.mark.parametrize("name", ["mcp", "mcp with a handshake"])
def test_prompts_and_resources_are_listed_and_read(name):
    pair, release = PAIRS[name], PAIRS[name].release()
    served = pair.serve(release)
    served.items = [
        ContextItem(kind="prompt", vendor_id="greet", name="greet", arguments=[Argument(name="who")]),
        ContextItem(kind="resource", vendor_id="file:///sky", name="sky", media_type="text/plain"),
        ContextItem(kind="resource_template", vendor_id="file:///{path}", name="files"),
    ]
    with conversation(pair.server, served) as session:
        items = {
            item.tool_id: item for item in enumerated_items(session, pair.client()) if "://" in item.tool_id
        }
        kinds = [pair.client().read(item.document).kind for item in items.values()]
        assert kinds == ["prompt", "resource", "resource_template"]
        for arguments, (tool_id, item) in zip(
            ({"who": "Ann"}, {}, {"uri": "file:///a"}), items.items(), strict=True
        ):
            texts = {"messages": []} if "prompt" in tool_id else {"contents": []}
            release.result = replace(OK, outputs=texts)
            signature = pair.client().read(item.document)
            outcome = pair.client().invoke(session, tool_id, None, signature, arguments)
            assert (outcome.outcome, outcome.error) == ("ok", None)
            assert dict(release.calls[-1].arguments) == arguments


def test_a_thread_of_acp_is_begun_used_and_removed():
    pair, release = PAIRS["acp"], PAIRS["acp"].release(ZIP)
    served, client = pair.serve(release), ACP()
    with conversation(pair.server, served) as session:
        thread = client.create_thread(session, str(UUID(int=1)), {"a": "b"})
        assert served.threads_by_id[UUID(thread)].metadata == {"a": "b"}
        (item, _) = enumerated_items(session, client)
        signature = client.read(item.document)
        assert client.has_threads(signature)
        assert client.thread_state(session, signature, thread).values == {"sky": "fair"}
        (state,) = client.thread_history(session, signature, thread, 5, "")
        assert (state.checkpoint, state.values) == ("1", {"sky": "fair"})
        client.context = Context(thread=thread)
        assert client.invoke(session, item.tool_id, item.label, signature, {"zip": "1"}).outcome == "ok"
        assert [run.thread_id for run in served.runs_by_id.values()] == [UUID(thread)]
        client.remove_thread(session, thread)
    assert not served.threads_by_id


def test_an_unknown_tool_is_refused_and_reported(pair):
    release = pair.release()
    tool = pair.tool(*pair.unknown, "other")
    with talk(pair, release) as session:
        outcome = pair.call(session, tool)
    assert (outcome.outcome, outcome.error["code"]) == ("refused", "NOT_FOUND")
    assert release.calls == []
    assert len(release.unknown) == 1


def test_a_reply_that_is_late_leaves_it_open_whether_the_tool_ran(pair):
    release, limits = pair.release(), Limits(request=0.3, is_callers_deadline=True)
    with talk(pair, release, limits=limits, script=then_waits(b"")) as session:
        outcome = pair.call(session, release.tools()[0])
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", "DEADLINE")
    assert outcome.can_retry is not True


def test_a_reply_that_is_too_large_is_not_read(pair):
    release = pair.release()
    release.result = replace(OK, outputs={"sky": "x" * 5000})
    with talk(pair, release, limits=Limits(body=4000)) as session:
        outcome = pair.call(session, release.tools()[0])
    assert (outcome.outcome, outcome.error["code"]) == ("tool_error", "BODY_TOO_LARGE")
    assert len(release.calls) == 1


def test_a_list_that_is_too_large_ends_the_run(pair):
    with (
        talk(pair, pair.release(ZIP), limits=Limits(body=100)) as session,
        pytest.raises(ProtocolViolationError) as refused,
    ):
        enumerated(session, pair.client())
    assert refused.value.code == "BODY_TOO_LARGE"


def test_an_unchanged_list_is_not_sent_again():
    pair, release = PAIRS["a2t"], PAIRS["a2t"].release()
    with talk(pair, release) as session:
        first = session.get("/tools")
        again = session.get("/tools", headers={"If-None-Match": first.headers["etag"]}, accept=(200, 304))
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("form", ["bare", "wrapped"])
def test_a_call_of_oxp_is_answered_in_its_own_form(form):
    pair, release = PAIRS["oxp"], PAIRS["oxp"].release(ZIP)
    with talk(pair, release) as session:
        session.memory["revision"] = form
        assert pair.call(session, release.tools()[0], zip="0150").outcome == "ok"
        assert session.memory["revision"] == form


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
def test_the_health_of_a_server_needs_no_release(is_ready, status):
    reply = OXPServer().answer_anyone(ServerRequest(method="GET", path="health"), lambda: is_ready)
    assert reply.status == status
    assert OXPServer().answer_anyone(ServerRequest(method="GET", path="tools"), lambda: is_ready) is None
