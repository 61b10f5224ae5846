"""`tools/list` and `tools/call`: the tools of a release in the format `mcp`, and outcomes as results of
MCP.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from django.http import Http404
from msgspec import UNSET

from catalog.models.calls import Mode, Result
from core.errors import DomainError
from designer.exports import mcp as exported
from designer.exports import schema, transfers
from designer.exports.document import ReleasedTool
from execution.calls.checks import ConfirmationError
from execution.calls.results import notes_on_inputs
from execution.calls.runtime import CallerSide
from execution.user_grants.end_users import OnBehalfOf
from protocols import cursors
from protocols.mcp.calls import is_copy
from protocols.mcp.server import clients, questions
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RpcError
from protocols.mcp.wire import INVALID_PARAMS
from protocols.server import Request
from serving.calls import Answer, UnknownToolError, Wish
from serving.released_documents import sealed
from serving.serve.base import Operations, explain_failure, on_behalf_of, read_call_id
from serving.serve.mcp import icons, outputs

FORMAT = exported.FORMAT.name
USER = "pegboard/on_behalf_of"
# A page ends at the first limit that it reaches, and contains at least one tool.
PAGE_TOOLS, PAGE_BYTES = 100, 1024**2
NOT_CONFIRMED = ("not_confirmed", "The user did not confirm the call, so it was not made.")


class _Listed(msgspec.Struct):
    tools: list[msgspec.Raw]


class _Named(msgspec.Struct):
    name: str


def list_tools(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a page of tools. Raises RpcError for a cursor of another release: the client has to start
    again.
    """
    release, cursor, start = operations.release, params.get("cursor"), 0
    # The tools of a release never change, so each process encodes them once and pages join the texts.
    key = ("mcp", release.pk, operations.sub_agent, client.unknown_members, client.is_modern)
    tools = sealed(release).derived(key, lambda: _tools(operations, client))
    list_id = f"{release.digest} {operations.sub_agent}"
    if cursor is not None:
        position = cursors.decode_cursor(cursor, list_id, len(tools))
        if position is None:
            raise RpcError(INVALID_PARAMS, cursors.UNKNOWN_LIST)
        start = position
    page: list[msgspec.Raw] = []
    size = 0
    for tool in tools[start : start + PAGE_TOOLS]:
        size += len(memoryview(tool))
        if page and size > PAGE_BYTES:
            break
        page.append(tool)
    result: dict[str, Any] = {"tools": page}
    if (after := start + len(page)) < len(tools):
        result["nextCursor"] = cursors.encode_cursor(list_id, after)
    return result


def _tools(operations: Operations, client: Client) -> list[msgspec.Raw]:
    tools = msgspec.json.decode(operations.exported(FORMAT), type=_Listed).tools
    tool_by_name = {tool.signature.name: tool for tool in operations.visible_document().tools}
    pictures = {} if "icons" in client.unknown_members else icons.icons_by_tool(tool_by_name.values())
    return [_adapt_to_client(tool, tool_by_name, pictures, client) for tool in tools]


def _adapt_to_client(
    tool: msgspec.Raw,
    tool_by_name: Mapping[str, ReleasedTool],
    pictures: Mapping[str, list[dict[str, Any]]],
    client: Client,
) -> msgspec.Raw:
    """Return the exported tool, which fits both eras, with the members that this client's revision knows."""
    name, unknown = msgspec.json.decode(tool, type=_Named).name, client.unknown_members
    signature = tool_by_name[name].signature
    takes_more = client.is_modern and outputs.output_names(signature).whole_output
    if not (takes_more or unknown or name in pictures):
        return tool
    document = exported.with_its_output(signature) if takes_more else msgspec.json.decode(tool)
    if name in pictures:
        document["icons"] = pictures[name]
    return msgspec.Raw(
        msgspec.json.encode({member: value for member, value in document.items() if member not in unknown})
    )


