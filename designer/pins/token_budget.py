"""The tokens that a tool costs a model, from the bytes that a format writes for it. Pure."""

import msgspec
from msgspec import UNSET, structs
from msgspec.structs import replace

from catalog.token_estimate import estimate_tokens, tokens_of_size
from core.content_cache import ContentCache, digest, digest_once
from designer import exports
from designer.exports import anthropic, parts, rewriting, schema, transfers
from designer.exports.base import Format
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTransfer
from designer.signatures import model_names
from designer.signatures.effective import Effective, EffectiveInput, effective
from protocols import parameters as json_schema
from protocols.signature import Parameter, Signature

# The text around the parts of a tool and of an input with a plain type, and the text that follows each.
_FRAME = '{"name":,"input_schema":{"type":"object","properties":{}}}'
_DESCRIPTION, _REQUIRED = ',"description":', ',"required":[]'
# Keywords that change the schema when they appear next to the properties, or that an export leaves out.
_NOT_PLAIN = anthropic.LIMITS.contract.keywords_at_top() | {*json_schema.DERIVED, "nullable"}
# Writing a tool takes longer than a digest of it, and writing all of them in all formats longer than a page.
_tokens: ContentCache[int] = ContentCache()
_tokens_by_format: ContentCache[dict[str, int]] = ContentCache(size=500)
_PLAIN = {type_: len(f':{{"type":"{type_name}"}},') for type_, type_name in schema.TYPES.items()}


def tokens(tool: Effective) -> int:
    """Return the tokens in the usual format (`exports.USUAL`), which lists, page heads and the catalog
    show.
    """
    return _tokens.get(digest_once(tool), lambda: tokens_of_size(_json_size(exports.write_usual(tool))))


def costs_as_written(fitting: ReleaseDocument, format_: Format, document: object) -> dict[str, int]:
    """Return the tokens of each tool and transfer that fits the format, from what the format wrote.

    The sum is the cost of all tools: the text around the list is not part of what a model reads.
    """
    if format_.places is None:
        return {}
    tool_objects = parts.tools_in(document, format_.places)
    names = [tool.signature.name for tool in fitting.tools]
    return {name: tokens_of_size(_json_size(row)) for name, row in zip(names, tool_objects, strict=True)}


def tokens_by_format(release: ReleaseDocument) -> dict[str, int]:
    """Return the tokens of the agent's own tools and transfers that each format carries."""
    own_part = structs.replace(release, number=0, procedures=(), agents=(), context=())
    return _tokens_by_format.get(
        digest(own_part),
        lambda: {
            format_.name: sum(costs_as_written(part.fitting, format_, format_.write(part.fitting)).values())
            for format_, part in exports.carried_by_format(own_part)
            if format_.is_text
        },
    )


def tokens_of_signature(signature: Signature) -> int:
    """Return the result of `tokens` for the effective signature of a tool without tuned texts.

    It runs for each tool that is read from a vendor, so the size of plain inputs is added up without writing
    them.
    """
    inputs, schema_rest = signature.inputs, signature.schema_rest
    names = [parameter.name for parameter in inputs]
    name = model_names.derive(signature.name)
    required = [parameter.name for parameter in inputs if parameter.required]
    schemas = [parameter.schema for parameter in inputs if parameter.schema is not None]
    is_plain = (
        not (schema_rest and schema_rest.keys() & _NOT_PLAIN)
        and not any(parameter.is_whole for parameter in inputs)
        and not any(
            map(rewriting.may_be_rewritten, [*schemas, schema_rest] if schemas or schema_rest else ())
        )
    )
    if not is_plain or list(model_names.aliases(names).values()) != names:
        return tokens(effective(signature, name=name))
    size = len(_FRAME) + _json_size(name) + sum([_input_size(parameter) for parameter in inputs])
    # A comma separates two inputs, and none follows the last one.
    size -= bool(inputs)
    if signature.description:
        size += len(_DESCRIPTION) + _json_size(signature.description)
    if required:
        size += len(_REQUIRED) + sum([len(name_) + 3 for name_ in required]) - 1
    other_keywords = signature.enforced_rest
    # Its braces are counted already, and a comma precedes it.
    return tokens_of_size(size + (_json_size(other_keywords) - 1 if other_keywords else 0))


def _input_size(parameter: Parameter) -> int:
    """Return the size with the input's name, which is legal, and the comma after it."""
    size = len(parameter.name) + 2
    is_plain = parameter.schema is None and not parameter.unsupported_type and not parameter.title
    has_limits = (parameter.min, parameter.max, parameter.max_length) != (None, None, None)
    has_more = has_limits or parameter.allowed_values or parameter.default is not UNSET
    if is_plain and not has_more and parameter.type in _PLAIN:
        text = parameter.description
        return size + _PLAIN[parameter.type] + (len(_DESCRIPTION) + _json_size(text) if text else 0)
    return size + 2 + _json_size(schema.of_input(EffectiveInput(alias=parameter.name, parameter=parameter)))


def _json_size(value: object) -> int:
    return len(msgspec.json.encode(value))


def tokens_of_agent(node: ReleasedSubAgent) -> int:
    """Return the tokens that one agent of a release shows: its tools in the usual format, and its
    procedures.
    """
    return (
        sum(tokens(tool.signature) for tool in node.tools)
        + sum(tokens_of_transfer(transfer.name, transfer.description) for transfer in node.transfers)
        + sum(estimate_tokens(procedure.text) for procedure in node.procedures)
    )


def tokens_of_transfer(name: str, description: str) -> int:
    transfer = ReleasedTransfer(agent="", name=name, description=description)
    return tokens(transfers.signature_of(transfer))


def shown_signature(tool: Effective) -> Signature:
    """Return what a model sees as a signature: with tuned texts and presets, without hidden parts."""
    inputs = tuple(
        replace(row.parameter, name=row.shown_name)
        if row.preset is UNSET
        else replace(row.parameter, name=row.shown_name, required=False, default=row.preset)
        for row in tool.inputs
    )
    return Signature(
        # The vendor's name, so that a figure differs only if texts differ: an alias is about as long.
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
        # Rules that may name a hidden input are left out.
        schema_rest=schema.kept_rest(tool) if tool.hidden else tool.schema_rest,
        outputs_rest=tool.outputs_rest,
    )
