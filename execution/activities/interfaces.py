"""The rule by which an activity made for one interface may run for another tool. Pure."""

from core.outbound.errors import printable
from protocols.signature import Parameter, Signature


def why_unfit(made_for: Signature, tool: Signature) -> str:
    """Return why an activity with the inputs and outputs of `made_for` cannot run for this tool, "" if it
    can.

    It can if it requires only inputs that the tool has, and returns all outputs that the tool promises.
    """
    tool_inputs = {parameter.name: parameter for parameter in tool.inputs}
    activity_outputs = {parameter.name: parameter for parameter in made_for.outputs}
    for needed in made_for.inputs:
        if needed.required and needed.name not in tool_inputs:
            return f"It needs the input “{printable(needed.name, 60)}”, which the tool does not take."
        if needed.name in tool_inputs and not _is_one(needed, tool_inputs[needed.name]):
            return f"It takes the input “{printable(needed.name, 60)}” as another type than the tool."
    for promised in tool.outputs:
        if promised.required and promised.name not in activity_outputs:
            return f"It does not give the output “{printable(promised.name, 60)}”, which the tool promises."
        if promised.name in activity_outputs and not _is_one(activity_outputs[promised.name], promised):
            return f"It gives the output “{printable(promised.name, 60)}” as another type than the tool."
    return ""


def _is_one(one: Parameter, other: Parameter) -> bool:
    # A list only narrows texts; which JSON is accepted, only a call shows.
    texts = {"string", "enum"}
    if "json" in (one.type, other.type) or {one.type, other.type} <= texts:
        return True
    return one.type == other.type or (one.type, other.type) == ("int", "number")
