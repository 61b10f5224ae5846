"""A vendor's value in a message."""

from core.canonical_json import canonical
from core.outbound.errors import printable


def describe_value(value: object) -> str:
    """Return a short, harmless text for `value`; of lists and objects only their type."""
    if value is None:
        return "missing"
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        return f"“{printable(value, 60)}”" if value.strip() else "blank"
    return printable(canonical(value).decode(), 30)
