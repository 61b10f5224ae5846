"""Recognizes the reads that a release settles: whether an export has changed (If-None-Match), and the tools
of a release (`tools/list` of MCP).
"""

import io
import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from core.log_context import ID_IN_ENVIRON
from designer import exports
from designer.agents.access_tokens import ROOT
from designer.api.release_files import ReleaseBytesView
from designer.releases import publishing
from designer.releases.release_access import ReleaseRead
from people.models import KEY_SHAPE
from serving.serve.views import Listing

# As WSGI passes it; Django calls it `META`.
Environ = dict[str, Any]
MAX_BODY_BYTES, MAX_HEADERS = 16 * 1024, 80
_EXPORT = re.compile(
    r"/api/v1/agents/([-\w]{1,60})/releases/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?(tools|bundle)/",
    re.ASCII,
)
_FORMAT = re.compile(r"format=([a-z0-9-]{1,30})")
_SERVED = re.compile(ROOT + r"([-\w]{1,60})/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?mcp", re.ASCII)
# Clients count it up, and the response repeats it.
_MESSAGE_ID = re.compile(rb'"id"\s*:\s*(0|[1-9][0-9]{0,17}|"[A-Za-z0-9_.:-]{1,100}")(?=\s*[,}])')
# The text of the other formats may depend on environments, which change while the release does not.
_SETTLED_FORMATS = frozenset(format_.name for format_ in exports.FORMATS if format_.resolve is None)
_BEFORE_ID = b'{"jsonrpc":"2.0","id":'
# They differ from request to request, and no response depends on them. The key is looked up each time.
_IGNORED_HEADERS = {
    *("HTTP_AUTHORIZATION", ID_IN_ENVIRON, "HTTP_TRACEPARENT", "HTTP_TRACESTATE"),
    *("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED"),
    # The handshake concerns calls alone (protocols/mcp/server/clients.py).
    "HTTP_MCP_SESSION_ID",
}
_FACTS = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "wsgi.url_scheme")


@dataclass(frozen=True, slots=True)
class CacheableRead:
    """A read whose response may be cached.

    facts: the whole request without the API key and the id of the message, so that no header can matter
    unseen. size: bytes of the facts.
    """

    release: ReleaseRead
    facts: Hashable
    message_id: bytes
    size: int


def parse(meta: Environ) -> CacheableRead | None:
    """Parse a request; None if its response depends on more than a release. Restores a body that was read."""
    if meta.get("SCRIPT_NAME"):
        return None
    body, message_id = b"", b""
    if meta["PATH_INFO"].startswith(ROOT):
        if (release := _parse_list(meta)) is None:
            return None
        body = meta["wsgi.input"].read(int(meta["CONTENT_LENGTH"]))
        meta["wsgi.input"] = io.BytesIO(body)
        if b'"tools/list"' not in body or b"\\" in body or body.count(b'"id"') != 1:
            return None
        if (match := _MESSAGE_ID.search(body)) is None:
            return None
        message_id = match[1]
        body = body[: match.start(1)] + b"\0" + body[match.end(1) :]
    elif (release := _parse_export(meta)) is None:
        return None
    headers = [
        header
        for header in meta.items()
        if header[0].startswith("HTTP_") and header[0] not in _IGNORED_HEADERS
    ]
    if len(headers) > MAX_HEADERS:
        return None
    facts = (body, *(meta.get(fact) for fact in _FACTS), *sorted(headers))
    size = len(body) + sum(len(name) + len(value) for name, value in headers)
    return CacheableRead(release, facts, message_id, size)


def split_at_id(read_request: CacheableRead, meta: Environ, body: bytes) -> tuple[bytes, bytes] | None:
    """Return the body of a response before and after the id of its message. None if the request was no
    `tools/list`, or the response has another form.
    """
    # Django has parsed the message, so no member of it is repeated.
    message = json.loads(meta["wsgi.input"].getvalue())
    if not isinstance(message, dict) or message.get("method") != "tools/list":
        return None
    if not body.startswith(_BEFORE_ID + read_request.message_id + b',"result":'):
        return None
    return _BEFORE_ID, body[len(_BEFORE_ID) + len(read_request.message_id) :]


def _parse_list(meta: Environ) -> ReleaseRead | None:
    length = meta.get("CONTENT_LENGTH", "")
    if meta["REQUEST_METHOD"] != "POST" or not (length.isascii() and length.isdigit()):
        return None
    match = _SERVED.fullmatch(meta["PATH_INFO"])
    if match is None or int(length) > MAX_BODY_BYTES:
        return None
    slug, name, sub_agent = match.groups()
    return _release_read(meta, slug, name, "serve/mcp", sub_agent or "", Listing)


def _parse_export(meta: Environ) -> ReleaseRead | None:
    if not meta.get("HTTP_IF_NONE_MATCH") or meta["REQUEST_METHOD"] != "GET":
        return None
    match = _EXPORT.fullmatch(meta["PATH_INFO"])
    if match is None:
        return None
    slug, name, sub_agent, kind = match.groups()
    query = meta.get("QUERY_STRING", "")
    format_match = _FORMAT.fullmatch(query)
    if kind == "tools" and format_match and format_match[1] in _SETTLED_FORMATS:
        return _release_read(meta, slug, name, format_match[1], sub_agent or "", ReleaseBytesView)
    if kind == "bundle" and not query and not sub_agent:
        return _release_read(meta, slug, name, kind, "", ReleaseBytesView)
    return None


def _release_read(
    meta: Mapping[str, Any], slug: str, name: str, surface: str, sub_agent: str, view: type
) -> ReleaseRead | None:
    scheme, _, credentials = meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    key = credentials.strip()
    if scheme.lower() != "bearer" or not KEY_SHAPE.fullmatch(key):
        return None
    if sub_agent and sub_agent != slug:
        (surface,) = publishing.export_names(surface, is_partial=False, sub_agent=sub_agent)
    return ReleaseRead(slug, name, surface, key, view)
