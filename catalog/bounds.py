"""Limits for the list of a vendor: its length, its size and its time, by the settings of the endpoint.

Each protects against a vendor whose list never ends. The error names the limit and how to raise it.
"""

from dataclasses import dataclass, replace

from catalog.models import Endpoint
from core.outbound.limits import DEFAULT_LIMITS, MIB, Limits


@dataclass(frozen=True, slots=True)
class Bound:
    """`most` is as far as an administrator may raise it."""

    field: str
    label: str
    help: str
    most: int

    @property
    def way_out(self) -> str:
        return f"An administrator can raise “{self.label}” in the endpoint's settings, up to {self.most:,}."


TOOLS = Bound("max_tools", "Tools in the list, at most", "", 1_000_000)
MINUTES = Bound(
    "max_minutes",
    "Minutes for a sync, at most",
    "Pegboard syncs a long list in parts.",
    1_440,
)
MEGABYTES = Bound("max_megabytes", "Megabytes of all replies of one sync", "", 4_096)
REPLY_MEGABYTES = Bound(
    "max_reply_megabytes", "Megabytes of one reply", "One page of the list, or the whole document.", 256
)
BOUNDS = (TOOLS, MINUTES, MEGABYTES, REPLY_MEGABYTES)
FIELDS = tuple(bound.field for bound in BOUNDS)


def limits_of(endpoint: Endpoint, usual: Limits = DEFAULT_LIMITS) -> Limits:
    """Return the limits of a session that reads this endpoint."""
    return replace(
        usual,
        body=endpoint.max_reply_megabytes * MIB,
        body_way_out=REPLY_MEGABYTES.way_out,
        session_bytes=endpoint.max_megabytes * MIB,
        session_way_out=MEGABYTES.way_out,
    )
