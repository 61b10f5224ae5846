"""Reports of doctor, the start and the backup on a pooler in front of PostgreSQL."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from pegboard import pooler, startup_checks
from pegboard.management.commands import doctor  # noqa: F401 - registers all checks
from pegboard.ops.backups import BackupError, back_up
from pegboard.ops.doctor import servers
from pegboard.ops.doctor.frame import CHECKS, DoctorLimits, Fact, Trouble
from tests.pooler import behind_pooler, needs_pgbouncer

pytestmark = pytest.mark.django_db(transaction=True)


def findings():
    return list(servers.pooler_mode(DoctorLimits()))


def test_without_a_pooler_doctor_states_that_there_is_none():
    assert pooler.find_mode() == "none"
    assert [type(finding) for finding in findings()] == [Fact]


@needs_pgbouncer
@pytest.mark.parametrize(
    ("mode", "size"), [("transaction", 1), ("transaction", 4), ("session", 2), ("session", 9)]
)
def test_doctor_states_the_mode_of_a_pooler_that_is_safe(mode, size):
    out = StringIO()
    with behind_pooler(mode=mode, size=size):
        if mode == "session" and size == 2:
            # The connection of this test has one session, and the watched client the other.
            assert pooler.find_mode() == mode
            return
        (finding,) = findings()
        assert isinstance(finding, Fact)
        assert f"in {mode} mode" in finding.sentence
        skipped = [
            f"--skip={name}" for name in CHECKS if name not in ("database", "pooler", "statement_timeout")
        ]
        call_command("doctor", "--json", *skipped, stdout=out)
    (answer,) = (check for check in json.loads(out.getvalue()) if check["check"] == "pooler")
    assert (answer["state"], len(answer["facts"])) == ("well", 1)


@needs_pgbouncer
def test_a_pooler_that_allows_no_transactions_is_refused():
    assert not any("statement mode" in problem for problem in startup_checks.problems())
    with behind_pooler(mode="statement", size=3):
        (finding,) = findings()
        assert isinstance(finding, Trouble)
        assert any("statement mode" in problem for problem in startup_checks.problems())


@needs_pgbouncer
def test_a_backup_through_a_pooler_is_refused(tmp_path):
    with behind_pooler(), pytest.raises(BackupError, match="pooler"):
        back_up(tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


@needs_pgbouncer
def test_a_migration_through_a_pooler_is_refused():
    with behind_pooler(), pytest.raises(CommandError, match="pooler"):
        call_command("migrate", verbosity=0)
