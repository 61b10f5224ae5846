"""The kinds of activities: one line for each."""

from django.utils.translation import gettext as _

from core.errors import invalid
from execution.activities.base import ActivityKind
from execution.activities.http import Http
from execution.activities.mock import MockKind
from execution.activities.steps import Composite, VendorKind

KINDS: dict[str, ActivityKind] = {kind.name: kind for kind in (VendorKind(), Http(), Composite(), MockKind())}


def get(name: str) -> ActivityKind:
    if name not in KINDS:
        raise invalid(kind=_("Choose one of: {kinds}.").format(kinds=", ".join(KINDS)))
    return KINDS[name]
