"""Bodies that come in chunks, without a length that is said before: some programs send all of theirs so.

Django reads as much of a body as its length says, so it would read nothing of one without a length, and a
call would be made without its arguments. Such a body is taken whole here, and has a length from then on.
"""

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from django.conf import settings

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

IN_MEMORY = 1024**2
AT_ONCE = 64 * 1024


class ChunkedBodies:
    """As the web server calls an application, in front of Django."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, meta: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not _is_chunked(meta):
            return self._application(meta, start_response)
        body = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with the reply
        try:
            length = _copy(meta["wsgi.input"], body)
        except OSError:
            # The client went away, or what it sent are no chunks.
            body.close()
            start_response("400 Bad Request", [("Content-Type", "text/plain"), ("Connection", "close")])
            return [b"Bad Request: the chunks of the body cannot be read.\n"]
        body.seek(0)
        meta |= {"wsgi.input": body, "CONTENT_LENGTH": str(length)}
        return _Reply(self._application(meta, start_response), body)


class _Reply:
    """The server closes it, and with it the body that it was an answer to."""

    def __init__(self, reply: Iterable[bytes], body: IO[bytes]) -> None:
        self._reply, self._body = reply, body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._reply)

    def close(self) -> None:
        self._body.close()
        if close := getattr(self._reply, "close", None):
            close()


def _is_chunked(meta: Mapping[str, Any]) -> bool:
    # Only a server that marks the end of the body can be read to it.
    return bool(meta.get("HTTP_TRANSFER_ENCODING")) and bool(meta.get("wsgi.input_terminated"))


def _copy(chunks: io.BufferedIOBase, body: IO[bytes]) -> int:
    # One byte more than may be, for which the bounds of every request refuse it.
    length, most = 0, settings.MAX_BODY_BYTES + 1
    while length < most and (read := chunks.read(min(AT_ONCE, most - length))):
        length += body.write(read)
    return length
