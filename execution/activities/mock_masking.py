"""The configuration of a mock as people see it, with a mask in place of sensitive values."""

from collections.abc import Mapping
from typing import Any

from catalog.rules.sensitive_values import mask
from catalog.tools.sensitive_values import marks_of


def masked_mock(tool: int, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a mock of the tool for a person, or for the audit trail."""
    masked, marks = dict(config), marks_of([tool]).get(tool)
    if marks is None:
        return masked
    marked = {"arguments": marks.inputs, "outputs": marks.outputs, "when": marks.inputs}
    for member in ("examples", "situations"):
        if member in masked:
            masked[member] = [
                {name: mask(value, marked.get(name, ())) for name, value in row.items()}
                for row in masked[member]
            ]
    return masked
