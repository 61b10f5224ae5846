"""The kinds of activities: one line for each."""

from catalog.activities.base import Kind
from catalog.activities.http import Http
from catalog.activities.mock import Mock
from catalog.activities.steps import Composite, Vendor
from core.errors import invalid

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Vendor(), Http(), Composite(), Mock())}


def get(name: str) -> Kind:
    if name not in KINDS:
        raise invalid(kind=f"Choose one of: {', '.join(KINDS)}.")
    return KINDS[name]
