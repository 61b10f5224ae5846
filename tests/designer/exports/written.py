"""Small tools, and everything that each format makes of them.

`python -m tests.designer.exports.written` writes tests/fixtures/exports/written.txt anew, for a change of
exports that is meant.
"""

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from designer import exports
from designer.exports import origins, outputs, parts
from designer.exports.base import carried
from designer.exports.document import ReleaseDocument, ReleasedProcedure, ReleasedReference
from designer.signatures.effective import effective
from designer.signatures.words import OutputWords, ParameterWords, ValueWords, Words
from protocols.a2t.document import read_signature as read_a2t
from protocols.mcp.document import read_signature as read_mcp
from tests.designer.exports.real_tools import release_of

FILE = Path(__file__).parents[2] / "fixtures/exports/written.txt"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def mcp(inputs: Any, outputs: Any = None, **members: Any) -> Any:
    document = {"name": "look_up", "description": "Looks it up.", "inputSchema": inputs, **members}
    return read_mcp(document | ({} if outputs is None else {"outputSchema": outputs}))


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}


def a2t(inputs: list[Any], outputs: list[Any] | None = None, **members: Any) -> Any:
    document = {"name": "look_up", "description": "Looks it up.", "input_parameters": inputs, **members}
    return read_a2t(document | {"output_parameters": outputs or []})


