"""What of JSON Schema a target takes, and how a tool's inputs and outputs are written for such a target."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from msgspec import structs

from designer.exports import inlining, root_rules, schema, strict
from designer.exports.wire import Wire, by_alias, output_of_all
from designer.signatures import model_names
from designer.signatures.effective import Effective


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """`refused_at_top` are keywords that no input schema may have at its top; `reserved` is how no name of an
    input may begin. `strict_sizes`: how large a schema may be, in the strict subset alone.
    """

    refused_at_top: frozenset[str] = frozenset()
    refuses_references: bool = False
    reserved: str = ""
    strict_sizes: strict.Sizes | None = None


WHOLE = Dialect()


class Shown(NamedTuple):
    """The inputs of `tool`, whose own names are those of the target, and what they lose.

    `refusal` says why there is no `schema`; `below` is the one property that holds all inputs where they had
    to go below one. `rules` are keywords, `left_out` paths to inputs.
    """

    tool: Effective
    schema: dict[str, Any]
    below: str = ""
    refusal: str = ""
    is_cut: bool = False
    is_widened: bool = False
    rules: Collection[str] = ()
    left_out: Collection[strict.Path] = ()


def inputs(tool: Effective, dialect: Dialect) -> Shown:
    tool = _renamed(tool, dialect.reserved) if dialect.reserved else tool
    written, is_cut = schema.of_inputs(tool), False
    if dialect.refuses_references:
        written, is_cut = inlining.inlined(written)
    below, refused = "", dialect.refused_at_top
    if refused & written.keys() and refused & (written := root_rules.flattened(written)).keys():
        below = schema.free("input", {*tool.taken, *written.get("properties", {})})
        around = {"required": [below], "additionalProperties": False}
        written = schema.below(below, written) | around
    if dialect.strict_sizes is None:
        return Shown(tool, written, below, is_cut=is_cut)
    form = strict.form(written)
    why = f"requires “{'.'.join(form.stuck)}”, which may hold anything, so it has no strict form"
    if form.schema:
        why = strict.why_too_large(form.schema, dialect.strict_sizes)
    return Shown(
        tool,
        form.schema or {},
        below,
        refusal=why,
        is_widened=form.is_widened,
        rules=form.rules,
        left_out=form.left_out,
    )


def outputs_as_an_object(tool: Effective, dialect: Dialect) -> tuple[dict[str, Any], bool]:
    """What comes back, and whether something of it was cut off with its references."""
    written = schema.of_outputs_as_an_object(tool)[0]
    return inlining.inlined(written) if dialect.refuses_references else (written, False)


def wire(tool: Effective, dialect: Dialect) -> Wire:
    """The way back from the names that `inputs` shows."""
    shown = inputs(tool, dialect)
    names = by_alias(shown.tool)
    above = (shown.below,) if shown.below else ()
    return structs.replace(
        names,
        inputs={
            name: theirs for name, theirs in names.inputs.items() if (*above, name) not in shown.left_out
        },
        whole=shown.below or names.whole,
        null_is_absent=shown.is_widened,
    )


def wire_both_ways(tool: Effective, dialect: Dialect) -> Wire:
    """The same for a format that shows what comes back, too."""
    return shows_outputs(wire(tool, dialect), tool)


def shows_outputs(names: Wire, tool: Effective) -> Wire:
    """An output that stands for all and is an object is shown as what it is; any other goes below one."""
    below = schema.of_outputs_as_an_object(tool)[1]
    if output_of_all(tool) and not below:
        names = structs.replace(names, outputs={})
    return structs.replace(names, whole_output=below)


def _renamed(tool: Effective, reserved: str) -> Effective:
    # Inputs by names that begin otherwise, and that mean no other input in any other format.
    taken = {name.lower() for name in (*tool.taken, *(shown.alias for shown in tool.inputs))}
    aliases = {}
    for shown in sorted(tool.inputs, key=lambda each: each.alias):
        alias = shown.alias
        if alias.startswith(reserved):
            bare = alias.lstrip(reserved)
            wanted = bare if bare[:1].isalpha() else f"input_{bare}"[: model_names.MAX_LENGTH]
            numbered = (f"{wanted[: model_names.MAX_LENGTH - 4]}_{number}" for number in count(2))
            alias = (
                wanted if wanted.lower() not in taken else next(n for n in numbered if n.lower() not in taken)
            )
        taken.add(alias.lower())
        aliases[shown.alias] = alias
    return structs.replace(
        tool, inputs=tuple(structs.replace(shown, alias=aliases[shown.alias]) for shown in tool.inputs)
    )
