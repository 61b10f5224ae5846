"""Releases of products without texts for every member are read and exported as before.

The files were written by the product of that time: the document, and each of its exports.
"""

import json
from pathlib import Path

import pytest

from designer.exports import document as release_document
from designer.models import Release
from designer.signatures.words import ParameterWords, Words
from tests.factories import make_agent

KEPT = Path(__file__).parents[2] / "fixtures/releases/before_words_by_member"
EXPORTS = sorted(path.name for path in KEPT.iterdir() if path.name != "document.json")


@pytest.fixture
def document():
    return (KEPT / "document.json").read_bytes()


@pytest.fixture
def release(document, alice):
    return Release.objects.create(
        agent=make_agent(slug="desk"),
        number=4,
        document=document.decode(),
        digest=release_document.digest(document),
        tool_count=2,
        created_by=alice,
    )


def test_an_old_document_is_read_and_written_to_the_byte(document):
    assert b"is_named" not in document
    assert b"hidden_outputs" not in document

    decoded = release_document.decode(document)

    assert release_document.encode(decoded) == document
    assert decoded.tools[0].tuning["agent"] == Words(
        parameters={"unit": ParameterWords(preset="C"), "days": ParameterWords(hidden=True)}
    )


@pytest.mark.parametrize("name", EXPORTS)
def test_an_old_release_is_exported_to_the_byte(api, release, name):
    reply = api.get(f"/api/v1/agents/desk/releases/4/tools/?format={name}&partial=1")

    assert reply.status_code == 200
    assert reply.content == (KEPT / name).read_bytes()


def test_an_old_release_is_shown(api, release, client, alice):
    client.force_login(alice)

    page = client.get("/agents/desk/releases/4/").content.decode()

    assert "Ask for the postal code first." in page
    release_body = api.get("/api/v1/agents/desk/releases/4/").json()
    assert json.dumps(release_body).count(release.digest) >= 1
