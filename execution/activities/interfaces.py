"""The rule by which an activity made for one interface may run for another tool. Pure."""

from django.utils.translation import gettext as _

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
            return _("It needs the input “{input}”, which the tool does not have.").format(
                input=printable(needed.name, 60)
            )
        if needed.name in tool_inputs and not _is_one(needed, tool_inputs[needed.name]):
            return _("It has another type for the input “{input}” than the tool.").format(
                input=printable(needed.name, 60)
            )
    for promised in tool.outputs:
        if promised.required and promised.name not in activity_outputs:
            return _("It does not return the output “{output}”, which the tool declares.").format(
                output=printable(promised.name, 60)
            )
        if promised.name in activity_outputs and not _is_one(activity_outputs[promised.name], promised):
            return _("It returns the output “{output}” with another type than the tool.").format(
                output=printable(promised.name, 60)
            )
    return ""


def _is_one(one: Parameter, other: Parameter) -> bool:
    # A list only narrows texts; which JSON is accepted, only a call shows.
    texts = {"string", "enum"}
    if "json" in (one.type, other.type) or {one.type, other.type} <= texts:
        return True
    return one.type == other.type or (one.type, other.type) == ("int", "number")
