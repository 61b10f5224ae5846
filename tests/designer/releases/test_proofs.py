"""The key that proves what was published: what is reported while it cannot be read."""

import base64
import os

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Value
from django.db.models.functions import Concat

from catalog.credentials import rotation
from core.errors import DomainError
from designer.models import PublishingKey
from designer.releases import proofs


@pytest.mark.django_db(transaction=True)
def test_a_time_out_is_not_reported_as_a_missing_key():
    proofs.key()
    here = os.environ["DATABASE_URL"]
    with psycopg.connect(here, dbname=connection.settings_dict["NAME"]) as other:
        other.execute("LOCK TABLE designer_publishingkey IN ACCESS EXCLUSIVE MODE")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '50ms'")
            with pytest.raises(OperationalError):
                proofs.key()
            transaction.set_rollback(True)
        other.rollback()


@pytest.mark.django_db
def test_a_key_that_cannot_be_decrypted_locks_publishing():
    proofs.key()
    PublishingKey.objects.update(sealed=Concat("sealed", Value("AAAA")))
    with pytest.raises(DomainError) as refused:
        proofs.key()
    assert (refused.value.code, refused.value.status) == ("publishing_locked", 409)
    assert "--forget" not in refused.value.message, "no key is missing"


@pytest.mark.django_db
def test_a_lost_key_is_reported_with_the_command_that_gives_it_up(settings):
    proofs.key()
    key_name = settings.KEYS[0].partition(":")[0]
    settings.KEYS = ("k9:" + base64.b64encode(b"9" * 32).decode(),)
    with pytest.raises(DomainError) as refused:
        proofs.key()
    assert (refused.value.code, refused.value.status) == ("publishing_locked", 409)
    assert f"rotate_keys --forget {key_name}" in refused.value.message
    rotation.forget(key_name)
    assert proofs.key()


@pytest.mark.django_db
def test_a_role_that_may_not_make_the_key_locks_publishing():
    PublishingKey.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE ROLE pegboard_reader; GRANT SELECT ON designer_publishingkey TO pegboard_reader"
        )
        cursor.execute("SET LOCAL ROLE pegboard_reader")
    with pytest.raises(DomainError) as refused:
        proofs.key()
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    assert refused.value.code == "publishing_locked"
