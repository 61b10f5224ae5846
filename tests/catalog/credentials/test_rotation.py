"""Changing the key of an installation: online, resumable, and refused where it would lose something."""

import base64
import random
import signal
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from catalog.credentials import operations as credential_operations
from catalog.credentials import rotation, sessions
from catalog.credentials.oauth import tokens
from catalog.credentials.sessions import FIELD
from catalog.models import Credential
from core import encryption
from core.encryption import KeyringError, Secret, UndecryptableError
from pegboard import checks, startup_checks
from pegboard.local import product
from people.models import AuditEntry, Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import begin, make_client, signed_in, wear_out
from tests.factories import make_user
from tests.faults.warm import Warm

ROOT = Path(__file__).resolve().parents[3]
OLD, NEW, THIRD = (
    f"{name}:{base64.b64encode(bytes(range(start, start + 32))).decode()}"
    for name, start in (("k1", 0), ("k2", 40), ("k3", 80))
)


def make_credential(secret: str = "s3cret", **fields) -> Credential:
    details = {"name": "Key", "kind": "bearer", "url": "https://api.acme.example/", "secret": secret}
    return credential_operations.create_credential(actor=make_user(Role.ADMIN), **details | fields)


def store(count: int) -> dict[object, str]:
    """Many credentials at once: what each of them opens to, by its id."""
    expected = {uuid4(): f"secret {number}" for number in range(count)}
    Credential.objects.bulk_create(
        Credential(
            id=pk,
            name=text,
            kind="bearer",
            origin="https://api.acme.example",
            sealed=encryption.encrypt(Secret(text), row=pk, field=FIELD),
        )
        for pk, text in expected.items()
    )
    return expected


def rotate(*arguments: str) -> str:
    output = StringIO()
    call_command("rotate_keys", *arguments, stdout=output)
    return output.getvalue()


def opened() -> dict[object, str]:
    return {row.pk: sessions.decrypt(row).reveal() for row in Credential.objects.all()}


@pytest.mark.django_db
def test_every_secret_moves_to_the_first_key_and_the_old_one_can_go(settings):
    credential = make_credential()
    before = credential.fingerprint
    settings.KEYS = [NEW, OLD]

    assert encryption.secrets_by_key() == {"k1": 2}  # the credential's, and what fingerprints are made with
    output = rotate()

    assert "2 secrets encrypted again under “k2”." in output
    assert "k1: 0 secrets. Once every process runs with “k2” in front, take this key out" in output
    assert encryption.secrets_by_key() == {"k2": 2}
    settings.KEYS = [NEW]
    assert opened() == {credential.pk: "s3cret"}
    assert encryption.fingerprint(Secret("s3cret")) == before
    assert "0 secrets encrypted again" in rotate()


@pytest.mark.django_db
def test_secret_of_another_row_or_another_field_does_not_open():
    row, other = uuid4(), uuid4()
    ciphertext = encryption.encrypt(Secret("s3cret"), row=row, field=FIELD)

    assert encryption.decrypt(ciphertext, row=row, field=FIELD, name="x").reveal() == "s3cret"
    for where in ({"row": other, "field": FIELD}, {"row": row, "field": "catalog.credential.refresh"}):
        with pytest.raises(UndecryptableError):
            encryption.decrypt(ciphertext, name="x", **where)


@pytest.mark.django_db
def test_rotation_does_not_heal_a_swap(settings):
    """A secret that cannot be decrypted is named and left unchanged; the others are encrypted again."""
    own_credential, other = make_credential("mine"), make_credential("other")
    swapped = [own_credential.sealed, other.sealed]
    for row, sealed in zip((other, own_credential), swapped, strict=True):
        Credential.objects.filter(pk=row.pk).update(sealed=sealed)
    make_credential("third")
    settings.KEYS = [NEW, OLD]

    with pytest.raises(CommandError, match="2 secrets cannot be decrypted"):
        rotate()

    assert encryption.secrets_by_key() == {"k1": 2, "k2": 2}
    assert set(Credential.objects.values_list("sealed", flat=True)) >= set(swapped)


@pytest.mark.django_db(transaction=True)
def test_row_that_another_transaction_locks_is_encrypted_once_it_is_free(settings):
    locked, free = make_credential("held"), make_credential("free")
    settings.KEYS = [NEW, OLD]
    counts = []

    def release(progress: rotation.RotationProgress) -> None:
        counts.append(progress.encrypted)
        letting_go.set()

    letting_go, holding = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Credential.objects.select_for_update().get(pk=locked.pk)
            holding.set()
            letting_go.wait(20)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait(20)
    try:
        progress = rotation.rotate(release)
    finally:
        letting_go.set()
        holder.join()

    assert progress.encrypted == 3
    assert counts[0] == 1  # the row without a lock
    settings.KEYS = [NEW]
    assert opened() == {locked.pk: "held", free.pk: "free"}


