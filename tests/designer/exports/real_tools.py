"""Tools that other programs wrote: recorded vendors, and this product's REST interface by drf-spectacular."""

import json
from collections.abc import Sequence
from contextlib import suppress

import protocols
from designer.exports.document import SCHEMA, ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.signatures import model_names
from designer.signatures.effective import effective
from pegboard.web import api_reference
from protocols.list_pages import UnreadableItemError
from protocols.openapi import signature as openapi_signature
from protocols.signature import Signature
from tests.protocols.openapi.documents import cuts
from tests.protocols.test_contract import Scene


def signatures() -> list[Signature]:
    return [*recorded_tools(), *rest_operations()]


def recorded_tools() -> list[Signature]:
    """The tools in the recorded replies that the tests of the protocols use."""
    scenes = [Scene(protocol, "list") for protocol in protocols.PROTOCOLS]
    return [
        scene.protocol.read(item.document)
        for scene in scenes
        for page in scene.pages()
        for item in page.items
    ]


def rest_operations() -> list[Signature]:
    """Some hundred operations of every shape; those that no protocol could carry as a tool are left out."""
    operations = []
    for operation in cuts(json.loads(api_reference.document())).values():
        with suppress(UnreadableItemError):
            operations.append(openapi_signature.read_signature(operation))
    return operations


def release_of(signatures: Sequence[Signature]) -> ReleaseDocument:
    names: set[str] = set()
    tools = []
    for number, signature in enumerate(signatures, start=1):
        name = model_names.propose(signature.name, names, vendor=f"vendor-{number}")
        names.add(name)
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
