"""Origins of web addresses: a scheme, a host and a port (RFC 6454). Pure: settings.py uses it."""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int | None]


def origin_of(address: str) -> Origin | None:
    """Return the origin with its port, or None if the text is not an address, such as `null`."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or DEFAULT_PORTS.get(parts.scheme)


def format_origin(origin: Origin) -> str:
    """Format an origin as browsers send it: without the default port."""
    scheme, host, port = origin
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port in (None, DEFAULT_PORTS.get(scheme)) else f"{scheme}://{host}:{port}"


def address_problem(variable: str, address: str) -> str:
    """Return why Pegboard cannot use this address as its own; "" if it can or if the address is empty."""
    if not address:
        return ""
    origin = origin_of(address)
    if origin is None or origin[0] not in DEFAULT_PORTS:
        return f"{variable} is not the address of a website. Write it as https://pegboard.example.com."
    parts = urlsplit(address)
    if parts.username is not None or parts.query or parts.fragment:
        return f"{variable} contains more than a scheme, a host and a port: write {format_origin(origin)}."
    if parts.path.strip("/"):
        return (
            f"{variable} has the path {parts.path}, and Pegboard cannot be served below a path. "
            f"Use a separate host name, such as https://pegboard.example.com."
        )
    return ""
