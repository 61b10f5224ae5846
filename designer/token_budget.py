"""What a tool costs a model in tokens, by the signature it is shown. Pure."""

from msgspec import UNSET
from msgspec.structs import replace

from catalog.protocols.signature import Signature
from catalog.token_estimate import estimate_tokens, tokens_of
from designer.exports import schema
from designer.exports.document import ReleasedSubAgent
from designer.signatures.effective import Effective


def tokens(tool: Effective) -> int:
    # As the catalog counts, so that one tool has one figure in a list, in an agent and in a release.
    return tokens_of(shown(tool))


def tokens_of_agent(node: ReleasedSubAgent) -> int:
    """What one agent of a release shows at once, whatever the format."""
    return (
        sum(tokens(tool.signature) for tool in node.tools)
        + sum(tokens_of_transfer(each.name, each.description) for each in node.transfers)
        + sum(estimate_tokens(procedure.text) for procedure in node.procedures)
    )


def tokens_of_transfer(name: str, description: str) -> int:
    return estimate_tokens(name + description)


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
