"""A tool's outputs as `content` and as `structuredContent`, which fits the output schema in `tools/list`.

Since 2026-07-28 that schema may have any type. Before, a value that is not an object is wrapped in an object
with one member.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from protocols.mcp.calls import UNNAMED
from protocols.mcp.server.clients import Client
from protocols.server import DeclaredOutputs

# A tuple and not a set: a vendor's `type` may be a list, which is not hashable.
_BLOCKS = ("text", "image", "audio", "resource", "resource_link")


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
    if client.is_modern and whole_output and whole_output in outputs:
        return outputs[whole_output]
    value = _value(declared, outputs)
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
    if client.is_modern and whole_output and whole_output in other_outputs:
        return other_outputs[whole_output]
    return other_outputs or UNSET


def _value(declared: DeclaredOutputs, outputs: Mapping[str, Any]) -> Any:
    # A vendor may write null for an output that it leaves out.
    simple, listed = declared.simple_names, set(declared.listed_names)
    if declared.whole and declared.wrapper:
        value = outputs.get(declared.whole, UNSET)
        return UNSET if value is None and declared.whole in simple else value
    if declared.names and not declared.whole:
        is_any = declared.wrapper and not listed & outputs.keys()
        if is_any and UNNAMED in outputs:
            # The vendor returned a value that is not an object.
            return outputs[UNNAMED]
        return {
            name: value
            for name, value in outputs.items()
            if name in listed and not (value is None and name in simple)
        }
    content_members = {"content", "text"} if content_blocks(declared, outputs) is not None else set()
    other_outputs = {name: value for name, value in outputs.items() if name not in content_members}
    return other_outputs if other_outputs or declared.whole or declared.describes_object else UNSET
