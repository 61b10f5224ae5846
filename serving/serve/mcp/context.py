"""The procedures of a release and its pinned prompts and resources, for the server of MCP."""

from typing import cast

from designer.exports.document import ReleaseDocument, ReleasedProcedure, ReleasedTool
from designer.signatures.effective import EffectiveInput
from protocols.mcp.context import MEDIA_TYPE, vendor_id
from protocols.mcp.server.release import Argument, ContextItem, ServedProcedure
from protocols.signature import ContextKind

_BOOLEANS = ("true", "false")


def procedures_of(document: ReleaseDocument) -> list[ServedProcedure]:

    def arguments_of(procedure: ReleasedProcedure) -> dict[str, Argument]:
        """Return the inputs and items that the text refers to, in the order in which it names them first."""
        signatures = {tool.signature.name: tool.signature for tool in document.tools}
        arguments: dict[str, Argument] = {}
        for reference in procedure.references:
            name = reference.member
            if reference.kind == "item":
                arguments.setdefault(name, Argument(name=name, description=f"A value for {{{name}}}"))
            elif reference.kind == "input" and (signature := signatures.get(reference.name)):
                for tool_input in signature.inputs:
                    if name in (tool_input.alias, tool_input.shown_name):
                        description = tool_input.parameter.description or f"An input of {reference.name}"
                        argument = Argument(name=name, description=description, values=values_of(tool_input))
                        arguments.setdefault(name, argument)
        return arguments

    return [
        ServedProcedure(
            slug=procedure.slug,
            title=procedure.title,
            text=procedure.text,
            arguments=arguments_of(procedure),
        )
        for procedure in document.procedures
    ]


def values_of(tool_input: EffectiveInput) -> tuple[str, ...]:
    """Return the allowed values of an input, as a model sees them; empty if any is allowed."""
    if tool_input.parameter.type == "boolean":
        return _BOOLEANS
    values = [allowed.name for allowed in tool_input.parameter.allowed_values]
    return tuple(value for value in values if value not in tool_input.hidden_values)


def context_item(item: ReleasedTool) -> ContextItem:
    signature = item.signature
    kind = cast(ContextKind, signature.kind)
    media_type = "" if kind == "prompt" else (signature.outputs_rest or {}).get(MEDIA_TYPE)
    return ContextItem(
        kind=kind,
        vendor_id=vendor_id(item.tool_id),
        name=signature.name,
        title=signature.title or signature.wire_name,
        description=signature.description,
        arguments=[
            Argument(
                name=tool_input.shown_name,
                title=tool_input.parameter.title,
                description=tool_input.parameter.description,
                is_required=tool_input.is_required,
            )
            for tool_input in signature.inputs
        ],
        media_type=media_type or "",
    )
