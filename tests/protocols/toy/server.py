from urllib.parse import unquote

from core.errors import DomainError
from protocols.server import (
    NoSuchAddressError,
    Refusal,
    ServedTool,
    Server,
    ServerRelease,
    ServerReply,
    ServerRequest,
    ToolCallRequest,
    json_reply,
)
from tests.protocols.toy import wire


class ToyServer(Server[ServerRelease]):
    name = "toy"
    label = "Toy"

    def answer(self, request: ServerRequest, release: ServerRelease) -> ServerReply:
        path = f"/{request.path}"
        if path == wire.LIST:
            documents = [tool.document for tool in release.tools()]
            return self.refuse_method(request, "GET") or json_reply(wire.page(documents))
        for tool in release.tools():
            if path == wire.tool_path(tool.version.tool_id):
                return self.refuse_method(request, "GET") or json_reply(tool.document)
            if path == wire.run_path(tool.version.tool_id):
                return self.refuse_method(request, "POST") or _run(request, release, tool)
        if path.startswith(wire.run_path("")):
            release.report_unknown_tool(unquote(path.removeprefix(wire.run_path(""))))
        raise NoSuchAddressError

    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        return json_reply({"code": refusal.code, "message": refusal.message}, refusal.status)


def _run(request: ServerRequest, release: ServerRelease, tool: ServedTool) -> ServerReply:
    arguments = request.document
    if not isinstance(arguments, dict):
        raise DomainError("invalid_body", "The body is not an object.")
    result = release.run(
        ToolCallRequest(
            tool_name=tool.name,
            arguments=arguments,
            is_confirmed=request.is_confirmed,
            call_name=request.call_name,
            user=request.user(),
        )
    )
    if result.transfer is not None or result.is_success:
        return json_reply(result.transfer or result.outputs)
    status = 400 if result.outcome == "invalid_arguments" else wire.FAILED
    return json_reply({"code": result.code, "message": result.message, "fields": result.fields}, status)
