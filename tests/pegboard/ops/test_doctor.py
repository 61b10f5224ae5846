"""`manage.py doctor`: each fault is found by the check that is there for it, and by no other."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command, load_command_class
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Index
from django.utils import timezone

from catalog import search
from catalog.credentials import operations as credential_operations
from catalog.models import Grant, Run, Tool, ToolChange
from catalog.models.runs import RunStatus
from catalog.notifications import subscriptions, webhooks
from catalog.notifications.models import Event, Notice, Webhook
from core import encryption, proxy_signs, redis_client
from core.encryption import Secret
from core.migration_operations import AddIndexConcurrently
from pegboard.beat import ALIVE
from pegboard.local.embedded import Valkey, redis_url
from pegboard.ops.doctor import servers, work
from pegboard.ops.doctor.frame import CHECKS, DoctorLimits
from pegboard.process_commands import start_command
from people import audit
from people.models import Role
from tests.factories import make_endpoint, make_tool, make_user, make_vendor

pytestmark = pytest.mark.django_db
AN_HOUR_AGO = timedelta(hours=1)


@pytest.fixture(autouse=True)
def local(settings, tmp_path, monkeypatch):
    """One person on one machine, on which a scheduler is at work."""
    redis_client.client().set(ALIVE, 1, ex=60)
    redis_client.client().delete(proxy_signs.KEY)
    monkeypatch.setattr(proxy_signs, "_noted", {})
    settings.LOCAL = True
    monkeypatch.setenv("PEGBOARD_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()


@pytest.fixture
def deployed(settings, tmp_path):
    """Set the settings of an installation that serves others: none is wrong."""
    settings.LOCAL, settings.HTTPS = False, True
    settings.PUBLIC_URL = "https://pegboard.example"
    settings.OUTBOUND_ALLOW = settings.CALLBACK_ALLOW = ""
    settings.ALLOWED_HOSTS = ["pegboard.example"]
    settings.STATIC_ROOT = str(tmp_path)
    (tmp_path / "staticfiles.json").write_text("{}")


def failed_checks(*options: str) -> list[str]:
    """The checks that speak. No worker and no disk of a test run is as it would be in earnest."""
    if connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as a commit would
    out = StringIO()
    try:
        call_command(
            "doctor",
            "--json",
            "--skip",
            "worker",
            "--skip",
            "audit_role",
            "--free",
            "0",
            *options,
            stdout=out,
        )
        status = 0
    except SystemExit as end:
        status = end.code
    answers = json.loads(out.getvalue())
    speaking = [answer for answer in answers if answer["troubles"]]
    assert status == (1 if speaking else 0)
    for answer in speaking:
        for trouble in answer["troubles"]:
            assert all(len(sentence) > 10 for sentence in trouble.values()), trouble
    return [answer["check"] for answer in speaking]


def test_a_healthy_installation_is_left_in_peace():
    endpoint = make_endpoint(last_success_at=timezone.now(), next_due_at=timezone.now() + AN_HOUR_AGO)
    make_tool(endpoint=endpoint)
    assert failed_checks() == []


def test_a_healthy_deployment_is_left_in_peace(deployed):
    assert failed_checks() == []


SETTINGS = {
    "secret_key": {"SECRET_KEY": "unsafe-no-secret-key-set"},
    "keys": {"KEYS": []},
    "debug": {"DEBUG": True},
    "networks": {"OUTBOUND_ALLOW": "0.0.0.0/0"},
    "hosts": {"ALLOWED_HOSTS": ["127.0.0.1"], "PUBLIC_URL": "https://127.0.0.1"},
    "https": {"HTTPS": False},
    "static_files": {"STATIC_ROOT": "/nonexistent"},
    "mail": {"MAIL_IS_SET_UP": True, "PUBLIC_URL": "", "LOCAL": True},
    "address": {"PUBLIC_URL": ""},
    "broker": {"REDIS_URL": "redis+socket:///nowhere/valkey.sock?virtual_host=0"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_wrong_is_found(name, deployed, settings):
    for setting, value in SETTINGS[name].items():
        setattr(settings, setting, value)
    assert failed_checks() == [name]


@pytest.mark.parametrize(
    "address",
    [
        "https://pegboard.example/tools",
        "https://another.example",
        "http://pegboard.example",
        "pegboard.example",
    ],
)
def test_an_address_that_does_not_fit_is_found(address, deployed, settings):
    settings.PUBLIC_URL = address
    assert failed_checks() == ["address"]


@pytest.mark.parametrize(
    ("sign", "proxies"),
    [("uncounted_proxy", 0), ("public_proxy", 0), ("missing_hops", 2), ("extra_hops", 1), ("no_scheme", 1)],
)
def test_a_proxy_that_the_settings_do_not_know_is_found(sign, proxies, deployed, settings):
    settings.NUM_PROXIES = proxies
    proxy_signs.note([proxy_signs.Sign(sign)])
    assert failed_checks() == ["proxy"]


def test_hosts_that_take_any_name_are_found(deployed, settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert failed_checks() == ["hosts"]


@pytest.mark.parametrize("name", ["networks", "hosts", "https"])
def test_what_is_fine_for_one_person_is_left_in_peace(name, settings):
    for setting, value in SETTINGS[name].items():
        setattr(settings, setting, value)
    assert failed_checks() == []


def keys_in(path: Path, settings, mode: int = 0o600) -> None:
    path.write_text("\n".join(settings.KEYS))
    path.chmod(mode)
    settings.KEYS, settings.KEYS_FILE = [], str(path)


def test_a_key_file_apart_from_the_data_is_fine(settings, tmp_path):
    keys_in(tmp_path / "keys", settings)
    assert failed_checks() == []


def test_a_key_file_among_the_data_is_found(settings, tmp_path):
    keys_in(tmp_path / "data" / "keys", settings)
    assert failed_checks() == ["key_file"]


def test_a_key_file_inside_a_database_is_found(settings, tmp_path):
    (tmp_path / "PG_VERSION").write_text("18")
    keys_in(tmp_path / "keys", settings)
    assert failed_checks() == ["key_file"]


def test_a_key_file_for_the_group_is_found(settings, tmp_path):
    keys_in(tmp_path / "keys", settings, 0o640)
    assert failed_checks() == ["key_file"]


def test_a_key_file_that_all_users_may_read_is_found(settings, tmp_path):
    keys_in(tmp_path / "keys", settings, 0o644)
    assert failed_checks() == ["keys"]


def test_a_key_that_is_not_there_is_found(settings):
    credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="c", kind="bearer", url="http://127.0.0.1:9/", secret="s-123456789"
    )
    settings.KEYS = ["other:" + settings.KEYS[0].partition(":")[2]]
    assert failed_checks() == ["secret_keys"]


def test_armed_failpoints_are_found(monkeypatch):
    monkeypatch.setenv("DEBUG_CRASH", "1")
    assert failed_checks() == ["failpoints"]


def test_a_full_disk_is_found():
    assert "disk" in failed_checks("--free", "100")


def data_directory():
    with connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        return Path(cursor.fetchone()[0])


def database_disk_troubles(monkeypatch, *other_disks):
    """The troubles of a disk that has less room than all of it, beside disks that `disk` checks."""
    monkeypatch.setattr(servers, "disk_paths", lambda: iter(other_disks))
    return list(servers.database_disk(DoctorLimits(free_percent=100)))


@pytest.mark.parametrize("host", ["", "/run/postgresql", "127.0.0.1", "localhost", "::1"])
def test_a_full_disk_of_a_database_on_this_machine_is_found(host, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", host)
    (trouble,) = database_disk_troubles(monkeypatch)
    assert str(data_directory()) in trouble.summary
    assert list(servers.database_disk(DoctorLimits(free_percent=0))) == []


def test_a_disk_is_reported_once(monkeypatch):
    assert database_disk_troubles(monkeypatch, data_directory()) == []


def test_the_disk_of_another_machine_is_not_looked_at(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "HOST", "db1.example.com")
    assert database_disk_troubles(monkeypatch) == []


def test_a_role_that_may_not_read_where_the_data_lies_is_left_in_peace(monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE without_rights; SET LOCAL ROLE without_rights")
    assert database_disk_troubles(monkeypatch) == []


def test_a_database_that_is_away_is_found():
    """The command runs in a new process, because the connection of this one belongs to the test."""
    environment = {
        **os.environ,
        "DATABASE_URL": "postgresql://x@:5432/x?host=/nowhere",
        "PEGBOARD_LOCAL": "1",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--skip", "worker", "--free", "0"],
        env=environment | {"DJANGO_SETTINGS_MODULE": "pegboard.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "The database does not answer" in done.stdout
    assert "1 thing needs you" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def own_broker(settings, tmp_path):
    """One that no other test looks at while it is set up wrongly."""
    with tempfile.TemporaryDirectory(prefix="pegboard-") as run:
        valkey = Valkey(tmp_path, Path(run), tmp_path / "valkey.log", durable=False)
        process = valkey.start()
        deadline = time.monotonic() + 60
        while not valkey.answers():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        settings.REDIS_URL = redis_url(Path(run))
        redis_client.client().set(ALIVE, 1)
        yield redis_client.client()
        redis_client.client().close()
        process.terminate()
        process.wait(60)


def test_a_broker_that_evicts_is_found(own_broker):
    own_broker.config_set("maxmemory-policy", "allkeys-lru")
    assert failed_checks() == ["broker_evicts"]


def test_a_broker_that_is_nearly_full_is_found(own_broker):
    used = own_broker.info("memory")["used_memory"]
    own_broker.config_set("maxmemory", int(used * 1.05))
    assert failed_checks() == ["broker_memory"]


def test_an_old_database_is_found(monkeypatch):
    """No such server is at hand; the figure that the driver reports is the edge."""
    monkeypatch.setattr("pegboard.ops.doctor.servers.MIN_POSTGRES", 990_000)
    assert failed_checks() == ["postgres_version"]


def test_a_pending_migration_is_found():
    MigrationRecorder.Migration.objects.filter(app="designer").delete()
    assert failed_checks() == ["migrations"]


def test_a_database_that_is_too_old_for_an_upgrade_is_found():
    MigrationRecorder.Migration.objects.filter(app="catalog", name="0080_picture_tools").delete()
    assert failed_checks() == ["migrations"]
    (trouble,) = CHECKS["migrations"].find(DoctorLimits())
    assert "catalog 0080_picture_tools" in trouble.act
    assert list(CHECKS["indexes"].find(DoctorLimits())) == []


INVALID = {
    # As an upgrade left it that was interrupted, before its migration was recorded.
    "call_at_worker": (True, "manage.py migrate"),
    "version_by_label": (False, "REINDEX INDEX CONCURRENTLY version_by_label;"),
    "version_by_label_ccnew": (False, "DROP INDEX CONCURRENTLY version_by_label_ccnew;"),
}


@pytest.mark.parametrize("index", INVALID)
def test_an_index_that_was_not_built_to_its_end_is_found(index, monkeypatch):
    is_pending, mend = INVALID[index]
    if is_pending:
        migration = Migration("0999_index_calls", "catalog")
        migration.operations = [AddIndexConcurrently("call", Index(fields=["status"], name=index))]
        monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *targets: [(migration, False)])
    with connection.cursor() as cursor:
        if index.endswith("_ccnew"):
            cursor.execute(f"CREATE INDEX {index} ON catalog_toolversion (label)")
        cursor.execute("SET LOCAL allow_system_table_mods = on")
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [index])
    assert set(failed_checks()) == ({"indexes", "migrations"} if is_pending else {"indexes"})
    (trouble,) = CHECKS["indexes"].find(DoctorLimits())
    assert index in trouble.summary
    assert mend in trouble.act


def test_a_missing_extension_is_found():
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION pg_trgm CASCADE")
    assert failed_checks() == ["extensions"]


@pytest.mark.parametrize("seconds", [-40, 40])
def test_a_clock_that_is_wrong_is_found(seconds):
    with time_machine.travel(timezone.now() + timedelta(seconds=seconds)):
        assert failed_checks() == ["database_clock"]


def test_a_clock_that_is_nearly_right_is_left_in_peace():
    with time_machine.travel(timezone.now() + timedelta(seconds=20)):
        assert failed_checks() == []


def test_statements_without_a_limit_are_found():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
    assert failed_checks() == ["statement_timeout"]


def test_a_role_that_may_rewrite_the_trail_is_found(deployed):
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", "--skip", "worker", "--free", "0", stdout=out)
    speaking = [answer["check"] for answer in json.loads(out.getvalue()) if answer["troubles"]]
    assert speaking == ["audit_role"]


def test_no_worker_is_found():
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--free", "0", stdout=out)
    assert "No worker answered" in out.getvalue()
    assert start_command("worker") in out.getvalue()
    assert "1 thing needs you" in out.getvalue()


def test_no_scheduler_is_found():
    redis_client.client().delete(ALIVE)
    assert failed_checks() == ["beat"]


def test_due_endpoints_that_no_worker_starts_are_found():
    make_endpoint(next_due_at=timezone.now() - AN_HOUR_AGO)
    assert failed_checks() == ["scheduler"]


def test_a_reading_without_a_worker_is_found():
    Run.objects.create(
        endpoint=make_endpoint(), status=RunStatus.RUNNING, lease_until=timezone.now() - AN_HOUR_AGO
    )
    assert failed_checks() == ["orphans"]


def test_a_reading_that_never_begins_is_found(monkeypatch):
    run = Run.objects.create(endpoint=make_endpoint())
    Run.objects.filter(pk=run.pk).update(queued_at=timezone.now() - AN_HOUR_AGO)
    all_of_them = [{"name": "enumeration"}, {"name": "calls"}, {"name": "slow"}]
    monkeypatch.setattr("celery.app.control.Inspect.active_queues", lambda _: {"celery@here": all_of_them})
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--free", "0", stdout=out)
    assert "1 enumeration run has waited" in out.getvalue()
    assert "1 thing needs you" in out.getvalue()


def test_a_slow_run_waits_for_others_like_it_and_raises_no_alarm():
    hour_ago = timezone.now() - AN_HOUR_AGO
    run = Run.objects.create(endpoint=make_endpoint(), queued_at=hour_ago, in_parts=True)
    assert list(work.queue(DoctorLimits())) == []
    Run.objects.filter(pk=run.pk).update(in_parts=False)
    assert len(list(work.queue(DoctorLimits()))) == 1


@pytest.mark.parametrize(
    ("queues_by_node", "missing"),
    [
        ({"celery@a": ["enumeration"], "calls@a": ["calls"], "slow@a": ["slow"]}, []),
        ({"celery@a": ["enumeration", "calls", "slow"]}, []),
        ({"celery@a": ["enumeration", "slow"]}, ["calls"]),
        ({"celery@a": ["enumeration"], "calls@a": ["calls"]}, ["slow"]),
        ({"calls@a": ["calls"]}, ["enumeration", "slow"]),
        ({"celery@a": ["another"]}, ["enumeration", "slow", "calls"]),
    ],
)
def test_a_queue_that_no_worker_takes_from_is_found(monkeypatch, queues_by_node, missing):
    active_queues = {node: [{"name": name} for name in names] for node, names in queues_by_node.items()}
    monkeypatch.setattr("celery.app.control.Inspect.active_queues", lambda _: active_queues)
    troubles = [trouble.summary for trouble in work.worker(DoctorLimits())]
    assert [trouble.split("“")[1].split("”")[0] for trouble in troubles] == missing
    assert all(f"“{name}”" in message for name, message in zip(missing, troubles, strict=True))


def test_each_queue_is_named_with_the_process_that_takes_from_it(monkeypatch):
    monkeypatch.setenv("PEGBOARD_START", "systemctl start pegboard-{process}")
    queues = {"celery@a": [{"name": "another"}]}
    monkeypatch.setattr("celery.app.control.Inspect.active_queues", lambda _: queues)
    advice = " ".join(trouble.act for trouble in work.worker(DoctorLimits()))
    assert re.findall(r"systemctl start pegboard-(\w+)", advice) == ["worker", "slow", "caller"]


def test_tools_that_search_does_not_know_are_found():
    endpoint = make_endpoint(next_due_at=timezone.now() + AN_HOUR_AGO)
    search.index_pending()
    make_tool(endpoint=endpoint)
    ToolChange.objects.update(changed_at=timezone.now() - AN_HOUR_AGO)
    assert failed_checks() == ["index"]
    search.index_pending()
    assert "index" not in failed_checks()


def test_tools_that_are_not_inspected_are_found():
    ended = timezone.now() - AN_HOUR_AGO
    Run.objects.create(
        endpoint=make_endpoint(), status=RunStatus.SUCCEEDED, added=1, attempt=1, finished_at=ended
    )
    assert failed_checks() == ["inspection"]


def test_an_endpoint_that_fails_for_long_is_found():
    make_endpoint(
        vendor=make_vendor(name="Acme"),
        failures=9,
        error_code="CONNECT",
        last_success_at=timezone.now() - timedelta(days=3),
    )
    make_endpoint(failures=1, last_success_at=timezone.now() - AN_HOUR_AGO)
    assert failed_checks() == ["failing"]


def test_a_credential_that_needs_a_sign_in_is_found():
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="c", kind="bearer", url="http://127.0.0.1:9/", secret="s-123456789"
    )
    Grant.objects.create(credential=credential, ended_at=timezone.now())
    assert failed_checks() == ["sign_in"]


def test_notices_that_do_not_go_out_are_found():
    Notice.objects.create(event=Event.HELD, subject="1", due_at=timezone.now() - AN_HOUR_AGO)
    assert failed_checks() == ["notices"]


def test_a_webhook_that_was_paused_is_found():
    row, _ = webhooks.create(
        actor=make_user(Role.ADMIN), name="Chat", url="http://127.0.0.1:9/hook", events=[Event.HELD]
    )
    Webhook.objects.filter(pk=row.pk).update(is_paused=True, failures=9, paused_why="It failed.")
    assert failed_checks() == ["notices"]


def test_mail_that_never_comes_is_found():
    subscriptions.choose(make_user(), [Event.HELD])
    assert failed_checks() == ["notices"]


def test_a_broken_audit_trail_is_found():
    user = make_user()
    entry = audit.record(user, "edit", user, after={"name": "x"})
    assert failed_checks() == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE people_auditentry DISABLE TRIGGER USER")
        cursor.execute("UPDATE people_auditentry SET label = 'forged' WHERE id = %s", [entry.pk])
    assert failed_checks("--skip", "statement_timeout") == ["audit_chain"]


def test_data_that_contradicts_itself_is_found():
    tool = make_tool(endpoint=make_endpoint(next_due_at=timezone.now() + AN_HOUR_AGO))
    Tool.objects.filter(pk=tool.pk).update(status="withdrawn")
    assert failed_checks() == ["data"]


def test_all_troubles_are_told_in_plain_words(settings):
    settings.DEBUG = True
    out = StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("doctor", "--all", "--skip", "worker", "--free", "0", stdout=out)
    assert end.value.code == 1
    text = out.getvalue()
    assert "PEGBOARD_DEBUG is on." in text
    assert "→ Take PEGBOARD_DEBUG out of the environment" in text
    assert "well: the broker answers (broker)" in text
    assert "not looked at: workers answer, for each queue (worker)" in text


def test_at_least_twenty_faults_are_looked_for():
    assert load_command_class("pegboard", "doctor")
    assert len(CHECKS) >= 20
    assert encryption.columns()
    assert repr(Secret("x")) == "****"
