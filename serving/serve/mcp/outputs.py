"""A tool's outputs as `content` and as `structuredContent`, which fits the output schema in `tools/list`.

Since 2026-07-28 that schema may have any type. Before, a value that is not an object is wrapped in an object
with one member.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from core.schema import validation
from designer.exports import mcp as exported
from designer.exports import schema
from designer.exports.wire import Wire, output_of_all
from designer.signatures.effective import Effective
from protocols.mcp.calls import UNNAMED
from protocols.mcp.server.clients import Client
from serving.released_documents import sealed, wires
from serving.serve.base import Operations

# A tuple and not a set: a vendor's `type` may be a list, which is not hashable.
_BLOCKS = ("text", "image", "audio", "resource", "resource_link")


def output_names(tool: Effective) -> Wire:
    return wires(tool, exported.FORMAT.name)[0]


def without_wrapper(tool: Effective, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs without the member in which the export wraps named outputs."""
    wrapper = output_names(tool).whole_output
    if wrapper and not output_of_all(tool) and isinstance(inside := outputs.get(wrapper), dict):
        return {name: value for name, value in outputs.items() if name != wrapper} | inside
    return dict(outputs)


def content_blocks(tool: Effective, outputs: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    # The content of an MCP vendor is passed on unchanged; it is not a declared output.
    content = outputs.get("content")
    is_declared = any(output.alias == "content" for output in tool.outputs)
    if is_declared or not isinstance(content, list):
        return None
    are_blocks = all(isinstance(block, dict) and block.get("type") in _BLOCKS for block in content)
    return content if are_blocks else None


def structured_content(
    tool: Effective, outputs: Mapping[str, Any], client: Client, whole_output: str = ""
) -> Any:
    """Return the outputs by the names of the output schema; UNSET if the tool returned nothing but content.
    `whole_output` names an output with an undeclared value that is not an object.
    """
    if client.is_modern and whole_output and whole_output in outputs:
        return outputs[whole_output]
    wrapper, value = output_names(tool).whole_output, _value(tool, outputs)
    if not wrapper:
        return value
    if client.is_modern:
        # A value that the vendor left out is null; `output_faults` checks whether the schema allows that.
        return None if value is UNSET else value
    return {} if value is UNSET else {wrapper: value}


def structured_content_of_failure(
    tool: Effective, outputs: Mapping[str, Any], client: Client, whole_output: str = ""
) -> Any:
    """Return the structured content of a failed call; UNSET if the tool returned nothing but content.

    A failure need not fit the output schema, so undeclared members stay.
    """
    whole_value = output_of_all(tool)
    if whole_value and whole_value.alias in outputs:
        value = outputs[whole_value.alias]
        return value if client.is_modern or isinstance(value, dict) else {whole_value.alias: value}
    content_members = {"content", "text"} if content_blocks(tool, outputs) is not None else set()
    other_outputs = {name: value for name, value in outputs.items() if name not in content_members}
    if client.is_modern and whole_output and whole_output in other_outputs:
        return other_outputs[whole_output]
    return other_outputs or UNSET


def _value(tool: Effective, outputs: Mapping[str, Any]) -> Any:
    # A vendor may write null for an output that it leaves out.
    simple = {output.alias for output in tool.outputs if output.parameter.type != "json"}
    whole_value, names = output_of_all(tool), output_names(tool)
    if whole_value and names.whole_output:
        value = outputs.get(whole_value.alias, UNSET)
        return UNSET if value is None and whole_value.alias in simple else value
    if tool.outputs and not whole_value:
        is_any = names.whole_output and not names.outputs.keys() & outputs.keys()
        if is_any and UNNAMED in outputs:
            # The vendor returned a value that is not an object.
            return outputs[UNNAMED]
        return {
            name: value
            for name, value in outputs.items()
            if name in names.outputs and not (value is None and name in simple)
        }
    content_members = {"content", "text"} if content_blocks(tool, outputs) is not None else set()
    other_outputs = {name: value for name, value in outputs.items() if name not in content_members}
    return other_outputs if other_outputs or whole_value or tool.outputs_rest is not None else UNSET


def output_faults(operations: Operations, client: Client, name: str, content: Any) -> dict[str, str]:
    """Return the reasons why structured content does not fit the output schema of `tools/list`, by path."""
    released = sealed(operations.release)
    released_tool = released.tool(name, operations.sub_agent)
    if released_tool is None or "outputSchema" in client.unknown_members:
        return {}
    signature = released_tool.signature
    if not signature.outputs and signature.outputs_rest is None:
        return {}

    def ready() -> validation.Checked:
        output_schema = schema.of_outputs(signature)
        return validation.checked(
            output_schema if client.is_modern else schema.of_outputs_as_an_object(signature)[0]
        )

    problems = validation.faults(
        released.derived(("mcp outputs", operations.sub_agent, name, client.is_modern), ready), content
    )
    return {".".join(map(str, fault.path)) or "outputs": fault.why for fault in problems}
