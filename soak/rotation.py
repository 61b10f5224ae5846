"""The key changes under readers, and that process is killed again and again: no secret is lost."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection

from catalog.credentials import sessions
from catalog.models import Credential
from core import encryption
from core.encryption import Secret, UndecryptableError
from soak.frame import Field, stopwatch
from tests.faults.warm import Warm

READERS = 3
BATCH = 50
NEW = "new:" + "QUJD" * 10 + "QUI="


def storm(field: Field) -> None:
    old = os.environ["PEGBOARD_KEYS"]
    expected = store(field.times(short=1_000, long=5_000))
    settings.KEYS = [NEW, *old.split()]
    warm = Warm(field.environment | {"PEGBOARD_KEYS": f"{NEW} {old}"}, field.directory / "warm.log")
    stopping: list[bool] = []
    try:
        with ThreadPoolExecutor(READERS) as pool, stopwatch() as elapsed:
            readers = [pool.submit(read_credentials, field, expected, stopping) for _ in range(READERS)]
            try:
                kill(field, warm)
                field.expect(warm.do("rotate", BATCH) > 0, "nothing was left for the last rotation")
            finally:
                stopping.append(True)
            field.figure("seconds of rotation", round(elapsed(), 1))
            field.figure("reads meanwhile", sum(reader.result() for reader in readers))
    finally:
        warm.stop()
    settings.KEYS = [NEW]
    field.expect(set(encryption.secrets_by_key()) == {"new"}, "a secret is still encrypted under the old key")
    opened_values = {row.pk: opened(row) for row in Credential.objects.all()}
    field.expect(opened_values == expected, "a secret cannot be decrypted with the new key alone")
    field.figure("secrets", len(opened_values))


def store(count: int) -> dict[UUID, str]:
    """Store so many credentials, and return the secret of each by its id."""
    expected = {uuid4(): f"secret {number}" for number in range(count)}
    Credential.objects.bulk_create(
        Credential(
            id=pk,
            name=text,
            kind="bearer",
            origin="https://api.acme.example",
            sealed=encryption.encrypt(Secret(text), row=pk, field=sessions.FIELD),
        )
        for pk, text in expected.items()
    )
    return expected


def kill(field: Field, warm: Warm) -> None:
    under_new = Credential.objects.filter(key_id="new")
    for number in range(1, field.times(short=4, long=12) + 1):
        child, before, patience = warm.start("rotate", BATCH), under_new.count(), time.monotonic() + 30
        while under_new.count() == before and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(field.random.uniform(0, 0.02))
        child.kill()
        child.wait()
        field.fault("rotation killed", f"number {number}, {under_new.count():,} secrets done")


def read_credentials(field: Field, expected: dict[UUID, str], stopping: list[bool]) -> int:
    """Decrypt one credential after the other until stopped, and return how many were decrypted."""
    reads, ids = 0, list(expected)
    try:
        while not stopping:
            row = Credential.objects.get(pk=ids[reads % len(ids)])
            field.expect(opened(row) == expected[row.pk], f"a reader got a wrong secret of {row.name}")
            reads += 1
    finally:
        connection.close()
    return reads


def opened(row: Credential) -> str:
    try:
        return sessions.decrypt(row).reveal()
    except UndecryptableError as error:
        return error.code
