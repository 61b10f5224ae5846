"""Results of calls as results of `tools/call`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from protocols.mcp.calls import is_copy
from protocols.mcp.server import outputs, questions
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import Release
from protocols.mcp.wire import CALL, CODE, NOTES, OUTCOME, OUTPUT_SCHEMA, RETRY, TRANSFER
from protocols.server import ToolCallResult

NOT_CONFIRMED = ("not_confirmed", "The user did not confirm the call, so it was not made.")


def format_result(result: ToolCallResult, release: Release, client: Client) -> dict[str, Any]:
    """Return the result of a call that has ended. Raises RpcError if the client cannot be asked its
    questions.
    """
    if result.transfer is not None:
        agent, address = result.transfer["agent"], result.transfer["address"]
        message = f"Handed over to “{agent}”, whose tools are served at {address}"
        return {"content": [_text(message)], "_meta": {TRANSFER: {"agent": agent, "url": address}}}
    if result.is_success:
        return _success_result(result, release, client)
    if required := questions.questions_of(result, client):
        return required
    return _failure_result(result, client) if result.outcome == "tool_error" else explain(result)


def _failure_result(result: ToolCallResult, client: Client) -> dict[str, Any]:
    """Return the content and the structured content of a tool's failure."""
    tool_outputs = outputs.without_wrapper(result.declared, result.outputs)
    structured = outputs.structured_content_of_failure(
        result.declared, tool_outputs, client, result.whole_output
    )
    blocks = outputs.content_blocks(result.declared, tool_outputs)
    failed = explain(result)
    if blocks:
        failed = {"content": [*blocks], "isError": True, "_meta": _about(result)}
    if structured is not UNSET:
        failed["structuredContent"] = structured
        if not any(is_copy(str(block.get("text", "")), structured) for block in failed["content"]):
            failed["content"].append(_text(msgspec.json.encode(structured).decode()))
    failed["content"] += _about_arguments(result)
    if result.all_notes:
        failed["_meta"][NOTES] = result.all_notes
    return failed


def explain(result: ToolCallResult) -> dict[str, Any]:
    """Return an outcome other than success as text for a model."""
    failed = error_result(result.code, result.message, result.fields, _about(result))
    if result.beginning:
        failed["content"].append(_text(f"It begins: {result.beginning}"))
    for ask in result.asks:
        where = f" {ask.url}" if ask.url else ""
        failed["content"].append(_text(f"It asks: {ask.message}{where}"))
    if result.output_schema is not None:
        form = msgspec.json.encode(result.output_schema).decode()
        failed["content"].append(_text(f"Its output schema: {form}"))
    if result.retry and result.retry.hint:
        failed["content"].append(_text(result.retry.hint))
    return failed


def _success_result(result: ToolCallResult, release: Release, client: Client) -> dict[str, Any]:
    tool_outputs = outputs.without_wrapper(result.declared, result.outputs)
    structured = outputs.structured_content(result.declared, tool_outputs, client, result.whole_output)
    blocks = outputs.content_blocks(result.declared, tool_outputs)
    if blocks is None:
        text = msgspec.json.encode(tool_outputs if structured is UNSET else structured).decode()
        blocks = [_text(text)]
    faults: Mapping[str, str] = {}
    if "outputSchema" not in client.unknown_members:
        content = {} if structured is UNSET else structured
        faults = release.output_faults(result.tool_name, content, is_modern=client.is_modern)
    if faults:
        # A client that validates would drop the outputs and report a failure, so they are part of the
        # content.
        message = "The tool has run, and its answer does not fit its output schema. Its answer follows."
        unfit = error_result("UNFIT_OUTPUT", message, faults, _about(result))
        return {**unfit, "content": [*unfit["content"], *blocks]}
    document: dict[str, Any] = {"content": blocks}
    if structured is not UNSET:
        document["structuredContent"] = structured
    # A model reads the content only, and would otherwise send the unknown argument again.
    document["content"] = [*blocks, *_about_arguments(result)]
    if result.all_notes:
        document["_meta"] = {NOTES: result.all_notes}
    return document


def _about_arguments(result: ToolCallResult) -> list[dict[str, Any]]:
    return [_text(f"Note: {note['message']}") for note in result.notes]


def _about(result: ToolCallResult) -> dict[str, Any]:
    about: dict[str, Any] = {OUTCOME: result.outcome}
    if result.call:
        about[CALL] = result.call
    if result.output_schema is not None:
        about[OUTPUT_SCHEMA] = result.output_schema
    if result.retry:
        about[RETRY] = msgspec.structs.asdict(result.retry)
    return about


def error_result(
    code: str, message: str, fields: Mapping[str, str] | None = None, about: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    wrong = "".join(f"\n{name}: {reason}" for name, reason in (fields or {}).items())
    meta = {**({CODE: code} if code else {}), **(about or {})}
    return {"content": [_text(f"{message}{wrong}")], "isError": True, "_meta": meta}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
