"""`tools/list` and `tools/call`: what a release shows in the format `mcp`, and outcomes as results of MCP."""

from collections.abc import Mapping
from typing import Any

import msgspec

from catalog.calls.queue import ConfirmationError
from catalog.models.calls import Result
from core.errors import DomainError
from designer.exports import mcp as exported
from designer.exports import schema, transfers
from designer.exports.document import ReleasedTool
from designer.signatures.effective import Effective
from executor.calls import Answer, UnknownToolError
from executor.released_documents import sealed
from executor.serve import cursors
from executor.serve.base import Operations, Request
from executor.serve.mcp import clients, questions
from executor.serve.mcp.clients import Client
from executor.serve.mcp.messages import INVALID_PARAMS, RpcError

FORMAT = exported.FORMAT.name
# A page ends at the one or the other, and holds one tool at least.
PAGE_TOOLS, PAGE_BYTES = 100, 1024**2
# Members that a revision does not know yet, by the last one that lacks them.
UNKNOWN_UNTIL = {
    "2024-11-05": ("annotations",),
    "2025-03-26": ("title", "outputSchema", "_meta"),
    "2025-06-18": ("icons",),
}
# No set, which cannot be asked for a list: what a vendor writes as a type may be anything.
_BLOCKS = ("text", "image", "audio", "resource", "resource_link")


class _Listed(msgspec.Struct):
    tools: list[msgspec.Raw]


