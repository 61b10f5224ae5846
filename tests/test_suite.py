import socket
import subprocess
import sys

import pytest
from django.db import connection

from people import teams
from people.models import AuditEntry, AuditHead, Role, Team, User
from tests import emptying
from tests.factories import make_user


@pytest.mark.django_db
def test_the_database_is_a_real_postgresql():
    with connection.cursor() as cursor:
        cursor.execute("select lower('ÄÖ'), current_setting('server_version_num')::int >= 150000")
        assert cursor.fetchone() == ("äö", True)


def test_the_network_ends_at_this_machine():
    with socket.socket() as outside, pytest.raises(UserWarning, match=r"192\.0\.2\.1"):
        outside.connect(("192.0.2.1", 80))


def test_a_child_process_works_on_the_database_of_its_test(process_environment):
    name = connection.settings_dict["NAME"]
    command = "from django.conf import settings; print(settings.DATABASES['default']['NAME'])"
    done = subprocess.run(
        [sys.executable, "-c", command], env=process_environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == name
    assert name.startswith("test_")


@pytest.mark.django_db(transaction=True)
def test_the_next_test_finds_what_migrations_made_and_nothing_else():
    rows_by_model = [list(model.objects.values()) for model in (Team, AuditHead)]
    assert [len(rows) for rows in rows_by_model] == [1, 1]
    teams.create_team(actor=make_user(Role.ADMIN), name="Travel")
    Team.objects.filter(is_everyone=True).update(name="Others")

    emptying.empty()

    assert [list(model.objects.values()) for model in (Team, AuditHead)] == rows_by_model
    assert not User.objects.exists()
    assert not AuditEntry.objects.exists()
