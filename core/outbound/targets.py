"""The target of a request: the path and query that the vendor receives."""

import re
from urllib.parse import unquote

from core.outbound.addresses import CheckedUrl
from core.outbound.errors import RefusedError, printable
from core.outbound.request import Request

_PATH = re.compile(r"(?:/(?!/)[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)?")
_QUERY = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*")
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


def request_target(root: CheckedUrl, request: Request) -> str:
    """Return the target of the request below the root. Raises RefusedError if it would leave it."""
    if request.method not in _METHODS or not _QUERY.fullmatch(request.query):
        raise RefusedError("REQUEST", "The request contains characters that HTTP does not allow there.")
    has_dots = any(unquote(segment) in {".", ".."} for segment in request.path.split("/"))
    if has_dots or not _PATH.fullmatch(request.path):
        path = printable(request.path)
        raise RefusedError("PATH", f"The path {path} would leave the endpoint's address.")
    # Parameters of the root are added, unless the request has parameters of the same name.
    names = {part.partition("=")[0] for part in request.query.split("&")}
    fixed_parts = [part for part in root.query.split("&") if part.partition("=")[0] not in names]
    query = "&".join(part for part in (*fixed_parts, request.query) if part)
    return (root.path + request.path or "/") + (f"?{query}" if query else "")
