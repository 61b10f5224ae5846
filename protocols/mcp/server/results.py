"""Results of calls as results of `tools/call`.

A tool's outputs become `content` and `structuredContent`, which fits the output schema in `tools/list`. Since
2026-07-28 that schema may have any type. Before, a value that is not an object is wrapped in an object with
one member.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from protocols.mcp.calls import UNNAMED, is_copy
from protocols.mcp.server import questions
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import McpRelease
from protocols.mcp.wire import CALL, CODE, NOTES, OUTCOME, OUTPUT_SCHEMA, RETRY, TRANSFER
from protocols.server import DeclaredOutputs, ToolCallResult

NOT_CONFIRMED = ("not_confirmed", "The user did not confirm the call, so it was not made.")
# A tuple and not a set: a vendor's `type` may be a list, which is not hashable.
_BLOCKS = ("text", "image", "audio", "resource", "resource_link")


def format_result(result: ToolCallResult, release: McpRelease, client: Client) -> dict[str, Any]:
    """Return the result of a call that has ended. Raises RpcError if the client cannot be asked its
    questions.
    """
    if result.transfer is not None:
        agent, address = result.transfer["agent"], result.transfer["address"]
        message = f"Handed over to “{agent}”, whose tools are served at {address}"
        return {"content": [_text_block(message)], "_meta": {TRANSFER: {"agent": agent, "url": address}}}
    if result.is_success:
        return _success_result(result, release, client)
    if required := questions.questions_of(result, client):
        return required
    failed = explain(result)
    if result.outcome != "tool_error":
        return failed
    tool_outputs = without_wrapper(result.declared, result.outputs)
    structured = structured_content_of_failure(result.declared, tool_outputs, client, result.whole_output)
    if blocks := content_blocks(result.declared, tool_outputs):
        failed = {"content": [*blocks], "isError": True, "_meta": _meta_of_result(result)}
    if structured is not UNSET:
        failed["structuredContent"] = structured
        if not any(is_copy(str(block.get("text", "")), structured) for block in failed["content"]):
            failed["content"].append(_text_block(msgspec.json.encode(structured).decode()))
    failed["content"] += _about_arguments(result)
    if result.all_notes:
        failed["_meta"][NOTES] = result.all_notes
    return failed


def explain(result: ToolCallResult) -> dict[str, Any]:
    """Return an outcome other than success as text for a model."""
    failed = error_result(result.code, result.message, result.fields, _meta_of_result(result))
    if result.beginning:
        failed["content"].append(_text_block(f"It begins: {result.beginning}"))
    for ask in result.asks:
        where = f" {ask.url}" if ask.url else ""
        failed["content"].append(_text_block(f"It asks: {ask.message}{where}"))
    if result.output_schema is not None:
        form = msgspec.json.encode(result.output_schema).decode()
        failed["content"].append(_text_block(f"Its output schema: {form}"))
    if result.retry and result.retry.hint:
        failed["content"].append(_text_block(result.retry.hint))
    return failed


def _success_result(result: ToolCallResult, release: McpRelease, client: Client) -> dict[str, Any]:
    tool_outputs = without_wrapper(result.declared, result.outputs)
    structured = structured_content(result.declared, tool_outputs, client, result.whole_output)
    blocks = content_blocks(result.declared, tool_outputs)
    if blocks is None:
        text = msgspec.json.encode(tool_outputs if structured is UNSET else structured).decode()
        blocks = [_text_block(text)]
    faults: Mapping[str, str] = {}
    if "outputSchema" not in client.unknown_members:
        content = {} if structured is UNSET else structured
        faults = release.output_faults(result.tool_name, content, is_modern=client.is_modern)
    if faults:
        # A client that validates would drop the outputs and report a failure, so they are part of the
        # content.
        message = "The tool has run, and its answer does not fit its output schema. Its answer follows."
        unfit = error_result("UNFIT_OUTPUT", message, faults, _meta_of_result(result))
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
    return [_text_block(f"Note: {note['message']}") for note in result.notes]


def _meta_of_result(result: ToolCallResult) -> dict[str, Any]:
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
    return {"content": [_text_block(f"{message}{wrong}")], "isError": True, "_meta": meta}


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def without_wrapper(declared: DeclaredOutputs, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs without the member in which the export wraps named outputs."""
    wrapper = declared.wrapper
    if wrapper and not declared.whole and isinstance(inside := outputs.get(wrapper), dict):
        return {name: value for name, value in outputs.items() if name != wrapper} | inside
    return dict(outputs)


def content_blocks(declared: DeclaredOutputs, outputs: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    # The content of an MCP vendor is passed on unchanged; it is not a declared output.
    content = outputs.get("content")
    if "content" in declared.names or not isinstance(content, list):
        return None
    are_blocks = all(isinstance(block, dict) and block.get("type") in _BLOCKS for block in content)
    return content if are_blocks else None


def structured_content(
    declared: DeclaredOutputs, outputs: Mapping[str, Any], client: Client, whole_output: str = ""
) -> Any:
    """Return the outputs by the names of the output schema; UNSET if the tool returned nothing but content.
    `whole_output` names an output with an undeclared value that is not an object.
    """
    if _is_whole(whole_output, outputs, client):
        return outputs[whole_output]
    simple, listed = declared.simple_names, set(declared.listed_names)
    value: Any
    if declared.whole and declared.wrapper:
        value = outputs.get(declared.whole, UNSET)
        # A vendor may write null for an output that it leaves out.
        value = UNSET if value is None and declared.whole in simple else value
    elif declared.names and not declared.whole:
        is_unnamed = declared.wrapper and UNNAMED in outputs and not listed & outputs.keys()
        named_outputs = {
            name: value
            for name, value in outputs.items()
            if name in listed and not (value is None and name in simple)
        }
        # Under that name is a value of the vendor that is not an object.
        value = outputs[UNNAMED] if is_unnamed else named_outputs
    else:
        content_members = {"content", "text"} if content_blocks(declared, outputs) is not None else set()
        value = {name: value for name, value in outputs.items() if name not in content_members}
        if not (value or declared.whole or declared.describes_object):
            value = UNSET
    if not declared.wrapper:
        return value
    if client.is_modern:
        # A value that the vendor left out is null. `Release.output_faults` checks if the schema allows it.
        return None if value is UNSET else value
    return {} if value is UNSET else {declared.wrapper: value}


def structured_content_of_failure(
    declared: DeclaredOutputs, outputs: Mapping[str, Any], client: Client, whole_output: str = ""
) -> Any:
    """Return the structured content of a failed call; UNSET if the tool returned nothing but content.

    A failure need not fit the output schema, so undeclared members stay.
    """
    if declared.whole and declared.whole in outputs:
        value = outputs[declared.whole]
        return value if client.is_modern or isinstance(value, dict) else {declared.whole: value}
    content_members = {"content", "text"} if content_blocks(declared, outputs) is not None else set()
    other_outputs = {name: value for name, value in outputs.items() if name not in content_members}
    if _is_whole(whole_output, other_outputs, client):
        return other_outputs[whole_output]
    return other_outputs or UNSET


def _is_whole(whole_output: str, outputs: Mapping[str, Any], client: Client) -> bool:
    # Before 2026-07-28 the structured content is an object.
    return whole_output in outputs and (client.is_modern or isinstance(outputs[whole_output], dict))
