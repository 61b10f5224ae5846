"""The content of a document without its notation: equal for two documents with the same meaning.

A member that is null equals an absent one, 7.0 equals 7, and the order of required names and of types has
no meaning. Values of the vendor (`default`, `enum`, ...) stay unchanged.
"""

from typing import Any

# Below these keywords is data: null is a value, and order may matter.
_DATA = frozenset({"default", "const", "enum", "example", "examples", "value"})
# Lists in a schema that are sets.
_SETS = frozenset({"required", "type"})


def normalized(value: Any, under: str = "") -> Any:
    """Return a value that is equal for documents with the same meaning. under: the name of its member."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        is_data = under in _DATA
        return {
            member: normalized(part, under if is_data else member)
            for member, part in value.items()
            if is_data or part is not None or member in _DATA
        }
    if isinstance(value, list):
        is_set = under in _SETS and all(isinstance(part, str) for part in value)
        return sorted(set(value)) if is_set else [normalized(part, under) for part in value]
    return value
