"""The addresses under which vendors give images of tools. Pure."""

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

from catalog.pictures.drawing import ImageError
from protocols.signature import Signature

MAX_ADDRESS = 64 * 1024  # characters; an image may be in its address
_SCHEMES = ("https://", "http://", "data:image/")
_DATA = re.compile(r"data:image/[a-z0-9.+-]{1,40}(?:;[a-z0-9-]+=[\w.+-]+)*;base64,", re.IGNORECASE)


def image_address(signature: Signature) -> str:
    """Return the address of the tool's image, "" without a readable one."""
    address = signature.img.strip()
    is_readable = address[:11].lower().startswith(_SCHEMES) and len(address) <= MAX_ADDRESS
    return address if is_readable else ""


def is_data(address: str) -> bool:
    """Return whether the address contains the image itself (RFC 2397)."""
    return address[:5].lower() == "data:"


def decode_data(address: str) -> bytes:
    """Return the bytes of an image that its address contains. Raises ImageError."""
    head = _DATA.match(address)
    if head is None:
        raise ImageError("DATA_ADDRESS", "The image's data: address is not in base64.")
    try:
        return base64.b64decode(unquote_to_bytes(address[head.end() :]), validate=True)
    except binascii.Error as exc:
        raise ImageError("DATA_ADDRESS", "The image's data: address is not in base64.") from exc
