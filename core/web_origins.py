"""Origins of web addresses: a scheme, a host and a port (RFC 6454). Pure: settings.py uses it."""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int | None]


def origin_of(address: str) -> Origin | None:
    """Return the origin with its port, or None for what is no address, such as `null`."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or DEFAULT_PORTS.get(parts.scheme)


def format_origin(origin: Origin) -> str:
    """Write an origin as browsers send it: without the usual port."""
    scheme, host, port = origin
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port in (None, DEFAULT_PORTS.get(scheme)) else f"{scheme}://{host}:{port}"


def address_problem(variable: str, address: str) -> str:
    """Return why Pegboard cannot be at this address; empty if it can, and for no address."""
    if not address:
        return ""
    origin = origin_of(address)
    if origin is None or origin[0] not in DEFAULT_PORTS:
        return f"{variable} is no address of a website: write it as https://pegboard.example.com."
    parts = urlsplit(address)
    if parts.username is not None or parts.query or parts.fragment:
        return f"{variable} contains more than a scheme, a host and a port: write {format_origin(origin)}."
    if parts.path.strip("/"):
        return (
            f"{variable} has the path {parts.path}, and Pegboard cannot be served below a path. "
            f"Give it a host name of its own, such as https://pegboard.example.com, and write that."
        )
    return ""
