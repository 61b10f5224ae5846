"""The address of a client. Any client can write X-Forwarded-For; only the proxies of this deployment are
trusted."""

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """Return the address of the client, behind NUM_PROXIES proxies of this deployment."""
    # Each proxy appends the address of its client, so the outermost proxy appended the client's address.
    # Without proxies, or with fewer entries than proxies, the address of the connection is used.
    direct: str = request.META.get("REMOTE_ADDR", "")
    hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    proxies: int = settings.NUM_PROXIES
    if not 0 < proxies <= len(hops):
        return direct
    try:
        return str(ip_address(hops[-proxies].strip()))
    except ValueError:
        return direct
