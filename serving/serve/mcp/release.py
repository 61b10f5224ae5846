"""A release for the server of MCP: `protocols.mcp.server.release.Release` for one client."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from django.http import Http404

import protocols
from catalog.models.calls import ACTIVE_CALLS
from core.db_errors import outage
from core.errors import DomainError
from core.postgresql.base import give_back
from core.schema import validation
from designer.exports import mcp as exported
from designer.exports import schema
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Channel
from execution.calls import cancellation
from execution.calls.call_keys import client_call_id
from execution.user_grants import end_users
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import ContextItem, ServedProcedure, StreamKind
from protocols.server import Refusal, ToolCallRequest, ToolCallResult
from serving import streams
from serving.calls import Continuation
from serving.released_documents import SealedRelease, load_sealed_release, wires
from serving.serve.base import FollowedCall, ServedRelease, on_behalf_of, refusal_of, side_of
from serving.serve.mcp import icons, resource_updates
from serving.serve.mcp.context import context_item, procedures_of, values_of
from serving.serve.mcp.shared_state import SLOTS, KeyStore

T = TypeVar("T")
FORMAT = exported.FORMAT.name


class _ToolList(msgspec.Struct):
    tools: list[msgspec.Raw]


class _ListedTool(msgspec.Struct):
    name: str


class MCPRelease(ServedRelease):
    format_name = FORMAT

    @property
    def slug(self) -> str:
        return self._document.agent.slug

    @property
    def name(self) -> str:
        return self._document.agent.name

    @property
    def description(self) -> str:
        return self._document.agent.description

    @property
    def number(self) -> int:
        return self.release.number

    def procedures(self) -> Sequence[ServedProcedure]:
        return self._derived("procedures", lambda: procedures_of(self._document))

    def context_items(self) -> Sequence[ContextItem]:
        return self._derived("context items", lambda: [*map(context_item, self._document.context)])

    def tools(self, client: Client) -> Sequence[msgspec.Raw]:
        def encode_tools() -> list[msgspec.Raw]:
            tools = msgspec.json.decode(self.exported(), type=_ToolList).tools
            tool_by_name = {tool.signature.name: tool for tool in self._document.tools}
            pictures = {} if "icons" in client.unknown_members else icons.icons_by_tool(tool_by_name.values())
            return [_adapt_to_client(tool, tool_by_name, pictures, client) for tool in tools]

        # The tools of a release never change, so each process encodes them once and pages join the texts.
        key = ("mcp", self.release.pk, client.unknown_members, client.is_modern)
        return self._derived(key, encode_tools)

    def input_schema(self, tool_name: str) -> Mapping[str, Any] | None:
        tool = self._find_tool(tool_name)
        return schema.as_the_vendor_does(tool.signature) if tool else None

    def input_values(self, tool_name: str) -> Mapping[str, Sequence[str]] | None:
        tool = self._find_tool(tool_name)
        return {row.alias: values_of(row) for row in tool.signature.inputs} if tool else None

    def output_faults(self, tool_name: str, content: Any, *, is_modern: bool) -> Mapping[str, str]:
        tool = self._find_tool(tool_name)
        if tool is None or not (tool.signature.outputs or tool.signature.outputs_rest is not None):
            return {}
        signature = tool.signature

        def ready() -> validation.CompiledSchema:
            output_schema = schema.of_outputs(signature)
            return validation.checked(
                output_schema if is_modern else schema.of_outputs_as_an_object(signature)[0]
            )

        problems = validation.faults(self._derived(("mcp outputs", tool_name, is_modern), ready), content)
        return {".".join(map(str, fault.path)) or "outputs": fault.why for fault in problems}

    def reports_progress(self, tool_name: str) -> bool:
        tool = self._find_tool(tool_name)
        return bool(tool and tool.protocol and protocols.get(tool.protocol).tells_progress)

    def resume(self, call: int, request: ToolCallRequest) -> ToolCallResult:
        user = on_behalf_of(request.user)
        first_call, _, _ = self.own_call(call)
        while first_call.continues:
            first_call = first_call.continues
        # Another user of the agent cannot answer for the one for whom this key's call was begun.
        if first_call.on_behalf_of != (end_users.digest_of(self.release.agent_id, user.name) if user else ""):
            raise Http404
        # Clients send one id with all steps of a call, and each step is a call of its own here.
        call_id = client_call_id(request.call_name, f"call-{call}") if request.call_name else None
        continuation = Continuation(
            answers=request.arguments, call_id=call_id, side=side_of(request), mark=request.mark
        )
        answer = self.resume_call(call, request.tool_name, continuation, is_followed=request.is_followed)
        return self.result_of(answer)

    def read_call(self, call: int) -> ToolCallResult:
        return self.result_of(self.answer_of(call))

    def cancel_marked(self, mark: str) -> None:
        marked = self.calls().filter(requested_by=self.caller.user, mark=mark, status__in=ACTIVE_CALLS)
        for call in marked.values_list("pk", flat=True):
            # A call that has ended in the meantime stays as it is.
            with suppress(DomainError):
                self.cancel(call)

    def give_up(self, call: int) -> None:
        # The call may have been deleted in the meantime, or its answer has come.
        with suppress(DomainError, Http404):
            row, _, _ = self.own_call(call)
            if not row.continued_by.exists():
                cancellation.abandon_question(row, row.decoded().resume)

    def follow(self, call: int, room: ExitStack, alive_every: float) -> FollowedCall:
        row, _, tool = self.own_call(call)
        streamed_call = streams.StreamedCall(row, tool, self.caller.key, FORMAT)
        stream = streams.follow(streamed_call, place=room, alive_every=alive_every)
        return FollowedCall(stream, self.result_of)

    def reserve_stream(self, kind: StreamKind) -> Callable[[], None] | None:
        return SLOTS[kind].reserve(self.caller.key)

    def store(self, topic: str) -> KeyStore:
        return KeyStore(topic, self.caller.key)

    def current_number(self) -> int | None:
        # A number or a digest always names the same release, so only channels are read.
        release = self.release
        channels = Channel.objects.filter(agent=release.agent_id, name=self.release_name)
        return channels.values_list("release__number", flat=True).first()

    def subscribe(self, addresses: Sequence[str], stack: ExitStack) -> resource_updates.ResourceUpdates:
        return resource_updates.subscribe(self, self.context_items(), addresses, stack)

    def pause(self, seconds: float) -> None:
        give_back()
        time.sleep(seconds)

    def refusal_for(self, error: Exception) -> Refusal | None:
        if isinstance(error, DomainError | Http404):
            return refusal_of(error)
        if outage_error := outage(error):
            return Refusal(503, outage_error.code, outage_error.message)
        return None

    @cached_property
    def _document(self) -> ReleaseDocument:
        return self.visible_document()

    @cached_property
    def _sealed(self) -> SealedRelease:
        return load_sealed_release(self.release)

    def _find_tool(self, name: str) -> ReleasedTool | None:
        return self._sealed.tool(name, self.sub_agent)

    def _derived(self, key: Hashable, make: Callable[[], T]) -> T:
        return self._sealed.derived((key, self.sub_agent), make)


def _adapt_to_client(
    tool: msgspec.Raw,
    tool_by_name: Mapping[str, ReleasedTool],
    pictures: Mapping[str, list[dict[str, Any]]],
    client: Client,
) -> msgspec.Raw:
    """Return the exported tool, which fits both eras, with the members that this client's revision knows."""
    name, unknown = msgspec.json.decode(tool, type=_ListedTool).name, client.unknown_members
    signature = tool_by_name[name].signature
    takes_more = client.is_modern and wires(signature, FORMAT)[0].whole_output
    if not (takes_more or unknown or name in pictures):
        return tool
    document = exported.with_its_output(signature) if takes_more else msgspec.json.decode(tool)
    if name in pictures:
        document["icons"] = pictures[name]
    return msgspec.Raw(
        msgspec.json.encode({member: value for member, value in document.items() if member not in unknown})
    )
