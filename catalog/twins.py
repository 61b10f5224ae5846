"""Endpoints with the same address: the same vendor, connected more than once."""

from typing import NamedTuple

from django.utils.translation import gettext as _

import protocols
from catalog.models import Endpoint
from core.outbound.addresses import check_url
from core.outbound.errors import RefusedError
from core.outbound.policy import AddressSource, Door, policy_for


def address_of(endpoint: Endpoint) -> str:
    """Return a normal form of all addresses that mean this endpoint, "" for none."""
    try:
        url = check_url(endpoint.url, policy_for(Door.VENDOR, AddressSource.ADMINISTRATOR), may_ask=True)
    except RefusedError:
        return ""
    query = f"?{url.query}" if url.query else ""
    return url.origin + protocols.get(endpoint.protocol).own_path(url.path) + query


def twins_of(endpoint: Endpoint) -> list[Endpoint]:
    """Return the other endpoints at its address, in any protocol, the oldest first."""
    address = address_of(endpoint)
    if not address:
        return []
    host = address.partition("://")[2].partition("/")[0].partition("?")[0]
    rows = (
        Endpoint.objects.live().filter(url__icontains=host.rpartition(":")[0] or host).exclude(pk=endpoint.pk)
    )
    twins = rows.select_related("vendor", "credential").order_by("pk")
    return [row for row in twins if address_of(row) == address]


class ConnectedEndpoint(NamedTuple):
    """An existing endpoint with an address that an administrator enters again.

    is_same: it has the same credential and settings, so a second endpoint would be a copy.
    """

    endpoint: Endpoint
    is_same: bool

    @property
    def message(self) -> str:
        name = f" ({self.endpoint.name})" if self.endpoint.name else ""
        summary = _("Already connected as {vendor}.").format(vendor=f"{self.endpoint.vendor}{name}")
        if self.is_same:
            advice = _(
                "It is read with this credential and these settings: use that endpoint, or connect the "
                "address a second time with another credential."
            )
        else:
            advice = _("Use that endpoint, or connect the address a second time on purpose.")
        return f"{summary} {advice}"


def already_connected(endpoint: Endpoint) -> list[ConnectedEndpoint]:
    """Return the twins in its protocol; first those that are the same in all, then the oldest."""
    identity = (endpoint.credential_id, endpoint.settings)
    matches = [
        ConnectedEndpoint(twin, is_same=(twin.credential_id, twin.settings) == identity)
        for twin in twins_of(endpoint)
        if twin.protocol == endpoint.protocol
    ]
    return sorted(matches, key=lambda each: not each.is_same)