@pytest.mark.django_db
def test_lost_key_is_named_and_its_secrets_can_be_given_up(settings):
    credential = make_credential()
    lost_fingerprint = credential.fingerprint
    settings.KEYS = [NEW]

    with pytest.raises(CommandError, match="Not everything"):
        rotate()
    assert [
        problem for problem in startup_checks.problems() if "“k1”" in problem and "--forget k1" in problem
    ]
    assert "2 secrets forgotten." in rotate("--forget", "k1")

    assert list(startup_checks.problems()) == []
    credential.refresh_from_db()
    with pytest.raises(UndecryptableError, match="Enter it again"):
        sessions.decrypt(credential)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.label, entry.before) == ("forget", "Key", {"key": "k1"})
    replaced = credential_operations.replace_secret(credential, actor=make_user(Role.ADMIN), secret="s3cret")
    assert sessions.decrypt(replaced).reveal() == "s3cret"
    assert replaced.fingerprint != lost_fingerprint


@pytest.mark.django_db
def test_key_that_is_there_is_not_forgotten(settings):
    credential = make_credential()
    settings.KEYS = [NEW, OLD]

    with pytest.raises(CommandError, match="Nothing is forgotten"):
        rotate("--forget", "k1")

    assert opened() == {credential.pk: "s3cret"}


@pytest.mark.django_db
def test_keys_come_from_a_file_and_a_new_one_counts_at_once(settings, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# the oldest last\n\n{OLD}\n")
    path.chmod(0o600)
    settings.KEYS, settings.KEYS_FILE = [], str(path)
    credential = make_credential()

    path.write_text(f"{NEW}\n{OLD}\n")
    rotate()

    assert encryption.secrets_by_key() == {"k2": 2}
    path.write_text(NEW)
    assert opened() == {credential.pk: "s3cret"}


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o666])
def test_file_of_keys_that_everybody_may_open_is_refused(settings, tmp_path, mode):
    path = tmp_path / "keys"
    path.write_text(OLD)
    path.chmod(mode)
    settings.KEYS, settings.KEYS_FILE = [], str(path)

    with pytest.raises(KeyringError, match="chmod o="):
        encryption.keyring()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "There is no key"),
        (["k1"], "Key 1 of PEGBOARD_KEYS is not valid"),
        ([OLD, "k2:AAAA"], "Key 2 of PEGBOARD_KEYS is not valid"),
        ([OLD, OLD.replace("k1:", "k/1:")], "Key 2 of PEGBOARD_KEYS is not valid"),
        ([OLD.removeprefix("k1:")], "Key 1 of PEGBOARD_KEYS is not valid"),
        ([OLD, NEW.replace("k2:", "k1:")], "two keys “k1”"),
    ],
)
def test_ring_that_is_none_says_which_entry_and_shows_no_key(settings, keys, message):
    settings.KEYS = keys

    with pytest.raises(KeyringError, match=message) as refused:
        encryption.keyring()

    assert OLD.removeprefix("k1:")[:8] not in str(refused.value)


def test_keys_in_two_places_are_refused(settings, tmp_path):
    settings.KEYS_FILE = str(tmp_path / "missing")

    with pytest.raises(KeyringError, match="not both"):
        encryption.keyring()
    settings.KEYS = []
    with pytest.raises(KeyringError, match="cannot be read"):
        encryption.keyring()


@pytest.mark.django_db
def test_column_for_secrets_takes_no_plain_text():
    credential = make_credential()
    for plain in ("plain text", Secret("plain text"), b"plain"):
        credential.sealed = plain
        with pytest.raises(TypeError) as refused:
            credential.save()
        assert "plain" not in str(refused.value).removesuffix("accepts encrypted secrets only")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "command",
    [
        ("gunicorn", "-c", "python:pegboard.gunicorn", "-b", "127.0.0.1:0"),
        ("celery", "-A", "pegboard", "worker", "--pool", "solo"),
        ("celery", "-A", "pegboard", "beat"),
    ],
    ids=["web", "worker", "beat"],
)
def test_process_does_not_start_without_a_key_that_secrets_need(command, process_environment):
    make_credential()

    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=process_environment | {"PEGBOARD_KEYS": NEW},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode
    output = ended.stdout + ended.stderr
    assert (
        "“k1” is not in PEGBOARD_KEYS, and 2 stored secrets cannot be decrypted without it. Put it back."
        in output
    )
    assert "Traceback" not in output


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["unsafe-no-secret-key-set", "django-insecure-" + "x" * 60, "short"])
def test_production_needs_a_secret_key_of_its_own(settings, key):
    settings.SECRET_KEY = key

    assert [
        problem
        for problem in startup_checks.problems()
        if problem.startswith("PEGBOARD_SECRET_KEY is missing")
    ]