def call_tool(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    answer = begin_call(request, operations, client, params)
    return result(answer, operations, client) if isinstance(answer, Answer) else answer


def begin_call(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    *,
    is_followed: bool = False,
) -> Answer | dict[str, Any]:
    """Run the call and return its answer, which is unfinished if the call `is_followed`. If it was not sent,
    return the result with the reason.
    """
    name, arguments = _named_arguments(params)
    side = CallerSide(
        # Since 2026-07-28 a client cancels by closing its connection; before, closing it has no meaning.
        has_left=request.has_left if client.is_modern and not is_followed else None,
        questions=client.kinds,
    )
    if client.is_modern:
        _check_headers(request, operations, name, arguments)
    call = _ToolCall(request, operations, client, params, name, side, is_followed)
    try:
        if goes_on := questions.continued_call(params):
            return call.resume(*goes_on)
        answer = call.run(arguments)
        ahead = questions.answers_ahead(params, answer.result.asks) if client.is_modern else None
        if answer.call and answer.result.resume is not None and ahead is not None:
            return call.resume(answer.call.pk, ahead)
        return answer
    except UnknownToolError as error:
        raise RpcError(INVALID_PARAMS, f"Unknown tool. {error.message}") from error
    except ConfirmationError as error:
        if questions.has_answer_to_confirmation(params):
            return _error_result(*NOT_CONFIRMED)
        return questions.confirmation(error.message)
    except DomainError as error:
        # A problem that a model can solve is a result; any other is an error of the protocol.
        if isinstance(error, RpcError) or error.status in (401, 403, 404, 429, 503):
            raise
        return _error_result(error.code, error.message, error.fields)


def _named_arguments(params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "“name” is missing.")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "“arguments” is no object.")
    return name, arguments or {}


@dataclass(frozen=True)
class _ToolCall:
    request: Request
    operations: Operations
    client: Client
    params: Mapping[str, Any]
    name: str
    side: CallerSide
    is_followed: bool

    def run(self, arguments: Mapping[str, Any]) -> Answer:
        return self.operations.run(
            Wish(
                tool=self.name,
                arguments=arguments,
                format_=FORMAT,
                is_confirmed=_is_confirmed(self.client, self.params),
                call_id=read_call_id(self.request),
                on_behalf_of=user_of_agent(self.request, self.params),
                mark=self.client.mark,
                mode=Mode.STREAM if self.is_followed else Mode.WAIT,
                is_made_here=self.is_followed,
                side=self.side,
            )
        )

    def resume(self, call: int, answers: Mapping[str, Any]) -> Answer:
        self.operations.refuse_other_user(call, user_of_agent(self.request, self.params))
        return self.operations.resume(
            call,
            self.name,
            answers,
            format_=FORMAT,
            # Clients send one id with all steps of a call, and each step is a call of its own here.
            call_id=read_call_id(self.request, f"call-{call}"),
            side=self.side,
            mark=self.client.mark,
            is_followed=self.is_followed,
        )


def result_without_answer(operations: Operations, state: str | None) -> dict[str, Any]:
    """Return the result of a call whose question the user could not be asked. Without a `state`, the question
    was the confirmation, and the call was not sent.
    """
    if state is None:
        return _error_result(*NOT_CONFIRMED)
    call, _ = questions.continued_call({"requestState": state}) or (0, {})
    return _explain_result(operations.read_call(call, format_=FORMAT))


def give_up(operations: Operations, state: str | None) -> None:
    """Abandon the question of a call that its client has cancelled. Without a `state`, the question was the
    confirmation, and there is no call.
    """
    if state is not None and (waiting_call := questions.continued_call({"requestState": state})):
        # The call may have been deleted in the meantime.
        with suppress(DomainError, Http404):
            operations.give_up(waiting_call[0])


def _is_confirmed(client: Client, params: Mapping[str, Any]) -> bool:
    # A client without forms has the tool's annotations and lets its user decide by them.
    if not client.asks_forms:
        return True
    responses = params.get("inputResponses")
    return isinstance(responses, dict) and questions.is_confirmed(responses)


def user_of_agent(request: Request, params: Mapping[str, Any]) -> OnBehalfOf | None:
    meta = params.get("_meta")
    user = meta.get(USER) if isinstance(meta, dict) else None
    return on_behalf_of(request.user(user.get("id", "") if isinstance(user, dict) else user))


def _check_headers(request: Request, operations: Operations, name: str, arguments: Mapping[str, Any]) -> None:
    released_tool = next(
        (tool for tool in operations.visible_document().tools if tool.signature.name == name), None
    )
    if released_tool:
        clients.check_mirrored_headers(request, schema.as_the_vendor_does(released_tool.signature), arguments)


def result(answer: Answer, operations: Operations, client: Client) -> dict[str, Any]:
    """Return the result of a call that has ended. Raises RpcError if the client cannot be asked its
    questions.
    """
    if answer.outcome == transfers.KIND:
        return _transfer_result(answer, operations)
    if answer.outcome == "ok" and not answer.result.cut:
        return _success_result(answer, operations, client)
    if required := questions_of(answer, client):
        return required
    return _failure_result(answer, client) if answer.outcome == "tool_error" else _explain_result(answer)


