"""The shape of a release document. Pure: what is in here needs no vendor and no database to be read."""

import hashlib
from collections.abc import Mapping

import msgspec

from catalog.protocols.base import canonical
from designer.signatures.effective import Effective
from designer.signatures.words import Words

SCHEMA = "pegboard.release/1"


class ReleasedAgent(msgspec.Struct, frozen=True, kw_only=True):
    slug: str
    name: str
    description: str


class ReleasedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the vendor's own document, as the catalog computed it."""

    ordinal: int
    label: str
    digest: str


class ReleasedTool(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the catalog's, `tool_id` the vendor's; `tuning` keeps the words by where they came from."""

    id: int
    tool_id: str
    vendor: str
    endpoint: str
    protocol: str
    version: ReleasedVersion
    signature: Effective
    tuning: Mapping[str, Words]


class ReleasedReference(msgspec.Struct, frozen=True, kw_only=True):
    """`line` counts from 1 in `text`. `name` is the tool's, or that of a transfer; `member` is the name of an
    input, an output or an item."""

    line: int
    kind: str
    name: str = ""
    member: str = ""


class ReleasedProcedure(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is what a model reads: markdown with the names of this release."""

    slug: str
    title: str
    text: str
    references: tuple[ReleasedReference, ...] = ()


class ReleaseDocument(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    agent: ReleasedAgent
    number: int
    tools: tuple[ReleasedTool, ...]
    # Releases from before there were procedures have none.
    procedures: tuple[ReleasedProcedure, ...] = ()


_decoder = msgspec.json.Decoder(ReleaseDocument)


def encode(release: ReleaseDocument) -> bytes:
    return canonical(release)


def decode(document: str | bytes) -> ReleaseDocument:
    return _decoder.decode(document)


def digest(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()
