"""What a tool answered, as `content` and as `structuredContent` by the schema that its client is shown.

Since 2026-07-28 that schema may be any; before, what is no object goes below one member.
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

# No set, which cannot be asked for a list: what a vendor writes as a type may be anything.
_BLOCKS = ("text", "image", "audio", "resource", "resource_link")


def wire(tool: Effective) -> Wire:
    return wires(tool, exported.FORMAT.name)[0]


def as_they_came(tool: Effective, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Without the member that the export puts named outputs below, where an answer need be no object."""
    below = wire(tool).whole_output
    if below and not output_of_all(tool) and isinstance(inside := outputs.get(below), dict):
        return {name: value for name, value in outputs.items() if name != below} | inside
    return dict(outputs)


def blocks(tool: Effective, outputs: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    # What a vendor of MCP answered goes on as it came; it is no output that anybody declares.
    found = outputs.get("content")
    is_declared = any(output.alias == "content" for output in tool.outputs)
    if is_declared or not isinstance(found, list):
        return None
    are_blocks = all(isinstance(each, dict) and each.get("type") in _BLOCKS for each in found)
    return found if are_blocks else None


def structured(tool: Effective, outputs: Mapping[str, Any], client: Client, whole_output: str = "") -> Any:
    """By the names of the output schema; UNSET where nothing but content came. `whole_output` names an output
    that holds a value which is no object and which no schema declares."""
    if client.is_modern and whole_output and whole_output in outputs:
        return outputs[whole_output]
    below, value = wire(tool).whole_output, _value(tool, outputs)
    if not below:
        return value
    if client.is_modern:
        # What a vendor left out is null, if the schema takes that.
        return None if value is UNSET else value
    return {} if value is UNSET else {below: value}


def structured_failure(
    tool: Effective, outputs: Mapping[str, Any], client: Client, whole_output: str = ""
) -> Any:
    """The structured content of a call that failed; UNSET where nothing but content came.

    A failure need not fit the output schema, so what no output declares stays.
    """
    whole = output_of_all(tool)
    if whole and whole.alias in outputs:
        value = outputs[whole.alias]
        return value if client.is_modern or isinstance(value, dict) else {whole.alias: value}
    beside = {"content", "text"} if blocks(tool, outputs) is not None else set()
    found = {name: value for name, value in outputs.items() if name not in beside}
    if client.is_modern and whole_output and whole_output in found:
        return found[whole_output]
    return found or UNSET


def _value(tool: Effective, outputs: Mapping[str, Any]) -> Any:
    # A vendor may write null for what it leaves out.
    simple = {output.alias for output in tool.outputs if output.parameter.type != "json"}
    whole, names = output_of_all(tool), wire(tool)
    if whole and names.whole_output:
        value = outputs.get(whole.alias, UNSET)
        return UNSET if value is None and whole.alias in simple else value
    if tool.outputs and not whole:
        is_any = names.whole_output and not names.outputs.keys() & outputs.keys()
        if is_any and UNNAMED in outputs:
            # The vendor answered what is no object.
            return outputs[UNNAMED]
        return {
            name: value
            for name, value in outputs.items()
            if name in names.outputs and not (value is None and name in simple)
        }
    beside = {"content", "text"} if blocks(tool, outputs) is not None else set()
    found = {name: value for name, value in outputs.items() if name not in beside}
    return found if found or whole or tool.outputs_rest is not None else UNSET


def faults(operations: Operations, client: Client, name: str, told: Any) -> dict[str, str]:
    """Where the answer is not what `tools/list` says of it."""
    released = sealed(operations.release)
    listed = released.tool(name, operations.sub_agent)
    if listed is None or "outputSchema" in client.unknown_members:
        return {}
    shown = listed.signature
    if not shown.outputs and shown.outputs_rest is None:
        return {}

    def ready() -> validation.Checked:
        written = schema.of_outputs(shown)
        return validation.checked(written if client.is_modern else schema.of_outputs_as_an_object(shown)[0])

    found = validation.faults(
        released.derived(("mcp outputs", operations.sub_agent, name, client.is_modern), ready), told
    )
    return {".".join(map(str, fault.path)) or "outputs": fault.why for fault in found}
