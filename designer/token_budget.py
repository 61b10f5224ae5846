"""What a tool costs a model in tokens: counted on the bytes that a format writes of it. Pure."""

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from catalog.token_estimate import estimate_tokens, tokens_of_size
from designer import exports
from designer.exports import anthropic, parts, rewriting, schema, transfers
from designer.exports.base import Format
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTransfer
from designer.signatures import model_names
from designer.signatures.effective import Effective, Input, effective
from protocols import parameters as json_schema
from protocols.signature import Parameter, Signature

# What is written around the parts of a tool and of an input of a plain type, and what follows each of these.
_FRAME = '{"name":,"input_schema":{"type":"object","properties":{}}}'
_DESCRIPTION, _REQUIRED = ',"description":', ',"required":[]'
# What changes a schema where it stands beside the properties.
_NOT_PLAIN = anthropic.LIMITS.contract.keywords_at_top() | {*json_schema.DERIVED}
_PLAIN = {type_: len(f':{{"type":"{written}"}},') for type_, written in schema.TYPES.items()}


def tokens(tool: Effective) -> int:
    """In the usual format (`exports.USUAL`): the figure of lists and heads, and of the catalog."""
    return tokens_of_size(_size(exports.write_usual(tool)))


def costs_as_written(fitting: ReleaseDocument, format_: Format, written: object) -> dict[str, int]:
    """By name, of tools that fit a format, transfers among them, and of what it wrote of them. What all tools
    cost is the sum of these: what a format writes around the list is no part of what a model reads.
    """
    if format_.places is None:
        return {}
    own = parts.tools_in(written, format_.places)
    names = [tool.signature.name for tool in fitting.tools]
    return {name: tokens_of_size(_size(each)) for name, each in zip(names, own, strict=True)}


def total(fitting: ReleaseDocument, format_: Format) -> int:
    return sum(costs_as_written(fitting, format_, format_.write(fitting)).values())


def of_signature(signature: Signature) -> int:
    """Of a tool before any words of ours: what `tokens` answers for its effective signature. It runs for each
    tool that is read from a vendor, so what plain inputs cost is added up without writing them.
    """
    inputs, rest = signature.inputs, signature.schema_rest
    names = [parameter.name for parameter in inputs]
    name = model_names.derive(signature.name)
    required = [parameter.name for parameter in inputs if parameter.required]
    schemas = [parameter.schema for parameter in inputs if parameter.schema is not None]
    is_plain = (
        not (rest and rest.keys() & _NOT_PLAIN)
        and not any(each.is_whole for each in inputs)
        and not any(map(rewriting.may_be_rewritten, [*schemas, rest] if schemas or rest else ()))
    )
    if not is_plain or list(model_names.aliases(names).values()) != names:
        return tokens(effective(signature, name=name))
    size = len(_FRAME) + _size(name) + sum([_of_input(parameter) for parameter in inputs])
    # Between two inputs stands a comma, and none behind the last one.
    size -= bool(inputs)
    if signature.description:
        size += len(_DESCRIPTION) + _size(signature.description)
    if required:
        size += len(_REQUIRED) + sum([len(each) + 3 for each in required]) - 1
    beside = {"additionalProperties": False} if rest is None else rest
    # Its braces are there, and a comma stands before it.
    return tokens_of_size(size + (_size(beside) - 1 if beside else 0))


def _of_input(parameter: Parameter) -> int:
    """With its name, which is legal, and the comma behind it."""
    size = len(parameter.name) + 2
    is_plain = parameter.schema is None and not parameter.unsupported_type and not parameter.title
    has_limits = (parameter.min, parameter.max, parameter.max_length) != (None, None, None)
    has_more = has_limits or parameter.allowed_values or parameter.default is not UNSET
    if is_plain and not has_more and parameter.type in _PLAIN:
        text = parameter.description
        return size + _PLAIN[parameter.type] + (len(_DESCRIPTION) + _size(text) if text else 0)
    return size + 2 + _size(schema.of_input(Input(alias=parameter.name, parameter=parameter)))


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))


def tokens_of_agent(node: ReleasedSubAgent) -> int:
    """What one agent of a release shows at once: its tools in the usual format, and its procedures."""
    return (
        sum(tokens(tool.signature) for tool in node.tools)
        + sum(tokens_of_transfer(each.name, each.description) for each in node.transfers)
        + sum(estimate_tokens(procedure.text) for procedure in node.procedures)
    )


def tokens_of_transfer(name: str, description: str) -> int:
    transfer = ReleasedTransfer(agent="", name=name, description=description)
    return tokens(transfers.signature_of(transfer))


def shown(tool: Effective) -> Signature:
    """What a model is shown, as a signature: our words and presets in it, what is hidden left out."""
    inputs = tuple(
        replace(each.parameter, name=each.shown_name)
        if each.preset is UNSET
        else replace(each.parameter, name=each.shown_name, required=False, default=each.preset)
        for each in tool.inputs
    )
    return Signature(
        # The vendor's name: an alias is about as long, and a figure that differs says that words do.
        name=tool.wire_name,
        description=tool.description,
        title=tool.title,
        img=tool.img,
        tags=tool.tags,
        inputs=inputs,
        outputs=tuple(output.parameter for output in tool.outputs),
        annotations=tool.annotations,
        requirements=tool.requirements,
        kind="agent" if tool.kind == "agent" else "tool",
        # Rules that may name an input that is hidden are not shown.
        schema_rest=schema.kept_rest(tool) if tool.hidden else tool.schema_rest,
        outputs_rest=tool.outputs_rest,
    )
