"""Endpoints that stand at one address: the same vendor, connected more than once."""

from typing import NamedTuple

import protocols
from catalog.models import Endpoint
from core.outbound.addresses import check_url
from core.outbound.errors import RefusedError
from core.outbound.policy import AddressSource, Door, policy_for


def address_of(endpoint: Endpoint) -> str:
    """One spelling for every address under which this endpoint could have been entered; "" for none."""
    try:
        url = check_url(endpoint.url, policy_for(Door.VENDOR, AddressSource.ADMINISTRATOR), may_ask=True)
    except RefusedError:
        return ""
    query = f"?{url.query}" if url.query else ""
    return url.origin + protocols.get(endpoint.protocol).own_path(url.path) + query


def twins_of(endpoint: Endpoint) -> list[Endpoint]:
    """The others at its address, in whatever protocol; oldest first."""
    address = address_of(endpoint)
    if not address:
        return []
    host = address.partition("://")[2].partition("/")[0].partition("?")[0]
    rows = (
        Endpoint.objects.live().filter(url__icontains=host.rpartition(":")[0] or host).exclude(pk=endpoint.pk)
    )
    found = rows.select_related("vendor", "credential").order_by("pk")
    return [row for row in found if address_of(row) == address]


class Connected(NamedTuple):
    """What stands at an address already, as is said to the administrator who enters it again.

    `is_same`: with this credential and these settings, so that a second connection would be a copy.
    """

    endpoint: Endpoint
    is_same: bool

    @property
    def message(self) -> str:
        named = f" ({self.endpoint.name})" if self.endpoint.name else ""
        known = f"Already connected as {self.endpoint.vendor}{named}."
        if self.is_same:
            return (
                f"{known} It is read with this credential and these settings: use that endpoint, or connect "
                "the address a second time with another credential."
            )
        return f"{known} Use that endpoint, or connect the address a second time on purpose."


def already_connected(endpoint: Endpoint) -> list[Connected]:
    """The twins in its protocol; first those that are the same in all, then the oldest."""
    wanted = (endpoint.credential_id, endpoint.settings)
    found = [
        Connected(twin, is_same=(twin.credential_id, twin.settings) == wanted)
        for twin in twins_of(endpoint)
        if twin.protocol == endpoint.protocol
    ]
    return sorted(found, key=lambda each: not each.is_same)
