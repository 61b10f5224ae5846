"""Canonical JSON and its digest."""

import hashlib
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")


def canonical(document: object) -> bytes:
    """Return JSON with sorted keys, no spaces, UTF-8: equal documents give equal bytes."""
    return _encoder.encode(document)


def decoded(raw: str) -> dict[str, Any]:
    """Parse a document that is stored as canonical JSON."""
    return msgspec.json.decode(raw, type=dict[str, Any])


def digest(document: object) -> str:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(document)).hexdigest()
