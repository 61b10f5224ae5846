"""Endpoints that stand at one address: the same vendor, connected more than once."""

from catalog import protocols
from catalog.models import Endpoint
from core.outbound.addresses import check_url
from core.outbound.errors import RefusedError
from core.outbound.policy import outbound_policy


def address_of(endpoint: Endpoint) -> str:
    """One spelling for every address under which this endpoint could have been entered; "" for none."""
    try:
        url = check_url(endpoint.url, outbound_policy(), may_ask=True)
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
