"""Tools of public APIs, which are in no repository (`PEGBOARD_DATA` says where they are)."""

import json
from collections.abc import Sequence

from catalog import protocols
from catalog.protocols.signature import Signature
from designer.exports.document import SCHEMA, ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.signatures import model_names
from designer.signatures.effective import effective
from tests.catalog.protocols.json import schemas
from tests.catalog.protocols.test_contract import Scene


def signatures() -> list[Signature]:
    reader = protocols.get("a2t")({})
    documents = [
        json.loads(path.read_text(encoding="utf-8")) for path in schemas.shared("vendors/*.nact.json")
    ]
    return [reader.read(item) for document in documents for item in document["items"]]


def recorded() -> list[Signature]:
    """Those that the tests of the protocols keep."""
    scenes = [Scene(protocol, "list") for protocol in protocols.PROTOCOLS]
    return [
        scene.protocol.read(item.document)
        for scene in scenes
        for page in scene.pages()
        for item in page.items
    ]


def release_of(found: Sequence[Signature]) -> ReleaseDocument:
    taken: set[str] = set()
    tools = []
    for number, signature in enumerate(found, start=1):
        name = model_names.propose(signature.name, taken, vendor=f"vendor-{number}")
        taken.add(name)
        tools.append(
            ReleasedTool(
                id=number,
                tool_id=name,
                vendor="public",
                endpoint="https://tools.example/v1",
                protocol="a2t",
                version=ReleasedVersion(ordinal=1, label="1", digest="0" * 64),
                signature=effective(signature, name=name),
                tuning={},
            )
        )
    agent = ReleasedAgent(slug="public", name="Public", description="")
    return ReleaseDocument(schema=SCHEMA, agent=agent, number=1, tools=tuple(tools))
