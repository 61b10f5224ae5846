"""Read bodies that arrive in chunks without a Content-Length, as some programs send all of theirs.

Django reads as many bytes as Content-Length states, so it would read nothing, and a call would lose its
arguments.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from django.conf import settings

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

IN_MEMORY = 1024**2
AT_ONCE = 64 * 1024


def answer_chunked(
    application: Application, meta: Environ, start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """Read the complete body, set its length, and return the reply of the application."""
    body = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with the reply
    try:
        chunks = meta["wsgi.input"]
        # Reads one byte more than the limit, so that BoundsMiddleware rejects a longer body.
        length, limit = 0, settings.MAX_BODY_BYTES + 1
        while length < limit and (piece := chunks.read(min(AT_ONCE, limit - length))):
            length += body.write(piece)
    except OSError:
        # The client disconnected, or the chunks are malformed.
        body.close()
        start_response("400 Bad Request", [("Content-Type", "text/plain"), ("Connection", "close")])
        return [b"Bad Request: the chunks of the body cannot be read.\n"]
    body.seek(0)
    meta |= {"wsgi.input": body, "CONTENT_LENGTH": str(length)}
    return _Reply(application(meta, start_response), body)


class _Reply:
    """A reply that also closes the body of its request."""

    def __init__(self, reply: Iterable[bytes], body: IO[bytes]) -> None:
        self._reply, self._body = reply, body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._reply)

    def close(self) -> None:
        self._body.close()
        if close := getattr(self._reply, "close", None):
            close()
