"""Limits for the list of a vendor: its length, its size and its time, by the settings of the endpoint.

Each protects against a vendor whose list never ends. The error names the limit and how to raise it.
"""

from dataclasses import replace
from typing import Any

from django.core.validators import MaxValueValidator

from catalog.models import Endpoint
from core.outbound.limits import DEFAULT_LIMITS, MIB, Limits

FIELDS = ("max_tools", "max_minutes", "max_megabytes", "max_reply_megabytes")


def highest(field: str) -> int:
    """Return the highest number that an administrator may set in this field of an endpoint."""
    declared: Any = Endpoint._meta.get_field(field)
    return next(
        int(check.limit_value) for check in declared.validators if isinstance(check, MaxValueValidator)
    )


def way_out(field: str) -> str:
    declared: Any = Endpoint._meta.get_field(field)
    label, limit = declared.verbose_name, highest(field)
    return f"An administrator can raise “{label}” in the endpoint's settings, up to {limit:,}."


def limits_of(endpoint: Endpoint, usual: Limits = DEFAULT_LIMITS) -> Limits:
    """Return the limits of a session that reads this endpoint."""
    return replace(
        usual,
        body=endpoint.max_reply_megabytes * MIB,
        body_way_out=way_out("max_reply_megabytes"),
        session_bytes=endpoint.max_megabytes * MIB,
        session_way_out=way_out("max_megabytes"),
    )