def listed(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Raises RpcError for a cursor that is not of this release: the list is to be read from its start."""
    release, cursor, start = operations.release, params.get("cursor"), 0
    # The same for ever, so each process reads it once.
    tools = sealed(release).derived(("mcp", release.pk, operations.sub_agent), lambda: _tools(operations))
    of = f"{release.digest} {operations.sub_agent}"
    if cursor is not None:
        found = cursors.read(cursor, of, len(tools))
        if found is None:
            raise RpcError(INVALID_PARAMS, cursors.OF_NO_LIST)
        start = found
    page: list[object] = []
    size = 0
    for tool in tools[start : start + PAGE_TOOLS]:
        size += len(memoryview(tool))
        if page and size > PAGE_BYTES:
            break
        page.append(_in_revision(tool, client.version))
    result: dict[str, Any] = {"tools": page}
    if (after := start + len(page)) < len(tools):
        result["nextCursor"] = cursors.written(of, after)
    return result


def _tools(operations: Operations) -> list[msgspec.Raw]:
    return msgspec.json.decode(operations.exported(FORMAT), type=_Listed).tools


def _in_revision(tool: msgspec.Raw, version: str) -> object:
    unknown = {name for last, names in UNKNOWN_UNTIL.items() if version <= last for name in names}
    if not unknown:
        return tool
    document: dict[str, Any] = msgspec.json.decode(tool)
    return {name: value for name, value in document.items() if name not in unknown}


def called(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "“name” is missing.")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "“arguments” is no object.")
    arguments = arguments or {}
    if client.is_modern:
        _check_headers(request, operations, name, arguments)
    try:
        if goes_on := questions.answered(params):
            call, answers = goes_on
            answer = operations.resume(call, name, answers, format_=FORMAT)
        else:
            is_confirmed = _is_confirmed(client, params)
            answer = operations.run(name, arguments, format_=FORMAT, is_confirmed=is_confirmed)
    except UnknownToolError as error:
        raise RpcError(INVALID_PARAMS, f"Unknown tool. {error.message}") from error
    except ConfirmationError as error:
        if params.get("inputResponses"):
            return _failed("not_confirmed", "The user did not confirm the call, so it was not made.")
        return questions.confirmation(error.message)
    except DomainError as error:
        # What a model can read and do something about is a result; the rest is an error of the protocol.
        if isinstance(error, RpcError) or error.status in (401, 403, 404) or error.code == "throttled":
            raise
        return _failed(error.code, error.message, error.fields)
    return _result(answer, operations, client)


def _is_confirmed(client: Client, params: Mapping[str, Any]) -> bool:
    # A client that cannot be asked has been told by the tool's annotations, and lets its user decide by them.
    if not (client.is_modern and client.asks_forms):
        return True
    responses = params.get("inputResponses")
    return isinstance(responses, dict) and questions.is_confirmed(responses)


def _check_headers(request: Request, operations: Operations, name: str, arguments: Mapping[str, Any]) -> None:
    shown = next((each for each in operations.shown().tools if each.signature.name == name), None)
    if shown:
        clients.check_mirrored(request, schema.as_the_vendor_does(shown.signature), arguments)


def _result(answer: Answer, operations: Operations, client: Client) -> dict[str, Any]:
    result = answer.result
    if answer.outcome == transfers.KIND:
        return _handed_over(answer, operations)
    if answer.outcome == "ok" and not result.cut:
        return _succeeded(answer.tool, result)
    required = None
    if answer.call and result.asks and result.resume is not None and client.is_modern:
        required = questions.asked(answer.call.pk, result.asks, client)
    return required or _explained(answer)


def _explained(answer: Answer) -> dict[str, Any]:
    """Anything but a success, in words that a model reads."""
    result = answer.result
    error: Mapping[str, Any] = result.error or {}
    message = str(error.get("message", "")) or "The tool did not answer."
    if answer.outcome is None:
        message = "The tool is still running: it takes longer than a call waits. Look for its effect later."
    elif result.cut:
        message = f"The tool has run, but its answer is too long to be passed on. It begins: {result.cut}"
    if answer.outcome == "tool_error" and (blocks := _blocks(answer.tool.signature, result.outputs)):
        return {"content": blocks, "isError": True, "_meta": _about(answer)}
    failed = _failed(str(error.get("code", "")), message, error.get("fields") or {}, _about(answer))
    for ask in result.asks:
        where = f" {ask.url}" if ask.url else ""
        failed["content"].append(_text(f"It asks: {ask.message}{where}"))
    if result.retry and result.retry.hint:
        failed["content"].append(_text(result.retry.hint))
    return failed


def _succeeded(tool: ReleasedTool, result: Result) -> dict[str, Any]:
    shown, structured = tool.signature, _structured(tool.signature, result.outputs)
    blocks = _blocks(shown, result.outputs)
    if blocks is None:
        text = msgspec.json.encode(result.outputs if structured is None else structured).decode()
        blocks = [_text(text)]
    written: dict[str, Any] = {"content": blocks}
    if structured is not None:
        written["structuredContent"] = structured
    if result.notes:
        written["_meta"] = {"pegboard/notes": result.notes}
    return written


def _blocks(tool: Effective, outputs: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    # What a vendor of MCP answered goes on as it came; it is no output that anybody declares.
    blocks = outputs.get("content")
    is_declared = any(output.alias == "content" for output in tool.outputs)
    if is_declared or not isinstance(blocks, list):
        return None
    are_blocks = all(isinstance(each, dict) and each.get("type") in _BLOCKS for each in blocks)
    return blocks if are_blocks else None


def _structured(tool: Effective, outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """By the names of the output schema; None where nothing but content came."""
    if tool.outputs:
        names = set(exported.wire(tool).outputs) or {output.alias for output in tool.outputs}
        return {name: value for name, value in outputs.items() if name in names}
    beside = {"content", "text"} if _blocks(tool, outputs) is not None else set()
    rest = {name: value for name, value in outputs.items() if name not in beside}
    return rest or None


def _handed_over(answer: Answer, operations: Operations) -> dict[str, Any]:
    address = operations.address(answer.transfer_to)
    message = f"Handed over to “{answer.transfer_to}”, whose tools are served at {address}"
    return {
        "content": [_text(message)],
        "_meta": {"pegboard/transfer": {"agent": answer.transfer_to, "url": address}},
    }


def _about(answer: Answer) -> dict[str, Any]:
    about: dict[str, Any] = {"pegboard/outcome": answer.outcome}
    if answer.call:
        about["pegboard/call"] = answer.call.pk
    if retry := answer.result.retry:
        about["pegboard/retry"] = msgspec.structs.asdict(retry)
    return about


def _failed(
    code: str, message: str, fields: Mapping[str, str] | None = None, about: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    wrong = "".join(f"\n{name}: {why}" for name, why in (fields or {}).items())
    said = {**({"pegboard/code": code} if code else {}), **(about or {})}
    return {"content": [_text(f"{message}{wrong}")], "isError": True, "_meta": said}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