def questions_of(answer: Answer, client: Client) -> dict[str, Any] | None:
    """Return the result that asks the user of the client; None without questions that it can answer.

    Raises RpcError since 2026-07-28 if the client did not declare that it answers such questions.
    """
    questions.refuse_unable(answer.result.error or {}, answer.call.pk if answer.call else None, client)
    if not (answer.call and answer.result.asks and answer.result.resume is not None):
        return None
    questions.refuse_undeclared(answer.call.pk, answer.result.asks, client)
    return questions.questions_result(answer.call.pk, answer.result.asks, client)


def _failure_result(answer: Answer, client: Client) -> dict[str, Any]:
    """Return the content and the structured content of a tool's failure."""
    signature, result = answer.tool.signature, answer.result
    tool_outputs = outputs.without_wrapper(signature, result.outputs)
    structured = outputs.structured_content_of_failure(signature, tool_outputs, client, result.whole_output)
    blocks = outputs.content_blocks(signature, tool_outputs)
    failed = _explain_result(answer)
    if blocks:
        failed = {"content": [*blocks], "isError": True, "_meta": _about(answer)}
    if structured is not UNSET:
        failed["structuredContent"] = structured
        if not any(is_copy(str(block.get("text", "")), structured) for block in failed["content"]):
            failed["content"].append(_text(msgspec.json.encode(structured).decode()))
    failed["content"] += _about_arguments(result)
    if result.notes:
        failed["_meta"]["pegboard/notes"] = result.notes
    return failed


def _explain_result(answer: Answer) -> dict[str, Any]:
    """Return an outcome other than success as text for a model."""
    result = answer.result
    code, message = explain_failure(answer)
    failed = _error_result(code, message, (result.error or {}).get("fields"), _about(answer))
    if result.cut:
        failed["content"].append(_text(f"It begins: {result.cut}"))
    for ask in result.asks:
        where = f" {ask.url}" if ask.url else ""
        failed["content"].append(_text(f"It asks: {ask.message}{where}"))
    if answer.output_schema is not None:
        form = msgspec.json.encode(answer.output_schema).decode()
        failed["content"].append(_text(f"Its output schema: {form}"))
    if result.retry and result.retry.hint:
        failed["content"].append(_text(result.retry.hint))
    return failed


def _success_result(answer: Answer, operations: Operations, client: Client) -> dict[str, Any]:
    signature, result = answer.tool.signature, answer.result
    tool_outputs = outputs.without_wrapper(signature, result.outputs)
    structured = outputs.structured_content(signature, tool_outputs, client, result.whole_output)
    blocks = outputs.content_blocks(signature, tool_outputs)
    if blocks is None:
        text = msgspec.json.encode(tool_outputs if structured is UNSET else structured).decode()
        blocks = [_text(text)]
    if faults := outputs.output_faults(
        operations, client, signature.name, {} if structured is UNSET else structured
    ):
        # A client that validates would drop the outputs and report a failure, so they are part of the
        # content.
        message = "The tool has run, and its answer does not fit its output schema. Its answer follows."
        unfit = _error_result("UNFIT_OUTPUT", message, faults, _about(answer))
        return {**unfit, "content": [*unfit["content"], *blocks]}
    document: dict[str, Any] = {"content": blocks}
    if structured is not UNSET:
        document["structuredContent"] = structured
    # A model reads the content only, and would otherwise send the unknown argument again.
    document["content"] = [*blocks, *_about_arguments(result)]
    if result.notes:
        document["_meta"] = {"pegboard/notes": result.notes}
    return document


def _about_arguments(result: Result) -> list[dict[str, Any]]:
    return [_text(f"Note: {note['message']}") for note in notes_on_inputs(result)]


def _transfer_result(answer: Answer, operations: Operations) -> dict[str, Any]:
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
    if answer.output_schema is not None:
        about["pegboard/output_schema"] = answer.output_schema
    if retry := answer.result.retry:
        about["pegboard/retry"] = msgspec.structs.asdict(retry)
    return about


def _error_result(
    code: str, message: str, fields: Mapping[str, str] | None = None, about: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    wrong = "".join(f"\n{name}: {reason}" for name, reason in (fields or {}).items())
    meta = {**({"pegboard/code": code} if code else {}), **(about or {})}
    return {"content": [_text(f"{message}{wrong}")], "isError": True, "_meta": meta}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