ITEM = object_schema("id", id=TEXT | {"description": "The id."}, count=WHOLE)
CHOICE = {"name": "unit", "type": "enum", "description": "The unit."}
UNIT = CHOICE | {"allowed-values": [{"name": "METRIC", "description": "Metres."}, {"name": "old"}]}
TUNED = Words(
    title="Look up",
    description="Finds it.",
    parameters={
        "town": ParameterWords(name="city", description="A city.", preset="Ulm"),
        "key": ParameterWords(hidden=True, preset="secret"),
        "unit": ParameterWords(values={"METRIC": ValueWords(description="In metres.")}),
        "old": ParameterWords(hidden=True),
    },
    outputs={"degrees": OutputWords(description="How warm."), "noise": OutputWords(hidden=True)},
)
DETAILED = object_schema(
    "town", "unit", town=TEXT | {"description": "A town."}, key=TEXT, old=WHOLE,
    unit=TEXT | {"enum": ["METRIC", "old"], "default": "old"}, days=WHOLE | {"minimum": 1, "maximum": 9},
)  # fmt: skip
ANSWER = object_schema("degrees", degrees={"type": "number"}, noise=TEXT)
HINTS = {"readOnlyHint": True, "openWorldHint": False, "title": "Finder"}
SIGNATURES: dict[str, tuple[Any, Words]] = {
    "plain": (mcp(object_schema("town", town=TEXT | {"description": "A town."}, days=WHOLE)), Words()),
    "without inputs": (mcp({"type": "object"}), Words()),
    "closed": (mcp(object_schema(town=TEXT) | {"additionalProperties": False}), Words()),
    "nested": (mcp(object_schema("item", item=ITEM, items={"type": "array", "items": ITEM})), Words()),
    "map": (mcp(object_schema("tags", tags={"type": "object", "additionalProperties": TEXT})), Words()),
    "references": (mcp(object_schema("a", a={"$ref": "#/$defs/A"}) | {"$defs": {"A": ITEM}}), Words()),
    "recursion": (
        mcp(
            object_schema(a={"$ref": "#/$defs/A"})
            | {"$defs": {"A": object_schema(a={"$ref": "#/$defs/A"}, b=TEXT)}}
        ),
        Words(),
    ),
    "root reference": (mcp({"type": "object", "$ref": "#/$defs/A", "$defs": {"A": ITEM}}), Words()),
    "rules at the top": (
        mcp(object_schema(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        Words(),
    ),
    "joined": (
        mcp({"type": "object", "allOf": [object_schema("a", a=TEXT), object_schema(b=WHOLE)]}),
        Words(),
    ),
    "required unlisted": (mcp(object_schema("a", "b", a=TEXT)), Words()),
    "alternatives": (
        mcp(object_schema(a={"oneOf": [TEXT, ITEM, {"type": "null"}]}, b={"type": ["string", "null"]})),
        Words(),
    ),
    "array without items": (
        mcp(object_schema("a", a={"type": "array"}, b={"type": "array", "items": {}})),
        Words(),
    ),
    "patterns": (
        mcp(
            object_schema(
                a=TEXT | {"pattern": "^(?!x)"}, b=TEXT | {"pattern": "(["}, c=TEXT | {"format": "email"}
            )
        ),
        Words(),
    ),
    "broken": (mcp(object_schema(a={"type": "text"}, b=WHOLE | {"minimum": "1"})), Words()),
    "dangling": (mcp(object_schema(a={"$ref": "#/$defs/none"}, b=TEXT)), Words()),
    "odd names": (mcp(object_schema("a b", **{"a b": TEXT, "ä": TEXT, "$c": WHOLE})), Words()),
    "numbers": (
        mcp(object_schema(a={"type": "number", "minimum": 0.5, "maximum": 2}, b=WHOLE | {"minimum": 1.5})),
        Words(),
    ),
    "outputs": (mcp(object_schema(town=TEXT), ANSWER), Words()),
    "other output": (mcp(object_schema(town=TEXT), {"type": "array", "items": ITEM}), Words()),
    "members": (
        mcp(
            object_schema(town=TEXT),
            title="Look up",
            annotations=HINTS,
            icons=[{"src": "https://x.example/i.png"}],
        ),
        Words(),
    ),
    "long": (mcp(object_schema(town=TEXT), description="Long. " * 200), Words()),
    "tuned": (mcp(DETAILED, ANSWER, annotations={"destructiveHint": False}), TUNED),
    "a2t": (
        a2t([{"name": "town", "type": "string", "description": "A town."}, UNIT], [{"name": "sky"}]),
        Words(),
    ),
    "a2t tags": (
        a2t(
            [{"name": "n", "type": "int", "max-length": 3, "min": 1, "required": False}], tags=["a"], img="i"
        ),
        Words(),
    ),
    "unknown type": (a2t([{"name": "n", "type": "blob"}], [{"name": "o", "type": "json"}]), Words()),
}
PROCEDURE = ReleasedProcedure(
    slug="find",
    title="Find <it>",
    text="# Goal\n\nFind it: fast.\n\n# When to use\n\nWhen asked.\n\n1. Call look_up.",
    references=(
        ReleasedReference(line=9, kind="tool", name="look_up"),
        ReleasedReference(line=9, kind="agent", name="to_desk"),
    ),
)


def release(name: str) -> ReleaseDocument:
    signature, words = SIGNATURES[name]
    document = release_of([signature])
    (tool,) = document.tools
    shown = effective(signature, name="look_up", agent_tuning=words)
    tool = msgspec.structs.replace(tool, signature=shown)
    return msgspec.structs.replace(document, tools=(tool,), procedures=(PROCEDURE,))


def everything(name: str) -> dict[str, Any]:
    """Return what each format makes of a tool, as JSON."""
    document, by_format = release(name), {}
    for format_ in exports.FORMATS:
        part = carried(document, format_.limits)
        result: dict[str, Any] = {"remarks": list(part.remarks)}
        if format_.is_text:
            result |= _written(format_, part.fitting)
        else:
            with zipfile.ZipFile(BytesIO(format_.body(part.fitting))) as archive:
                result["files"] = {entry: archive.read(entry).decode() for entry in archive.namelist()}
        by_format[format_.name] = result
    return json.loads(msgspec.json.encode(by_format))


def _written(format_: Any, fitting: ReleaseDocument) -> dict[str, Any]:
    document: Any = format_.write(fitting)
    tools, result = parts.tools_in(document, format_.places), dict[str, Any]()
    for tool, written in zip(fitting.tools, tools, strict=True):
        shown, wire = tool.signature, format_.wire(tool.signature)
        texts = origins.OriginTexts(tool=shown, name="agent", texts={}, origin_at=_find_origin)
        result |= {
            "accepts": exports.accepted_inputs(shown, format_.name),
            "names": wire.altered(),
            "parts": [
                list(msgspec.structs.astuple(part)) for part in parts.parts(written, format_.places, wire)
            ],
            # Together the pieces are the tool.
            "pieces": [list(span) for span in origins.spans(written, format_.places, wire, texts)],
            "answers": outputs.schema_of(shown, format_.name),
            "an answer": outputs.by_signature(shown, {"degrees": 1, "value": {"sky": 2}}, format_.name),
        }
    tools.clear()
    return result | {"around": document}


def _find_origin(path: tuple[str, ...]) -> origins.Origin:
    if path[0] == "parameters" and path[-1] in ("name", "preset", "description"):
        return "agent" if path[1] == "town" else "catalog" if path[1] == "unit" else "vendor"
    return "catalog" if path[0] in ("title", "effects") else "vendor"


def as_text(results: dict[str, dict[str, Any]]) -> str:
    """Write a line for each format of each tool."""
    lines = [
        f"{json.dumps([name, format_name])}: {json.dumps(result, ensure_ascii=False)}"
        for name, by_format in results.items()
        for format_name, result in by_format.items()
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    FILE.write_text(as_text({name: everything(name) for name in SIGNATURES}))
