"""The form of a schema that a person is shown: one type with its values and bounds, where there is one.

Nothing else depends on it. `Document.level` returns what a schema means.
"""

from contextlib import suppress
from typing import Any

from core.schema import pointers

# References and single-branch unions may form a cycle.
MAX_STEPS = 8


def shown_form(schema: dict[str, Any], root: object = None) -> dict[str, Any]:
    """Return the schema with the only form of its union, or the target of its reference, put in place.

    root: the document in which pointers are followed; None leaves references as they are.
    """
    for _ in range(MAX_STEPS):
        if "type" in schema or "enum" in schema or "const" in schema:
            break
        form, reference = only_form(schema), schema.get("$ref")
        if form is None and root is not None and isinstance(reference, str):
            siblings = {name: value for name, value in schema.items() if name != "$ref"}
            with suppress(pointers.PointerError):
                target = pointers.resolve_reference(root, reference)
                form = target | siblings if isinstance(target, dict) else None
        if form is None:
            break
        schema = form
    return schema


def only_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the one form that a value has beside null; None for other schemas.

    Libraries write an optional member as a union of one form and null.
    """
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        forms = [form for form in branches if form != {"type": "null"}] if isinstance(branches, list) else []
        if len(forms) == 1 and isinstance(forms[0], dict):
            return forms[0] | {name: value for name, value in schema.items() if name != keyword}
    return None


def followed(schema: dict[str, Any], root: object) -> dict[str, Any]:
    """Return the schema with the target of its reference, or the only schema of its `allOf`, put in place.

    Raises PointerError for a reference without a target in `root`.
    """
    while isinstance(reference := schema.get("$ref"), str):
        schema = pointers.resolve_reference(root, reference)
    parts = schema.get("allOf", [])
    return {**followed(parts[0], root), **schema} if len(parts) == 1 else schema
