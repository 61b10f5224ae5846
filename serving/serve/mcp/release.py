"""A release for the server of MCP: `protocols.mcp.server.release.Release` for one client."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from django.http import Http404

import protocols
from core.db_errors import outage
from core.errors import DomainError
from core.postgresql.base import give_back
from core.schema import validation
from designer.exports import mcp as exported
from designer.exports import schema
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Channel
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import ContextItem, Procedure, StreamKind
from protocols.server import Refusal, ToolCallRequest, ToolCallResult
from serving import streams
from serving.released_documents import SealedRelease, sealed, wires
from serving.serve.base import FollowedCall, Operations, refusal_of
from serving.serve.mcp import icons, resource_updates
from serving.serve.mcp.context import context_item, procedures_of, values_of
from serving.serve.mcp.shared_state import SLOTS, KeyStore

T = TypeVar("T")
FORMAT = exported.FORMAT.name


class _Listed(msgspec.Struct):
    tools: list[msgspec.Raw]


class _Named(msgspec.Struct):
    name: str


@dataclass(frozen=True)
class MCPRelease:
    operations: Operations

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
        return self.operations.release.number

    @property
    def list_id(self) -> str:
        return f"{self.operations.release.digest} {self.operations.sub_agent}"

    def procedures(self) -> Sequence[Procedure]:
        return self._derived("procedures", lambda: procedures_of(self._document))

    def context_items(self) -> Sequence[ContextItem]:
        return self._derived("context items", lambda: [*map(context_item, self._document.context)])

    def tools(self, client: Client) -> Sequence[msgspec.Raw]:
        # The tools of a release never change, so each process encodes them once and pages join the texts.
        key = ("mcp", self.operations.release.pk, client.unknown_members, client.is_modern)
        return self._derived(key, lambda: self._encode_tools(client))

    def _encode_tools(self, client: Client) -> list[msgspec.Raw]:
        tools = msgspec.json.decode(self.operations.exported(FORMAT), type=_Listed).tools
        tool_by_name = {tool.signature.name: tool for tool in self._document.tools}
        pictures = {} if "icons" in client.unknown_members else icons.icons_by_tool(tool_by_name.values())
        return [_adapt_to_client(tool, tool_by_name, pictures, client) for tool in tools]

    def input_schema(self, tool_name: str) -> Mapping[str, Any] | None:
        tool = self._tool(tool_name)
        return schema.as_the_vendor_does(tool.signature) if tool else None

    def input_values(self, tool_name: str) -> Mapping[str, Sequence[str]] | None:
        tool = self._tool(tool_name)
        return {row.alias: values_of(row) for row in tool.signature.inputs} if tool else None

    def output_faults(self, tool_name: str, content: Any, *, is_modern: bool) -> Mapping[str, str]:
        tool = self._tool(tool_name)
        if tool is None or not (tool.signature.outputs or tool.signature.outputs_rest is not None):
            return {}
        signature = tool.signature

        def ready() -> validation.Checked:
            output_schema = schema.of_outputs(signature)
            return validation.checked(
                output_schema if is_modern else schema.of_outputs_as_an_object(signature)[0]
            )

        problems = validation.faults(self._derived(("mcp outputs", tool_name, is_modern), ready), content)
        return {".".join(map(str, fault.path)) or "outputs": fault.why for fault in problems}

    def reports_progress(self, tool_name: str) -> bool:
        tool = self._tool(tool_name)
        return bool(tool and tool.protocol and protocols.get(tool.protocol).tells_progress)

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        return self.operations.run_request(request, FORMAT)

    def resume(self, call: int, request: ToolCallRequest) -> ToolCallResult:
        return self.operations.resume_request(call, request, FORMAT)

    def read_call(self, call: int) -> ToolCallResult:
        return self.operations.result_of(self.operations.read_call(call, format_=FORMAT))

    def cancel(self, call: int) -> None:
        self.operations.cancel(call)

    def cancel_marked(self, mark: str) -> None:
        self.operations.cancel_marked(mark)

    def give_up(self, call: int) -> None:
        # The call may have been deleted in the meantime.
        with suppress(DomainError, Http404):
            self.operations.give_up(call)

    def follow(self, call: int, room: ExitStack, alive_every: float) -> FollowedCall:
        stream = self.operations.follow(call, format_=FORMAT, place=room, alive_every=alive_every)
        return FollowedCall(stream, self.operations.result_of)

    def reserve_room(self) -> ExitStack:
        return streams.reserve_room(self.operations.holder)

    def reserve_stream(self, kind: StreamKind) -> Callable[[], None] | None:
        return SLOTS[kind].reserve(self.operations.caller.key)

    def store(self, topic: str) -> KeyStore:
        return KeyStore(topic, self.operations.caller.key)

    def current_number(self) -> int | None:
        # A number or a digest always names the same release, so only channels are read.
        release = self.operations.release
        channels = Channel.objects.filter(agent=release.agent_id, name=self.operations.release_name)
        return channels.values_list("release__number", flat=True).first()

    def subscribe(self, addresses: Sequence[str], stack: ExitStack) -> resource_updates.Updates:
        return resource_updates.subscribe(self.operations, self.context_items(), addresses, stack)

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
        return self.operations.visible_document()

    @cached_property
    def _sealed(self) -> SealedRelease:
        return sealed(self.operations.release)

    def _tool(self, name: str) -> ReleasedTool | None:
        return self._sealed.tool(name, self.operations.sub_agent)

    def _derived(self, key: Hashable, make: Callable[[], T]) -> T:
        return self._sealed.derived((key, self.operations.sub_agent), make)


def _adapt_to_client(
    tool: msgspec.Raw,
    tool_by_name: Mapping[str, ReleasedTool],
    pictures: Mapping[str, list[dict[str, Any]]],
    client: Client,
) -> msgspec.Raw:
    """Return the exported tool, which fits both eras, with the members that this client's revision knows."""
    name, unknown = msgspec.json.decode(tool, type=_Named).name, client.unknown_members
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