@pytest.mark.django_db
def test_check_for_deployment_names_a_missing_key(settings):
    make_credential()
    settings.KEYS = [NEW]

    assert [error.id for error in checks.keys(None)] == ["pegboard.E003"]
    call_command("check")  # looks at code only


class Reader(threading.Thread):
    """Opens random rows all the time, as a worker does; `fine` holds the expected secret of each."""

    def __init__(self, fine: dict[object, set[str]]) -> None:
        super().__init__()
        self.fine = fine
        self.stopping = threading.Event()
        self.reads, self.wrong = 0, []

    def run(self) -> None:
        ids = list(self.fine)
        while not self.stopping.is_set():
            row = Credential.objects.get(pk=random.choice(ids))
            try:
                outcome = sessions.decrypt(row).reveal()
            except UndecryptableError as error:
                outcome = error.code
            self.reads += 1
            self.wrong += [] if outcome in self.fine[row.pk] else [outcome]
            time.sleep(0.001)
        connection.close()


@pytest.fixture
def warm(process_environment, tmp_path):
    warm = Warm(process_environment | {"PEGBOARD_KEYS": f"{NEW} {OLD}"}, tmp_path / "warm.log")
    yield warm
    warm.stop()


@pytest.mark.django_db(transaction=True)
def test_rotation_killed_twelve_times_under_readers_and_writers(settings, warm):
    expected = store(600)
    replaced = random.sample(list(expected), 12)
    actor = make_user(Role.ADMIN)
    settings.KEYS = [NEW, OLD]
    reader = Reader({pk: {text} for pk, text in expected.items()})
    reader.start()
    under_new = Credential.objects.filter(key_id="k2")
    ended = []
    try:
        for pk in replaced:
            before, deadline = under_new.count(), time.monotonic() + 20
            child = warm.start("rotate", 10)
            while under_new.count() == before and time.monotonic() < deadline:
                time.sleep(0.005)
            reader.fine[pk].add(f"new {expected[pk]}")
            expected[pk] = f"new {expected[pk]}"
            credential_operations.replace_secret(
                Credential.objects.get(pk=pk), actor=actor, secret=expected[pk]
            )
            child.kill()
            ended.append(child.wait().status)
        assert under_new.count() < 600
        warm.do("rotate", 10)
    finally:
        reader.stopping.set()
        reader.join()

    assert ended == [-signal.SIGKILL] * 12
    assert reader.reads > 100
    assert reader.wrong == []
    settings.KEYS = [NEW]
    assert opened() == expected
    assert set(encryption.secrets_by_key()) == {"k2"}


@pytest.mark.django_db(transaction=True)
def test_tokens_of_oauth_move_too_and_go_on_working(settings):
    with AuthorizationServer() as server:
        credential = signed_in(server)
        begin(make_client(server, "oauth_code", name="Other"), make_user(Role.ADMIN))
        settings.KEYS = [NEW, OLD]

        # Two client secrets, two tokens, the verifier of a sign-in under way, the key of the fingerprints.
        assert "6 secrets encrypted again under “k2”." in rotate()

        settings.KEYS = [NEW]
        assert tokens.token_for(credential).secret.reveal() in server.access
        wear_out(credential)
        assert tokens.token_for(credential).secret.reveal() in server.access
        assert server.revoked == 0


def test_keys_of_an_older_run_are_taken_over(tmp_path, monkeypatch):
    for name in ("PEGBOARD_SECRET_KEY", "PEGBOARD_KEYS", "PEGBOARD_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "secrets"
    path.write_text(f"PEGBOARD_SECRET_KEY=signs sessions\nPEGBOARD_CREDENTIAL_KEYS={OLD}\n")

    taken_over = {"PEGBOARD_SECRET_KEY": "signs sessions", "PEGBOARD_KEYS": OLD}
    assert product.keys(tmp_path) == taken_over == product.read_variables(path)
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("PEGBOARD_KEYS_FILE", "/somewhere/else")
    assert product.keys(tmp_path) == {"PEGBOARD_SECRET_KEY": "signs sessions"}
