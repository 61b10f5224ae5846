"""The address of a client. Any client can write X-Forwarded-For; only our own proxies are believed."""

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address of the client, behind NUM_PROXIES proxies of this deployment."""
    # Each proxy appends its client's address, so it is what the first one appended. Without proxies, and when
    # there are fewer entries than proxies, it is the other end of the connection.
    direct: str = request.META.get("REMOTE_ADDR", "")
    heard = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    proxies: int = settings.NUM_PROXIES
    if not 0 < proxies <= len(heard):
        return direct
    try:
        return str(ip_address(heard[-proxies].strip()))
    except ValueError:
        return direct
