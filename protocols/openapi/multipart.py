"""Bodies of the kind multipart/form-data (RFC 7578), out of arguments. Pure.

An argument for a file is a text. A data URL (`data:image/png;base64,…`, RFC 2397) is decoded; any other text
is the content of the file.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

_TYPE = r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+"
_DATA_URL = re.compile(
    rf"data:({_TYPE})?(?:;[A-Za-z0-9!#$&^_.+-]+=[^;,]*)*(;base64)?,(.*)", re.DOTALL | re.IGNORECASE
)
_MEDIA = re.compile(rf"{_TYPE}(?:; ?[A-Za-z0-9-]+=[A-Za-z0-9._-]+)?")
_NAMES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


class UnreadableFileError(Exception):
    """A data URL that cannot be read; carries the `name` of the member."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _FormPart(NamedTuple):
    name: str
    media: str
    content: bytes
    is_file: bool


def encode(
    members: Mapping[str, Any], files: Collection[str], encodings: Mapping[str, Any]
) -> tuple[str, bytes]:
    """Return the boundary and the body. A list becomes several parts of one name. Raises
    UnreadableFileError.
    """
    parts = []
    for name, value in members.items():
        encoding = encodings.get(name)
        # The media type that the document declares for a part; "" if it declares none or several.
        declared = encoding.get("contentType") if isinstance(encoding, dict) else None
        media = declared if isinstance(declared, str) and _MEDIA.fullmatch(declared) else ""
        entries = value if isinstance(value, list) else [value]
        parts += [_build_part(name, row, media, is_file=name in files) for row in entries if row is not None]
    # Equal parts have an equal boundary, and no part contains it, because no part contains its own digest.
    digest = hashlib.sha256(b"\0".join(part.content for part in parts))
    boundary = f"pegboard-{digest.hexdigest()[:40]}"
    lines = []
    for part in parts:
        name = part.name.translate(_NAMES)
        file = f'; filename="{name}"' if part.is_file else ""
        media = f"Content-Type: {part.media}\r\n" if part.media else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n{media}\r\n'
        lines.append(head.encode() + part.content + b"\r\n")
    return boundary, b"".join(lines) + f"--{boundary}--\r\n".encode()


def _build_part(name: str, value: Any, media: str, *, is_file: bool) -> _FormPart:
    if not isinstance(value, str):
        usual = "application/json" if isinstance(value, dict | list) else ""
        text = json.dumps(value, separators=(",", ":"))
        return _FormPart(name, media or usual, text.encode(), is_file=is_file)
    content = value.encode(errors="replace")
    if not is_file:
        return _FormPart(name, media, content, is_file=False)
    usual = "application/octet-stream"
    if value[:5].lower() == "data:":
        if not (match := _DATA_URL.fullmatch(value)):
            raise UnreadableFileError(name)
        try:
            content = unquote_to_bytes(match[3])
            content = base64.b64decode(content, validate=True) if match[2] else content
        except (binascii.Error, ValueError) as exc:
            raise UnreadableFileError(name) from exc
        usual = match[1] or usual
    return _FormPart(name, media or usual, content, is_file=True)
