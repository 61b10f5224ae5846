"""`manage.py pin`, `publish`, `promote`, `export` and `check`: the client's commands, beside the database."""

import io
import json
import zipfile

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError

from catalog.models import Tool
from designer.models import Channel, Pin, Release
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from pegboard import client
from people import teams
from people.models import AuditEntry, Role
from tests import forked_python
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user


@pytest.fixture
def bob(db):
    return make_user(Role.DESIGNER, username="bob")


@pytest.fixture
def desk(db):
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def run(bob, capsys):
    def run(name, *arguments, by="bob"):
        """Return the status, the output and the errors."""
        status = 0
        try:
            call_command(name, *arguments, "--as", by)
        except SystemExit as end:
            status = end.code
        printed = capsys.readouterr()
        return status, printed.out.strip(), printed.err.strip()

    return run


def test_an_agent_is_pinned_published_promoted_exported_and_checked(run, desk, bob, tmp_path):
    tool = make_tool(make_signature("look_up"))

    assert run("pin", "desk", "look_up", "--alias", "find") == (0, "Pinned find at version 1.", "")
    assert run("pin", "desk", str(tool.pk), "--version", "1")[0] == 0
    status, printed, _ = run("publish", "desk", "--note", "First", "--json")
    assert (status, json.loads(printed)["number"]) == (0, 1)
    assert run("promote", "desk", "live", "1") == (0, "“live” points to release 1.", "")
    lock, tools = tmp_path / "pegboard.lock.json", tmp_path / "tools.json"
    assert run("export", "desk", "lock", "-o", str(lock))[0] == 0
    status, printed, _ = run("export", "desk", "mcp", "--json", "--output", str(tools))
    assert (status, json.loads(printed)["bytes"]) == (0, len(tools.read_bytes()))
    assert run("check", str(lock)) == (0, f"{lock} of release 1 is current.", "")

    assert Pin.objects.get().tool == tool
    assert Channel.objects.get().release == Release.objects.get()
    audit_entries = AuditEntry.objects.filter(action__in=["pin", "publish", "promote"])
    assert {entry.actor for entry in audit_entries} == {bob}
    # The response body of the address, byte for byte.
    reply = bytes(publishing.export(Release.objects.get(), "mcp")[0])
    assert tools.read_bytes() == reply


def test_a_lock_file_behind_a_breaking_change_ends_with_one(run, desk, bob, tmp_path):
    pin = make_pin(desk, name="one")
    publishing.publish(desk, actor=bob, channel="live")
    lock = tmp_path / "pegboard.lock.json"
    run("export", "desk", "lock", "-o", str(lock))
    pins.set_alias(pin, actor=bob, alias="other")
    publishing.publish(desk, actor=bob, channel="live")

    status, printed, _ = run("check", str(lock))
    assert status == client.REFUSED
    assert "breaking: “one” is called “other” in release 2." in printed
    status, printed, _ = run("check", str(lock), "--json")
    assert (status, json.loads(printed)["status"]) == (1, "breaking")

    pins.set_alias(pin, actor=bob, alias="one")
    pins.pin_tool(desk, actor=bob, tool=make_tool(name="third"))
    publishing.publish(desk, actor=bob, channel="live")
    assert run("check", str(lock))[0] == 0
    assert run("check", str(lock), "--strict")[0] == 1


def test_what_is_refused_ends_with_one_and_its_sentences(run, desk, bob):
    assert run("publish", "desk")[::2] == (1, "“Desk” has no tools. Pin one, then publish.")
    make_pin(desk, make_tool(make_signature("one")))
    editing.create_procedure(desk, actor=bob, title="Go", body="Call nothing_there() now.")
    status, printed, errors = run("publish", "desk", "--json")
    assert (status, json.loads(printed)["code"]) == (1, "checks_failed")
    assert "unknown_reference: “Go”, line 1" in errors
    accepted = ("--accept", "unknown_reference", "--reason", "It comes later.", "--channel", "live")
    assert run("publish", "desk", *accepted)[0] == 0
    assert run("publish", "desk", "--allow-unchanged")[0] == 0
    assert run("promote", "desk", "live", "1", "--expected", "7")[0] == 1


def test_rights_are_those_of_the_user_who_is_named(run, desk, bob):
    make_user(Role.VIEWER, username="eve")
    tool = make_tool(name="sky")
    status, _, errors = run("pin", "desk", str(tool.pk), by="eve")
    assert (status, errors) == (2, "You need the designer role. An administrator can give it to you.")
    assert run("pin", "desk", str(tool.pk), by="nil")[::2] == (2, "There is no active user nil.")
    desk.team = teams.create_team(actor=make_user(Role.ADMIN), name="Closed")
    desk.save()
    assert run("pin", "desk", str(tool.pk))[0] == 2
    assert not Pin.objects.exists()
    assert Tool.objects.count() == 1


def test_an_export_is_the_document_itself(bob, desk, capfdbinary):
    editing.create_procedure(desk, actor=bob, title="Greet", body="Say good morning.")
    publishing.publish(desk, actor=bob, channel="live")
    call_command("export", "desk", "skill", "--as", "bob")
    with zipfile.ZipFile(io.BytesIO(capfdbinary.readouterr().out)) as archive:
        assert archive.namelist() == ["greet/SKILL.md"]


def test_an_unreadable_lock_file_ends_with_two(run, tmp_path):
    assert run("check", str(tmp_path / "none.json"))[0] == 2
    with pytest.raises(CommandError, match="Name one lock file"):
        run("check", "a.json", "b.json")


def test_djangos_own_check_is_as_it_was(db):
    call_command("check", "designer", "--tag", "models")
    with pytest.raises(CommandError, match="say with --as who asks") as refused:
        call_command("check", "pegboard.lock.json")
    assert not isinstance(refused.value, SystemCheckError)
    assert refused.value.returncode == 2


@pytest.mark.django_db(transaction=True)
def test_a_process_ends_with_the_status(process_environment):
    make_user(Role.DESIGNER, username="bob")
    make_agent(slug="desk", name="Desk")

    def manage(*arguments):
        return forked_python.run("manage.py", *arguments, env=process_environment)

    done = manage("publish", "desk", "--as", "bob")
    assert (done.returncode, done.stderr.strip()) == (1, "“Desk” has no tools. Pin one, then publish.")
    assert manage("publish", "desk").returncode == 2
