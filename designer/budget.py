"""What a tool costs a model in tokens, by the signature it is shown. Pure."""

from catalog.protocols.base import canonical
from catalog.tokens import estimate_tokens
from designer.effective import Effective
from designer.exports import schema


def tokens(tool: Effective) -> int:
    return estimate_tokens(
        canonical({"name": tool.name, "description": tool.description, "parameters": schema.of_inputs(tool)})
    )
