"""Canonical JSON and its digest."""

import hashlib
from typing import Any

import msgspec


def _plain_text(value: object) -> str:
    # An instance of a subclass of str, such as a sentence that pages translate, is stored as its plain text.
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON.")


_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_plain_text)


def canonical(document: object) -> bytes:
    """Return JSON with sorted keys, no spaces, UTF-8: equal documents give equal bytes."""
    return _encoder.encode(document)


def parse_document(raw: str) -> dict[str, Any]:
    """Parse a document that is stored as canonical JSON."""
    return msgspec.json.decode(raw, type=dict[str, Any])


def digest(document: object) -> str:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(document)).hexdigest()
