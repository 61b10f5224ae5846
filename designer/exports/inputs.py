"""The inputs and outputs of a tool for a target that reads JSON Schema, by its contract."""

from itertools import count
from typing import Any, NamedTuple

from msgspec import structs

from core.content_cache import SchemaCache, digest, digest_once
from core.schema import inlining, loops, spelling, subschemas
from designer.exports import judge, rewriting, root_rules, schema, strict
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
    """The inputs of `tool`, whose aliases are the names of the target, and what they lose.

    refusal: why there is no schema, "" if there is one.
    below: the one property that contains all inputs, "" if they are at the top.
    closes_objects: the schema closes an object that is open at the vendor, without listed members.
    keywords, left_out: the rules and the inputs that the schema lacks.
    broken: the rules of the target that the schema still breaks.
    """

    tool: Effective
    schema: dict[str, Any]
    below: str = ""
    refusal: str = ""
    is_cut: bool = False
    is_widened: bool = False
    closes_objects: bool = False
    keywords: frozenset[str] = frozenset()
    left_out: tuple[strict.Path, ...] = ()
    broken: tuple[BrokenRule, ...] = ()


class WrittenOutputs(NamedTuple):
    """The outputs of a tool as the schema of an object. keywords, is_cut: as in `WrittenInputs`."""

    schema: dict[str, Any]
    keywords: frozenset[str] = frozenset()
    is_cut: bool = False


# A format writes a tool when its remarks are found, when it is exported and when its arguments are mapped.
# Members of `WrittenInputs` from `below` on: a cached tool would be counted and stored with each format.
_written: SchemaCache[tuple[Any, ...]] = SchemaCache(size=50)


def write(tool: Effective, contract: Contract) -> WrittenInputs:
    """Write the inputs as an object that the target accepts, as far as that is possible."""
    reserved = contract.rule("reserved_name")
    shown_tool = _rename_reserved(tool, reserved.prefix) if reserved else tool

    def write_once() -> tuple[dict[str, Any], tuple[Any, ...]]:
        written = _write_inputs(shown_tool, contract)
        return written.schema, written[2:]

    if is_plain(tool):
        return _write_inputs(shown_tool, contract)
    input_schema, others = _written.get((digest_once(tool), digest(contract)), write_once)
    return WrittenInputs(shown_tool, input_schema, *others)


def _write_inputs(tool: Effective, contract: Contract) -> WrittenInputs:
    input_schema, below, is_cut, keywords = schema.of_inputs(tool), "", False, frozenset[str]()
    if not is_plain(tool):
        if contract.refuses_references or contract.keywords_at_top() & set(subschemas.REFERENCES):
            input_schema, is_cut = _resolve_references(input_schema, is_inlined=contract.refuses_references)
        rewritten = rewriting.rewrite(input_schema, contract)
        input_schema, keywords, is_cut = rewritten.schema, rewritten.keywords, is_cut or rewritten.is_cut
        if contract.keywords_at_top() & input_schema.keys():
            input_schema = root_rules.flatten(input_schema)
        if contract.keywords_at_top() & input_schema.keys():
            # The target refuses a keyword that remains at the top, so one property contains the schema.
            below = schema.free("input", {*tool.vendor_input_names, *spelling.properties_of(input_schema)})
            nested = schema.below(below, input_schema)
            input_schema = nested | {"required": [below], "additionalProperties": False}
    if contract.subset is not None:
        return _write_strict(
            WrittenInputs(tool, input_schema, below, is_cut=is_cut, keywords=keywords), contract.subset
        )
    broken = () if is_plain(tool) else tuple(judge.broken_rules(input_schema, contract))
    return WrittenInputs(tool, input_schema, below, is_cut=is_cut, keywords=keywords, broken=broken)


# Several targets accept no references.
_without_references: SchemaCache[bool] = SchemaCache(size=20)


def _resolve_references(input_schema: dict[str, Any], *, is_inlined: bool) -> tuple[dict[str, Any], bool]:
    """Return the schema without references at its top, or without any, and whether a part accepts anything
    in place of a reference."""
    if not is_inlined and not loops.has_references(input_schema):
        return input_schema, False

    def resolve() -> tuple[dict[str, Any], bool]:
        # Few providers read an anchor, and none a reference at the top.
        resolved = loops.with_pointers(input_schema)
        if any(subschemas.own_references(resolved)):
            resolved = root_rules.flatten(resolved)
        return inlining.inlined(resolved) if is_inlined else (resolved, False)

    return _without_references.get((digest(input_schema), is_inlined), resolve)


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
        closes_objects=form.closes_objects,
        keywords=written.keywords | form.rules,
        left_out=form.left_out,
    )


