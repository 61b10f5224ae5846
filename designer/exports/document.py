"""The shape of a release document. Pure: what is in here needs no vendor and no database to be read."""

import hashlib
from collections.abc import Mapping

import msgspec

from catalog.protocols.base import canonical
from designer.signatures.effective import Effective, Words

SCHEMA = "pegboard.release/1"


class SealedAgent(msgspec.Struct, frozen=True, kw_only=True):
    slug: str
    name: str
    description: str


class SealedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the vendor's own document, as the catalog computed it."""

    ordinal: int
    label: str
    digest: str


class SealedTool(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the catalog's, `tool_id` the vendor's; `tuning` keeps the words by where they came from."""

    id: int
    tool_id: str
    vendor: str
    endpoint: str
    protocol: str
    version: SealedVersion
    signature: Effective
    tuning: Mapping[str, Words]


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    agent: SealedAgent
    number: int
    tools: tuple[SealedTool, ...]


_decoder = msgspec.json.Decoder(Sealed)


def encode(release: Sealed) -> bytes:
    return canonical(release)


def decode(document: str | bytes) -> Sealed:
    return _decoder.decode(document)


def digest(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()
