"""One tool of Gemini's `tools`: the declarations of all functions, with their inputs in JSON Schema.

`parameters` knows a part of OpenAPI alone; `parametersJsonSchema` in its place takes the schema as it is.
"""

from functools import partial
from typing import Any

from designer.exports import dialects, root_rules, schema
from designer.exports.base import Format, Limits
from designer.exports.dialects import Dialect
from designer.exports.document import ReleaseDocument
from designer.exports.parts import Places
from designer.signatures.effective import Effective

LIMITS = Limits(
    source="google-genai 3.4.0, types.py: Tool and FunctionDeclaration; "
    "https://ai.google.dev/gemini-api/docs/function-calling",
    date="2026-11-22",
    carries=frozenset({"outputs", "defaults", "rules", "schemas"}),
    outputs_are_objects=True,
    # The inputs are the properties of an object.
    dialect=Dialect(refused_at_top=root_rules.REFUSED),
    advised_tools=128,
)


def write(release: ReleaseDocument) -> object:
    return {"functionDeclarations": [_declaration(tool.signature) for tool in release.tools]}


def _declaration(tool: Effective) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    parameters = dialects.inputs(tool, LIMITS.dialect).schema
    # A function that takes nothing has no parameters, as an object without properties may be refused.
    if parameters["properties"] or parameters.get("additionalProperties"):
        written["parametersJsonSchema"] = parameters
    if tool.outputs or tool.outputs_rest is not None:
        written["responseJsonSchema"] = schema.of_outputs_as_an_object(tool)[0]
    return written


FORMAT = Format(
    name="gemini",
    label="Gemini",
    limits=LIMITS,
    write=write,
    wire=partial(dialects.wire_both_ways, dialect=LIMITS.dialect),
    places=Places(
        tools=("functionDeclarations",), inputs=("parametersJsonSchema",), outputs=("responseJsonSchema",)
    ),
)
