"""Whether what was made for one interface can run for another: a pure rule."""

from core.outbound.errors import printable
from protocols.signature import Parameter, Signature


def why_unfit(made_for: Signature, tool: Signature) -> str:
    """Why an activity that takes the inputs and gives the outputs of `made_for` cannot run for this tool; ""
    where it can: it needs nothing that the tool does not take, and gives all that the tool promises."""
    taken = {each.name: each for each in tool.inputs}
    given = {each.name: each for each in made_for.outputs}
    for needed in made_for.inputs:
        if needed.required and needed.name not in taken:
            return f"It needs the input “{printable(needed.name, 60)}”, which the tool does not take."
        if needed.name in taken and not _is_one(needed, taken[needed.name]):
            return f"It takes the input “{printable(needed.name, 60)}” as another type than the tool."
    for promised in tool.outputs:
        if promised.required and promised.name not in given:
            return f"It does not give the output “{printable(promised.name, 60)}”, which the tool promises."
        if promised.name in given and not _is_one(given[promised.name], promised):
            return f"It gives the output “{printable(promised.name, 60)}” as another type than the tool."
    return ""


def _is_one(one: Parameter, other: Parameter) -> bool:
    # What a text may be is narrowed by a list; what JSON may be, only a call shows.
    texts = {"string", "enum"}
    if "json" in (one.type, other.type) or {one.type, other.type} <= texts:
        return True
    return one.type == other.type or (one.type, other.type) == ("int", "number")
