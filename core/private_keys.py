"""Private keys that people enter, as PEM."""

import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END \1-----")


def read_private_key(text: str) -> PrivateKeyTypes | None:
    """Return the key, or None if the text is no private key or needs a passphrase.

    Line ends may be missing, because a password field drops them.
    """
    pem = _PEM.search(text)
    if pem is None:
        return None
    letters = "".join(pem[2].split())
    lines = [letters[start : start + 64] for start in range(0, len(letters), 64)]
    document = "\n".join([f"-----BEGIN {pem[1]}-----", *lines, f"-----END {pem[1]}-----", ""])
    try:
        return load_pem_private_key(document.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
