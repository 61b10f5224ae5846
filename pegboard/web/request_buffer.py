"""Collect the bytes of a request and detect its end. Pure: the caller feeds the bytes.

This only decides how long to wait. The parser of the web server reads the bytes again and rejects malformed
requests (RFC 9112).
"""

import re
import tempfile
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from typing import IO

MAX_HEAD_BYTES = 64 * 1024
MAX_CHUNK_LINE_BYTES = 8 * 1024
# A larger request is written to a temporary file.
IN_MEMORY_BYTES = 256 * 1024
END_OF_HEAD = b"\r\n\r\n"
# The headers that tell where the body ends (RFC 9112, section 6.3).
_LENGTH = re.compile(rb"\r\n[ \t]*content-length[ \t]*:([^\r]*)", re.IGNORECASE)
_CODING = re.compile(rb"\r\n[ \t]*transfer-encoding[ \t]*:", re.IGNORECASE)


class RequestHead:
    """The request line and the headers. text: their bytes, without the empty line.

    The headers are parsed on demand, because most requests arrive at once and need no look at them.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.is_chunked = _CODING.search(text) is not None

    @cached_property
    def _request_line(self) -> list[str]:
        return self._text.lstrip(b"\r\n").partition(b"\r\n")[0].decode("latin-1").split(" ")

    @property
    def method(self) -> str:
        return self._request_line[0]

    @property
    def path(self) -> str:
        return "".join(self._request_line[1:2]).partition("?")[0]

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Return the headers by name in lower case."""
        lines = self._text.lstrip(b"\r\n").decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    @cached_property
    def body_length(self) -> int | None:
        """The length in bytes; None for a chunked body and for an invalid Content-Length."""
        lengths = _LENGTH.findall(self._text)
        length = lengths[-1].strip() if lengths else b"0"
        return None if self.is_chunked or not length.isdigit() else int(length)

    @property
    def waits_for_continue(self) -> bool:
        """True if the client sends the body only after 100 Continue (RFC 9110, section 10.1.1)."""
        return self.headers.get("expect", "").lower() == "100-continue"


class RequestBuffer:
    """Collects the bytes of one request.

    is_complete: it can be answered. is_whole: all its bytes have arrived.
    """

    def __init__(self, max_body: int) -> None:
        self.head: RequestHead | None = None
        self.is_complete = self.is_whole = self.has_begun = False
        self._max_body, self._body = max_body, 0
        self._head_bytes = bytearray()
        self._chunks: ChunkScanner | None = None
        self._file: IO[bytes] = BytesIO()

    def feed(self, piece: bytes) -> None:
        self.has_begun = self.has_begun or bool(piece)
        # tempfile.SpooledTemporaryFile does the same; each of its calls takes as long as these lines.
        if isinstance(self._file, BytesIO) and self._file.tell() + len(piece) > IN_MEMORY_BYTES:
            in_memory, self._file = self._file, tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._file.write(in_memory.getvalue())
        self._file.write(piece)
        if self.head is None:
            self._head_bytes += piece
            end = self._head_bytes.find(END_OF_HEAD)
            if end < 0:
                self.is_complete = len(self._head_bytes) > MAX_HEAD_BYTES
                return
            self.head = RequestHead(bytes(self._head_bytes[:end]))
            piece = bytes(self._head_bytes[end + len(END_OF_HEAD) :])
            self._chunks = ChunkScanner() if self.head.is_chunked else None
            self._head_bytes.clear()
        self._body += len(piece)
        # An invalid length, a body that is too large, or malformed chunks: the rest is not read.
        if self._chunks:
            self.is_whole = self._chunks.feed(piece) and not self._chunks.is_broken
            is_refused = self._chunks.is_broken
        else:
            length = self.head.body_length
            self.is_whole = length is not None and self._body >= length
            is_refused = length is None or length > self._max_body
        self.is_complete = self.is_whole or is_refused or self._body > self._max_body

    def bytes_so_far(self) -> IO[bytes]:
        """Return the file with all bytes from the beginning. Nothing can be fed afterwards."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        self._file.close()


class ChunkScanner:
    """Finds the end of a body in chunks (RFC 9112, section 7.1)."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._skipped = 0
        self._is_in_trailer = self._has_ended = self.is_broken = False

    def feed(self, piece: bytes) -> bool:
        """Return True once the body has ended or cannot be read."""
        start = 0
        while start < len(piece) and not self._has_ended:
            if self._skipped:
                step = min(self._skipped, len(piece) - start)
                self._skipped -= step
                start += step
                continue
            end = piece.find(b"\n", start)
            self._line += piece[start : end if end >= 0 else None]
            if end < 0:
                self._has_ended = self.is_broken = len(self._line) > MAX_CHUNK_LINE_BYTES
                break
            start = end + 1
            line = bytes(self._line).rstrip(b"\r")
            self._line.clear()
            if self._is_in_trailer:
                self._has_ended = not line
                continue
            try:
                size = int(line.partition(b";")[0], 16)
            except ValueError:
                size = -1
            self._has_ended = self.is_broken = size < 0
            self._is_in_trailer = size == 0
            # The line break after the data counts too.
            self._skipped = size + 2 if size > 0 else 0
        return self._has_ended
