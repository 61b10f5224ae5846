"""A backup is worth something once it has been restored, and the product works on it."""

import json
import os
import subprocess
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import psycopg
import pytest

from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from designer.agents import agents
from designer.pins import pins
from designer.releases import publishing
from pegboard.ops import backup_files, newer_facts
from pegboard.ops.backup_files import name_at
from pegboard.ops.doctor.trial_restore import RestoreComparison, compare
from people import api_keys
from people.models import Role
from tests import forked_python
from tests.factories import make_agent, make_tool, make_user
from tests.vendor import Vendor, serving, tools

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]
SECRET = "sk-canary-of-backups-0815"
LOOK = """
import django, json; django.setup()
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Tool
from catalog.models.runs import Trigger
from designer.models import Export, Release
run = enumeration_runs.perform(
    enumeration_runs.request_run(Endpoint.objects.get(), trigger=Trigger.COMMAND).pk
)
export = Export.objects.filter(release=Release.objects.get()).order_by("format").first()
print(json.dumps({"run": run.error_code or run.status, "tools": Tool.objects.count(), "added": run.added,
                  "export": export.as_bytes().decode()}))
"""


def manage(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess:
    return forked_python.run("manage.py", *command, env=environment)


@pytest.fixture
def elsewhere(process_environment):
    """An environment on an empty database of the same server, with the same keys."""
    name = f"restored_{uuid.uuid4().hex[:12]}"
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield {**process_environment, "DATABASE_URL": urlsplit(url)._replace(path=f"/{name}").geturl()}
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_backup_restores_into_a_product_that_works(process_environment, elsewhere, tmp_path):
    admin = make_user(Role.ADMIN)
    vendor = Vendor(tools(5))
    copy = tmp_path / "copy.pegboard"
    with serving(vendor):
        credential = credential_operations.create_credential(
            actor=admin, name="key", kind="bearer", url=vendor.url, secret=SECRET
        )
        seller = vendor_operations.create_vendor(actor=admin, name="Acme")
        endpoint = vendor_operations.create_endpoint(
            actor=admin, vendor=seller, protocol="a2t", url=vendor.url, credential=credential
        )
        enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
        agent = make_agent()
        pins.pin_tool(agent, actor=admin, tool=Tool.objects.order_by("pk").first())
        release = publishing.publish(agent, actor=admin)

        backup_process = manage(process_environment, "backup", str(copy))
        assert backup_process.returncode == 0, backup_process.stderr
        assert copy.stat().st_mode & 0o077 == 0
        assert SECRET.encode() not in copy.read_bytes()
        assert manage(process_environment, "backup", str(copy)).returncode == 1, "it overwrites nothing"
        refused = manage(process_environment, "restore", str(copy))
        assert "tables already" in refused.stderr

        done = manage(elsewhere, "restore", str(copy))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Restored: 5 tools, 1 release." in done.stdout
        assert "the audit trail is whole" in done.stdout
        vendor.listed = tools(6)
        vendor.headers.clear()
        looked = forked_python.run("-c", LOOK, env=elsewhere)
        assert looked.returncode == 0, looked.stderr
    facts = json.loads(looked.stdout.splitlines()[-1])
    assert (facts["run"], facts["tools"], facts["added"]) == ("succeeded", 6, 1)
    assert any(SECRET in str(headers) for headers in vendor.headers), "the credential was opened and used"
    exported = release.exports.order_by("format").first()
    assert facts["export"] == exported.as_bytes().decode()


def test_a_backup_with_other_keys_says_which_are_missing(process_environment, elsewhere, tmp_path):
    credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="key", kind="bearer", url="http://127.0.0.1:9/", secret=SECRET
    )
    copy = tmp_path / "copy.pegboard"
    assert manage(process_environment, "backup", str(copy)).returncode == 0
    other = "other:" + os.environ["PEGBOARD_KEYS"].partition(":")[2]
    done = manage({**elsewhere, "PEGBOARD_KEYS": other}, "restore", str(copy))
    assert done.returncode == 1
    assert "need the key “k1”" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_backup_is_refused_in_words(elsewhere, tmp_path):
    (tmp_path / "copy").write_text("nothing of the kind")
    done = manage(elsewhere, "restore", str(tmp_path / "copy"))
    assert done.returncode == 1
    assert f"{tmp_path / 'copy'} is no backup" in done.stderr
    assert "Traceback" not in done.stderr


def publish_change(agent, actor, text):
    agents.update_agent(agent, actor=actor, description=text)
    return publishing.publish(agent, actor=actor)


@pytest.fixture
def published(db):
    """An agent with one release."""
    admin, agent = make_user(Role.ADMIN), make_agent()
    pins.pin_tool(agent, actor=admin, tool=make_tool())
    publishing.publish(agent, actor=admin)
    return admin, agent


