"""The certificate authorities of the installation (PEGBOARD_CA_FILE), in addition to the public ones."""

import functools
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from core.outbound.limits import MIB

MAX_FILE_BYTES = MIB


@functools.lru_cache(maxsize=4)
def read_certificates(path: str) -> Sequence[x509.Certificate]:
    """Return the certificates in a PEM file, none for an empty path.

    A process reads the file once. Raises ValueError, whose message names the variable and the file.
    """
    if not path:
        return ()
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise ValueError(f"PEGBOARD_CA_FILE: {path} cannot be read: {exc.strerror}") from exc
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"PEGBOARD_CA_FILE: {path} is larger than 1 MB")
    if b"PRIVATE KEY" in content:
        raise ValueError(f"PEGBOARD_CA_FILE: {path} contains a private key. Leave only certificates in it")
    try:
        return parse_certificates(content)
    except ValueError as exc:
        raise ValueError(
            f"PEGBOARD_CA_FILE: {path} contains no certificates in PEM form, or one that cannot be read"
        ) from exc


def parse_certificates(pem: str | bytes) -> Sequence[x509.Certificate]:
    """Return the certificates in a PEM text with other text in between. Raises ValueError for none."""
    return tuple(x509.load_pem_x509_certificates(pem.encode() if isinstance(pem, str) else pem))


@functools.lru_cache(maxsize=4)
def read_authorities(path: str) -> str:
    """Return the same certificates as text, for the ssl module."""
    return "".join(
        certificate.public_bytes(Encoding.PEM).decode("ascii") for certificate in read_certificates(path)
    )