def write_as_the_vendor_does(tool: Effective, contract: Contract) -> WrittenInputs:
    """Write the inputs for a target that reads the vendor's schema of any object."""
    input_schema = schema.as_the_vendor_does(tool)
    if is_plain(tool):
        return WrittenInputs(tool, input_schema)
    rewritten = rewriting.rewrite(input_schema, contract)
    return WrittenInputs(
        tool,
        rewritten.schema,
        is_cut=rewritten.is_cut,
        keywords=rewritten.keywords,
        broken=tuple(judge.broken_rules(rewritten.schema, contract)),
    )


# A format writes outputs when its remarks are found and when it exports the tool.
_written_outputs: SchemaCache[tuple[frozenset[str], bool]] = SchemaCache(size=50)


def write_outputs(tool: Effective, contract: Contract, *, wraps_all: bool = False) -> WrittenOutputs:
    """Write the outputs as the schema of an object."""
    if tool.outputs_rest is None and all(output.parameter.schema is None for output in tool.outputs):
        return WrittenOutputs(schema.of_outputs_as_an_object(tool, wraps_all=wraps_all)[0])

    def write_once() -> tuple[dict[str, Any], tuple[frozenset[str], bool]]:
        output_schema, is_cut = schema.of_outputs_as_an_object(tool, wraps_all=wraps_all)[0], False
        if contract.refuses_references:
            schema_with_references = output_schema
            output_schema, is_cut = _without_references.get(
                (digest(output_schema), "outputs"),
                lambda: inlining.inlined(loops.with_pointers(schema_with_references)),
            )
        rewritten = rewriting.rewrite(output_schema, contract)
        return rewritten.schema, (rewritten.keywords, is_cut or rewritten.is_cut)

    output_schema, losses = _written_outputs.get((digest_once(tool), digest(contract), wraps_all), write_once)
    return WrittenOutputs(output_schema, *losses)


def is_plain(tool: Effective) -> bool:
    """Return whether the inputs have only types, values and bounds, about which no contract has a rule."""
    remainder = (tool.schema_rest or {}).items()
    return all(isinstance(value, _PLAIN_REST.get(keyword, ())) for keyword, value in remainder) and all(
        visible.parameter.schema is None for visible in tool.inputs
    )


def wire(tool: Effective, contract: Contract) -> Wire:
    """Return the mapping from the names that `write` uses to the vendor's."""
    return names_in(write(tool, contract))


def names_in(written_inputs: WrittenInputs) -> Wire:
    names = by_alias(written_inputs.tool)
    above = (written_inputs.below,) if written_inputs.below else ()
    return structs.replace(
        names,
        inputs={
            name: vendor_name
            for name, vendor_name in names.inputs.items()
            if (*above, name) not in written_inputs.left_out
        },
        whole=written_inputs.below or names.whole,
        null_is_absent=written_inputs.is_widened,
    )


def wire_both_ways(tool: Effective, contract: Contract) -> Wire:
    """Return the mapping of a format that exports outputs, too."""
    return shows_outputs(wire(tool, contract), tool)


def shows_outputs(names: Wire, tool: Effective) -> Wire:
    """Return the mapping with that of the outputs. The output that contains all outputs is exported as it
    is if it is an object, and below one property otherwise."""
    below = schema.of_outputs_as_an_object(tool)[1]
    if output_of_all(tool) and not below:
        names = structs.replace(names, outputs={})
    return structs.replace(names, whole_output=below)


def _rename_reserved(tool: Effective, reserved: str) -> Effective:
    # The new names differ from those of all other inputs in all formats.
    used_names = {
        name.lower() for name in (*tool.vendor_input_names, *(visible.alias for visible in tool.inputs))
    }
    aliases = {}
    for visible in sorted(tool.inputs, key=lambda each_input: each_input.alias):
        alias = visible.alias
        if alias.startswith(reserved):
            bare = alias.lstrip(reserved)
            proposal = bare if bare[:1].isalpha() else f"input_{bare}"[: model_names.MAX_LENGTH]
            numbered = (f"{proposal[: model_names.MAX_LENGTH - 4]}_{number}" for number in count(2))
            alias = (
                proposal
                if proposal.lower() not in used_names
                else next(n for n in numbered if n.lower() not in used_names)
            )
        used_names.add(alias.lower())
        aliases[visible.alias] = alias
    return structs.replace(
        tool, inputs=tuple(structs.replace(visible, alias=aliases[visible.alias]) for visible in tool.inputs)
    )
