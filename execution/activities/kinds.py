"""The kinds of activities: one line for each."""

from core.errors import invalid
from execution.activities.base import Kind
from execution.activities.http import Http
from execution.activities.mock import Mock
from execution.activities.steps import Composite, Vendor

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Vendor(), Http(), Composite(), Mock())}


def get(name: str) -> Kind:
    if name not in KINDS:
        raise invalid(kind=f"Choose one of: {', '.join(KINDS)}.")
    return KINDS[name]