def next_number(environment):
    ask = "import django; django.setup(); from designer.models import Agent\n"
    ask += "from designer.releases import composition; print(composition.next_number(Agent.objects.get()))"
    done = forked_python.run("-c", ask, env=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


def test_an_older_backup_reports_what_is_newer_and_gives_no_number_twice(
    process_environment, elsewhere, published, tmp_path
):
    admin, agent = published
    copy = tmp_path / "copy.pegboard"
    assert manage(process_environment, "backup", str(copy)).returncode == 0
    publish_change(agent, admin, "Second.")
    publish_change(agent, admin, "Third.")
    api_keys.issue(admin, actor=admin, name="after-the-backup", scopes=["runtime"])
    replaced = {"REPLACED_DATABASE_URL": process_environment["DATABASE_URL"]}
    done = manage({**elsewhere, **replaced}, "restore", str(copy))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{agent.slug} 2, {agent.slug} 3" in done.stdout
    assert "after-the-backup" in done.stdout
    assert next_number(elsewhere) == 4


@pytest.mark.parametrize("mark", "/?#[")
def test_a_replaced_database_whose_address_cannot_be_read_is_refused_first(
    process_environment, tmp_path, mark
):
    replaced = {"REPLACED_DATABASE_URL": f"postgresql://ada:s3cr3t{mark}x@host/name"}
    (tmp_path / "copy").touch()
    done = manage({**process_environment, **replaced}, "restore", str(tmp_path / "copy"))
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: ")
    assert "REPLACED_DATABASE_URL" in done.stderr
    assert "s3cr3t" not in done.stderr


@pytest.mark.parametrize(("options", "expected"), [((), 1 + newer_facts.GAP + 1), (("--newest",), 2)])
def test_without_the_replaced_database_numbers_leave_a_gap_unless_nothing_is_newer(
    process_environment, elsewhere, published, tmp_path, options, expected
):
    copy = tmp_path / "copy.pegboard"
    assert manage(process_environment, "backup", str(copy)).returncode == 0
    assert manage(elsewhere, "restore", str(copy), *options).returncode == 0
    assert next_number(elsewhere) == expected


def test_a_failed_backup_leaves_no_file(process_environment, tmp_path):
    missing_url = (
        urlsplit(process_environment["DATABASE_URL"])._replace(path="/there_is_no_such_database").geturl()
    )
    done = manage({**process_environment, "DATABASE_URL": missing_url}, "backup", str(tmp_path / "copy"))
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_backups_keeps_the_newest(process_environment, tmp_path):
    old = [tmp_path / f"pegboard-2026-11-2{day}T03-00-00Z" for day in range(3)]
    interrupted, running = tmp_path / "pegboard-2026-11-19T03-00-00Z.new", tmp_path / "pegboard-x.new"
    others = [tmp_path / "notes", running]
    for path in (*old, interrupted, *others):
        path.touch()
    os.utime(interrupted, (0, 0))
    done = manage({**process_environment, "PEGBOARD_BACKUPS": str(tmp_path)}, "backup", "--keep", "2")
    assert done.returncode == 0, done.stderr
    (new,) = set(tmp_path.iterdir()) - {*old, *others}
    assert {path for path in tmp_path.iterdir() if path != new} == {old[2], *others}
    assert datetime.now(UTC) - backup_files.time_of(new) < timedelta(minutes=5)


@pytest.mark.parametrize("words", [[], ["--keep", "0"], ["/nonexistent/file", "--keep", "3"]])
def test_a_backup_without_a_place_is_refused(process_environment, words):
    assert manage(process_environment, "backup", *words).returncode > 0


def doctor_on_restore(environment, *words):
    """Return the report of `doctor --restore` on the backup alone."""
    skipped = [word for name in ("worker", "beat") for word in ("--skip", name)]
    done = manage(environment, "doctor", "--json", *skipped, "--restore", *words)
    (answer,) = [answer for answer in json.loads(done.stdout) if answer["check"] == "restore"]
    return done.returncode, answer


def databases():
    with psycopg.connect(os.environ["DATABASE_URL"]) as server:
        # Other workers of the suite create and drop databases of theirs meanwhile.
        rows = server.execute("SELECT datname FROM pg_database WHERE datname !~ '^test_'")
        return {name for (name,) in rows}


def test_doctor_restores_the_newest_backup_and_drops_it(process_environment, published, tmp_path):
    environment = {**process_environment, "PEGBOARD_BACKUPS": str(tmp_path)}
    assert doctor_on_restore(environment)[1]["state"] == "trouble", "there is no backup yet"
    assert manage(environment, "backup").returncode == 0
    admin, agent = published
    publish_change(agent, admin, "Second.")
    before = databases()
    _, answer = doctor_on_restore(environment)
    assert (answer["state"], answer["troubles"]) == ("well", [])
    assert "0 hours ago" in answer["facts"][0]
    assert "1 of now 2 releases" in answer["facts"][1]
    assert databases() <= before


def test_doctor_reports_a_backup_that_does_not_restore_or_is_old(process_environment, tmp_path):
    old = tmp_path / "pegboard-2020-01-01T03-00-00Z"
    old.write_text("nothing of the kind")
    before = databases()
    status, answer = doctor_on_restore(process_environment, str(old))
    assert (status, len(answer["troubles"])) == (1, 2)
    assert databases() <= before


def test_doctor_says_which_role_may_try_a_restore(process_environment, tmp_path):
    backup = tmp_path / name_at(datetime.now(UTC))
    backup.touch()
    role = f"plain_{uuid.uuid4().hex[:12]}"
    parts = urlsplit(process_environment["DATABASE_URL"])
    url = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        try:
            script = (
                "import django; django.setup(); from pathlib import Path\n"
                "from pegboard.ops.doctor.trial_restore import try_restore\n"
                f"(trouble,) = try_restore(Path({str(backup)!r})).troubles; print(trouble.act)"
            )
            done = forked_python.run("-c", script, env={**process_environment, "DATABASE_URL": url})
        finally:
            owner.execute(f"DROP ROLE {role}")
    assert "CREATEDB" in done.stdout, done.stderr


SAME = RestoreComparison({(1, 1): "a"}, {(1, 1): "a", (1, 2): "b"}, 5, 6, 7, "h", 9, "h")


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"here_releases": {(1, 1): "c"}}, 1),
        ({"here_releases": {}}, 1),
        ({"here_hash": ""}, 1),
        ({"here_hash": "other"}, 1),
        ({"position": 0, "hash": "genesis", "here_hash": ""}, 0),
    ],
)
def test_a_backup_is_an_earlier_state_of_its_database(changes, count):
    assert len(list(compare(replace(SAME, **changes)))) == count
