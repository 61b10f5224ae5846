"""Presets as people see them, with a mask in place of sensitive values. Runtimes get them unmasked."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from catalog.rules.sensitive_values import has_mask, mask, sensitive_texts
from catalog.tools.sensitive_values import marks_of
from designer.exports.document import ReleaseDocument
from designer.exports.round_trip import presets_of
from designer.signatures.effective import Effective
from designer.signatures.words import Words


def masked_signature(tool: int, signature: Effective) -> Effective:
    """Return the tool as a model sees it, for a person."""
    return mask_presets(signature, _marks_of_inputs(tool)) if presets_of(signature) else signature


def mask_presets(signature: Effective, marked_members: Collection[str]) -> Effective:
    if not marked_members:
        return signature
    masked = {
        name: {"preset": value} for name, value in mask(dict(presets_of(signature)), marked_members).items()
    }
    return msgspec.structs.replace(
        signature,
        inputs=tuple(
            msgspec.structs.replace(row, **masked.get(row.parameter.name, {})) for row in signature.inputs
        ),
        hidden=tuple(
            msgspec.structs.replace(row, **masked.get(row.parameter.name, {})) for row in signature.hidden
        ),
    )


def masked_tool(document: ReleaseDocument, name: str) -> ReleaseDocument:
    """Return a document with the presets of this tool masked."""
    tools = tuple(
        msgspec.structs.replace(tool, signature=masked_signature(tool.id, tool.signature))
        if tool.signature.name == name
        else tool
        for tool in document.tools
    )
    return msgspec.structs.replace(document, tools=tools)


def sensitive_presets(documents: Iterable[ReleaseDocument]) -> list[str]:
    """Return the texts in sensitive presets of these releases, which sentences about changes may repeat."""
    tools = [tool for document in documents for node in document.nodes for tool in node.tools]
    presets = [(tool.id, dict(presets_of(tool.signature))) for tool in tools]
    marks = marks_of(tool for tool, values in presets if values)
    texts = {
        text
        for tool, values in presets
        if tool in marks
        for text in sensitive_texts(values, marks[tool].inputs)
    }
    return sorted(texts, key=len, reverse=True)


def masked_parameters(tool: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tuned members of inputs, by the vendor's names, for a person."""
    presets = {name: words["preset"] for name, words in parameters.items() if "preset" in words}
    masked = mask(presets, _marks_of_inputs(tool)) if presets else {}
    return {
        name: {**words, "preset": masked[name]} if name in masked else words
        for name, words in parameters.items()
    }


def masked_words(tool: int, words: Words) -> Words:
    parameters = masked_parameters(tool, msgspec.to_builtins(words.parameters))
    return msgspec.convert({**msgspec.to_builtins(words), "parameters": parameters}, Words)


def without_masks(words: Words) -> tuple[Words, list[str]]:
    """Return the words without presets that have a mask in them, and the names of their inputs."""
    masked = [
        name for name, row in words.parameters.items() if row.preset is not UNSET and has_mask(row.preset)
    ]
    parameters = {
        name: msgspec.structs.replace(row, preset=UNSET) if name in masked else row
        for name, row in words.parameters.items()
    }
    return msgspec.structs.replace(words, parameters=parameters), masked


def _marks_of_inputs(tool: int) -> Collection[str]:
    marks = marks_of([tool]).get(tool)
    return marks.inputs if marks else ()
