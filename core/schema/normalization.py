"""What a document says, apart from how it is written: the same for two that no reader tells apart.

Members that are null are those that were not sent, 7.0 is 7, and the order in which names are required
or types are let in says nothing. Values of a vendor's own (`default`, `enum`, ...) stay as they are.
"""

from typing import Any

# Under these stands data, in which null is a value and order may mean something.
_DATA = frozenset({"default", "const", "enum", "example", "examples", "value"})
# In a schema, lists of names that are sets.
_SETS = frozenset({"required", "type"})


def normalized(value: Any, under: str = "") -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        is_data = under in _DATA
        return {
            member: normalized(each, under if is_data else member)
            for member, each in value.items()
            if is_data or each is not None or member in _DATA
        }
    if isinstance(value, list):
        is_set = under in _SETS and all(isinstance(each, str) for each in value)
        return sorted(set(value)) if is_set else [normalized(each, under) for each in value]
    return value
