"""The texts by which a secret of ours could come back in what a vendor sends; pure."""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from urllib.parse import quote

_SHORTEST_SECRET = 8  # a shorter one may stand in a reply by chance
_URLSAFE = str.maketrans("+/", "-_")
_ESCAPE = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|x([2-7][0-9a-fA-F])|(/))")


def disguises(secrets: Sequence[str]) -> list[str]:
    """Each secret as it may come back: plain, in an address, in base64 of a longer text, in hex, reversed."""
    found: dict[str, None] = {}
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            raw = secret.encode()
            wholes = (secret, quote(secret, safe=""), raw.hex(), raw.hex().upper(), secret[::-1])
            found |= dict.fromkeys([*wholes, *_base64_cores(raw)])
    return list(found)


def unescaped(text: bytes) -> bytes:
    """With the characters that JSON and YAML let one write in a roundabout way."""
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: b"/" if found[3] else bytes([int(found[1] or found[2], 16)]), text)


def _base64_cores(raw: bytes) -> Iterator[str]:
    """What base64 makes of `raw` wherever it stands in a text, without what neighbours have a share in."""
    for before in range(3):
        after = -(before + len(raw)) % 3
        written = b64encode(bytes(before) + raw + bytes(after))
        core = written[(0, 2, 3)[before] : len(written) - (0, 2, 3)[after]].decode()
        yield core
        yield core.translate(_URLSAFE)
