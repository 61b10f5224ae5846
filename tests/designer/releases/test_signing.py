"""Releases are signed, and anybody who has the public keys can verify them."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from catalog.credentials import rotation
from core import encryption
from core.errors import DomainError
from designer.models import ReleaseSignature, SigningKey
from designer.releases import publishing, signing
from people.models import AuditEntry
from tests.factories import make_agent, make_pin
from tests.module_data import module_data

AGENT = "/api/v1/agents/desk/"
SCRIPT = Path(__file__).parents[3] / "docs" / "examples" / "verify_release.py"


@module_data
def release(alice):
    agent = make_agent(slug="desk", name="Desk")
    make_pin(agent)
    return publishing.publish(agent, actor=alice, channel="live")


@pytest.fixture
def verified(tmp_path, runtime_api, release):
    """Run the script of the manual over a runtime's downloads, with the files that the test replaces."""

    def verified(**replaced: bytes) -> tuple[int, str]:
        fetched = {
            "bundle": runtime_api.get(f"{AGENT}releases/live/bundle/").content,
            "signature": runtime_api.get(f"{AGENT}releases/live/signature/").content,
            "keys": Client().get("/.well-known/pegboard-keys.json").content,
        }
        for name, body in (fetched | replaced).items():
            (tmp_path / name).write_bytes(body)
        files = [str(tmp_path / name) for name in ("bundle", "signature", "keys")]
        ran = subprocess.run([sys.executable, SCRIPT, *files], capture_output=True, text=True)
        return ran.returncode, (ran.stdout + ran.stderr).strip()

    return verified


def test_the_script_of_the_manual_verifies_a_release(verified, runtime_api):
    assert verified() == (0, "The release is as it was published.")
    bundle = runtime_api.get(f"{AGENT}releases/live/bundle/").content
    assert verified(bundle=bundle.replace(b"weather", b"gossip")) == (
        1,
        "The bundle is not the release that was signed.",
    )


def test_a_signature_by_another_key_or_over_another_digest_does_not_verify(verified, runtime_api):
    signed = runtime_api.get(f"{AGENT}releases/live/signature/").json()
    forged = json.dumps(signed | {"signature": signed["signature"][::-1]}).encode()
    assert verified(signature=forged)[0] == 1
    assert verified(signature=json.dumps(signed | {"key": "0" * 16}).encode())[0] == 1


def test_the_script_has_at_most_forty_lines_and_the_manual_names_it():
    assert len(SCRIPT.read_text().splitlines()) <= 40
    assert "examples/verify_release.py" in (SCRIPT.parents[1] / "releases.md").read_text()


def test_what_an_older_key_signed_stays_valid_after_a_rotation(verified, release, capsys):
    (old,) = SigningKey.objects.all()
    call_command("rotate_signing_key")
    new = SigningKey.objects.get(retired_at=None)
    assert new.name in capsys.readouterr().out
    assert verified()[0] == 0
    assert ReleaseSignature.objects.get().key == old
    keys = Client().get("/.well-known/pegboard-keys.json").json()["keys"]
    assert [(key["kid"], key["retired_at"] is None) for key in keys] == [(old.name, False), (new.name, True)]
    assert AuditEntry.objects.filter(kind="signingkey", action="retire").exists()


def test_a_revoked_key_verifies_nothing_and_releases_are_signed_again(verified, runtime_api):
    before = runtime_api.get(f"{AGENT}releases/live/signature/").content
    call_command("rotate_signing_key", "--revoke")
    assert verified(signature=before) == (1, "The key is not one of this Pegboard, or it was revoked.")
    assert verified()[0] == 0
    assert ReleaseSignature.objects.count() == 2


def test_a_release_from_before_signatures_is_signed_when_it_is_asked_for(runtime_api, release):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM designer_releasesignature")
        cursor.execute("SET LOCAL session_replication_role = origin")
    first = runtime_api.get(f"{AGENT}releases/1/signature/").json()
    assert first == runtime_api.get(f"{AGENT}releases/1/signature/").json()
    assert first["digest"] == f"sha256:{release.digest}"


def test_a_damaged_release_is_not_signed(release):
    release.document = release.document.replace("Desk", "Dusk")
    ReleaseSignature.objects.filter(pk=0).delete()
    call_command("rotate_signing_key", "--revoke")
    with pytest.raises(signing.DomainError) as refused:
        signing.signature_of(release)
    assert refused.value.code == "release_damaged"


@pytest.mark.parametrize("change", ["UPDATE {} SET signature = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
def test_a_signature_is_never_rewritten(release, change):
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change.format("designer_releasesignature"))


def test_the_private_key_is_encrypted_and_moves_with_the_keys_of_the_installation(release, settings):
    key = SigningKey.objects.get()
    opened = encryption.decrypt(key.sealed, row=key.pk, field=signing.FIELD, name="it").reveal()
    assert opened not in key.sealed
    settings.KEYS = ["k9:" + "A" * 43 + "=", *settings.KEYS]
    rotation.rotate()
    key.refresh_from_db()
    assert key.sealed.startswith("v1:k9:")
    assert signing.sign(release)


def test_a_lost_signing_key_is_reported_with_the_command_that_gives_it_up(alice, settings):
    agent = make_agent(slug="desk")
    make_pin(agent)
    publishing.publish(agent, actor=alice)
    key_name = settings.KEYS[0].partition(":")[0]
    settings.KEYS = ("k9:" + base64.b64encode(b"9" * 32).decode(),)
    with pytest.raises(DomainError) as refused:
        signing.sign(agent.releases.get())
    assert (refused.value.code, refused.value.status) == ("signing_locked", 409)
    assert f"rotate_keys --forget {key_name}" in refused.value.message
    rotation.forget(key_name)
    assert signing.sign(agent.releases.get())
