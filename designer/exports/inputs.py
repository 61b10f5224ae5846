"""The inputs and outputs of a tool as a target that reads JSON Schema is shown them, by its contract."""

from itertools import count
from typing import Any, NamedTuple

from msgspec import structs

from core.schema import loops
from designer.exports import inlining, judge, rewriting, root_rules, schema, strict
from designer.exports.contracts import Contract, Subset
from designer.exports.judge import BrokenRule
from designer.exports.wire import Wire, by_alias, output_of_all
from designer.signatures import model_names
from designer.signatures.effective import Effective

# Keywords beside the properties of an input object that no contract is about, with the types of good values.
_PLAIN_REST: dict[str, type | tuple[type, ...]] = {
    "additionalProperties": bool,
    "$schema": str,
    "title": str,
    "description": str,
    "type": type(None),
    "properties": type(None),
}


class WrittenInputs(NamedTuple):
    """The inputs of `tool`, whose own names are those of the target, and what they lose.

    refusal: why there is no schema, "" where there is one. below: the one property that holds all inputs
    where they had to go below one. keywords, left_out: the rules and the inputs that the schema goes without.
    broken: what the target refuses of the schema all the same.
    """

    tool: Effective
    schema: dict[str, Any]
    below: str = ""
    refusal: str = ""
    is_cut: bool = False
    is_widened: bool = False
    keywords: frozenset[str] = frozenset()
    left_out: tuple[strict.Path, ...] = ()
    broken: tuple[BrokenRule, ...] = ()


class WrittenOutputs(NamedTuple):
    schema: dict[str, Any]
    keywords: frozenset[str] = frozenset()
    is_cut: bool = False


def write(tool: Effective, contract: Contract) -> WrittenInputs:
    """Write the inputs as an object that the target accepts, as far as that is possible."""
    if reserved := contract.rule("reserved_name"):
        tool = _renamed(tool, reserved.prefix)
    written, below, is_cut, keywords = schema.of_inputs(tool), "", False, frozenset[str]()
    if not is_plain(tool):
        written, keywords, is_cut = _rewrite(written, contract)
        if contract.keywords_at_top() & written.keys():
            written, below = _flatten_or_nest(tool, written, contract)
    if contract.subset is not None:
        return _write_strict(
            WrittenInputs(tool, written, below, is_cut=is_cut, keywords=keywords), contract.subset
        )
    broken = () if is_plain(tool) else tuple(judge.broken_rules(written, contract))
    return WrittenInputs(tool, written, below, is_cut=is_cut, keywords=keywords, broken=broken)


def _rewrite(written: dict[str, Any], contract: Contract) -> rewriting.Rewritten:
    is_cut = False
    if contract.refuses_references or "$ref" in contract.keywords_at_top():
        # Few providers read an anchor, and none a reference at the top.
        written = loops.with_pointers(written)
        written = root_rules.flatten(written) if "$ref" in written else written
    if contract.refuses_references:
        written, is_cut = inlining.inlined(written)
    rewritten = rewriting.rewrite(written, contract)
    return rewritten._replace(is_cut=is_cut or rewritten.is_cut)


def _flatten_or_nest(
    tool: Effective, written: dict[str, Any], contract: Contract
) -> tuple[dict[str, Any], str]:
    """Return the schema without keywords that the target refuses at the top, and the name of the one property
    that contains it; "" where it needs none."""
    flat = root_rules.flatten(written)
    if not contract.keywords_at_top() & flat.keys():
        return flat, ""
    below = schema.free("input", {*tool.taken, *flat.get("properties", {})})
    return schema.below(below, flat) | {"required": [below], "additionalProperties": False}, below


def _write_strict(written: WrittenInputs, subset: Subset) -> WrittenInputs:
    form = strict.form(written.schema, subset)
    if form.schema:
        refusal = judge.why_too_large(form.schema, subset)
    elif form.stuck:
        refusal = f"requires “{'.'.join(form.stuck)}”, {form.why_stuck}, so it has no strict form"
    else:
        refusal = "takes inputs that it does not list by name, so it has no strict form"
    return written._replace(
        schema=form.schema or {},
        refusal=refusal,
        is_widened=form.is_widened,
        keywords=written.keywords | form.rules,
        left_out=form.left_out,
    )


def write_as_the_vendor_does(tool: Effective, contract: Contract) -> WrittenInputs:
    """The same for a target that is shown the vendor's own schema wherever it is one of an object."""
    written = schema.as_the_vendor_does(tool)
    if is_plain(tool):
        return WrittenInputs(tool, written)
    rewritten = rewriting.rewrite(written, contract)
    return WrittenInputs(
        tool,
        rewritten.schema,
        is_cut=rewritten.is_cut,
        keywords=rewritten.keywords,
        broken=tuple(judge.broken_rules(rewritten.schema, contract)),
    )


def write_outputs(tool: Effective, contract: Contract, *, wraps_all: bool = False) -> WrittenOutputs:
    """What comes back, as an object."""
    written, is_cut = schema.of_outputs_as_an_object(tool, wraps_all=wraps_all)[0], False
    if tool.outputs_rest is None and all(output.parameter.schema is None for output in tool.outputs):
        return WrittenOutputs(written)
    if contract.refuses_references:
        written, is_cut = inlining.inlined(loops.with_pointers(written))
    rewritten = rewriting.rewrite(written, contract)
    return WrittenOutputs(rewritten.schema, rewritten.keywords, is_cut or rewritten.is_cut)


def is_plain(tool: Effective) -> bool:
    """Whether the inputs have no more than types, values and bounds: nothing that a contract is about."""
    remainder = (tool.schema_rest or {}).items()
    return all(isinstance(value, _PLAIN_REST.get(keyword, ())) for keyword, value in remainder) and all(
        shown.parameter.schema is None for shown in tool.inputs
    )


def wire(tool: Effective, contract: Contract) -> Wire:
    """The reverse mapping of the names that `write` shows."""
    return names_in(write(tool, contract))


def names_in(shown: WrittenInputs) -> Wire:
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


def wire_both_ways(tool: Effective, contract: Contract) -> Wire:
    """The same for a format that shows what comes back, too."""
    return shows_outputs(wire(tool, contract), tool)


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
