"""The command line over REST, against a running server."""

import http.server
import io
import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import yaml

from catalog.models import Tool
from designer.models import Channel, Pin, Release
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from pegboard import client
from people import api_keys
from people.models import Role
from tests import one_door
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def designer(transactional_db):
    return make_user(Role.DESIGNER)


@pytest.fixture
def desk(designer):
    return make_agent(slug="desk", name="Desk")


@pytest.fixture
def environment(live_server, designer, monkeypatch):
    _, plain = api_keys.issue(designer, actor=designer, name="Pipeline", scopes=["design"])
    monkeypatch.setenv("PEGBOARD_URL", live_server.url)
    monkeypatch.setenv("PEGBOARD_API_KEY", plain)
    return plain


@pytest.fixture
def run(environment, capsys):
    def run(*arguments):
        """Return the status, the output and the errors."""
        status = client.main(list(arguments))
        printed = capsys.readouterr()
        assert environment not in printed.out + printed.err
        return status, printed.out.strip(), printed.err.strip()

    return run


def test_a_pipeline_pins_publishes_promotes_exports_and_checks(run, desk, tmp_path):
    tool = make_tool(make_signature("look_up"))

    assert run("pin", "desk", "look_up", "--alias", "find") == (0, "Pinned find at version 1.", "")
    status, printed, _ = run("publish", "desk", "--note", "First", "--json")
    assert (status, json.loads(printed)["number"]) == (0, 1)
    assert run("promote", "desk", "live", "1") == (0, "“live” points to release 1.", "")
    lock, tools = tmp_path / "pegboard.lock.json", tmp_path / "tools.json"
    assert run("export", "desk", "lock", "-o", str(lock))[0] == 0
    status, printed, _ = run("export", "desk", "mcp", "--json", "--output", str(tools))
    assert (status, json.loads(printed)["bytes"]) == (0, len(tools.read_bytes()))
    assert [tool["name"] for tool in json.loads(tools.read_text())["tools"]] == ["find"]
    assert run("check", str(lock)) == (0, f"{lock} of release 1 is current.", "")
    assert Pin.objects.get().tool == tool
    assert Channel.objects.get().release == Release.objects.get()


def test_lock_file_behind_a_breaking_change_fails_a_build(run, desk, designer, tmp_path):
    first, second = make_pin(desk, name="one"), make_pin(desk, name="two")
    publishing.publish(desk, actor=designer, channel="live")
    lock = tmp_path / "pegboard.lock.json"
    run("export", "desk", "lock", "-o", str(lock))
    pins.set_alias(first, actor=designer, alias="other")
    publishing.publish(desk, actor=designer)
    run("promote", "desk", "live", "2")

    status, printed, _ = run("check", str(lock))
    assert status == 1
    assert "is breaking." in printed
    assert "breaking: “one” is called “other” in release 2." in printed
    status, printed, _ = run("check", str(lock), "--json")
    assert (status, json.loads(printed)["status"]) == (1, "breaking")

    pins.set_alias(first, actor=designer, alias="one")
    pins.pin_tool(desk, actor=designer, tool=make_tool(name="third"))
    publishing.publish(desk, actor=designer, channel="live")
    assert run("check", str(lock))[0] == 0
    assert run("check", str(lock), "--strict")[0] == 1
    assert second.name in lock.read_text()


def test_pinned_tool_moves_and_two_of_one_name_are_told_apart(run, desk):
    here, second_tool = make_tool(name="book"), make_tool(name="book")

    status, _, errors = run("pin", "desk", "book")
    assert status == 2
    assert f"{here.pk} of {here.endpoint.vendor.slug}" in errors
    assert run("pin", "desk", "book", "--vendor", second_tool.endpoint.vendor.slug)[0] == 0
    assert run("pin", "desk", str(second_tool.pk), "--alias", "reserve") == (
        0,
        "reserve is pinned at version 1.",
        "",
    )
    assert run("pin", "desk", "bok")[0] == 2
    assert Pin.objects.get().alias == "reserve"
    assert Tool.objects.count() == 2


def test_what_pegboard_refuses_is_status_one_with_its_sentences(run, desk, designer):
    assert run("publish", "desk")[::2] == (1, "“Desk” has no tools. Pin one, then publish.")
    make_pin(desk, make_tool(make_signature("one", inputs=(make_parameter("city"),))))
    editing.create_procedure(desk, actor=designer, title="Go", body="Call nothing_there() with the city.")

    status, _, errors = run("publish", "desk")
    assert status == 1
    assert "unknown_reference: “Go”, line 1" in errors
    status, printed, _ = run("publish", "desk", "--json")
    assert (status, json.loads(printed)["code"]) == (1, "checks_failed")
    accepted = ("--accept", "unknown_reference", "--reason", "It comes later.", "--channel", "live")
    assert run("publish", "desk", *accepted)[0] == 0
    assert run("publish", "desk", *accepted)[0] == 1
    assert run("publish", "desk", "--allow-unchanged")[0] == 0
    assert run("promote", "desk", "live", "1", "--expected", "7")[0] == 1


def test_export_without_a_file_is_the_document_itself(environment, desk, designer, capfdbinary):
    editing.create_procedure(desk, actor=designer, title="Greet", body="Say good morning.")
    publishing.publish(desk, actor=designer, channel="live")

    assert client.main(["export", "desk", "skill"]) == 0
    with zipfile.ZipFile(io.BytesIO(capfdbinary.readouterr().out)) as archive:
        assert archive.namelist() == ["greet/SKILL.md"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "pegboard --help"),
        (("publish",), "The following arguments are required: agent."),
        (("promote", "desk", "live", "1", "--expected", "x"), "invalid int value"),
        (("publish", "nobody"), "There is nothing at this address."),
        (("publish", "../../users"), "There is nothing at this address."),
        (("export", "desk", "mcp", "--json"), "--output"),
        (("export", "desk", "yaml"), "no release of this agent yet"),
        (("export", "desk", "bundle", "-o", "/no/such/folder"), "no release of this agent yet"),
        (("publish", "desk", "--url", "http://127.0.0.1:9"), "could not be reached"),
        (("publish", "desk", "--url", "ftp://127.0.0.1"), "PEGBOARD_URL"),
        (("publish", "desk", "--url", "http://[::1"), "not an address"),
        (("check", "/no/such/file"), "cannot be read: No such file or directory."),
        (("check", str(ROOT / "README.md")), "is not JSON."),
    ],
)
def test_what_cannot_be_asked_is_status_two_with_a_sentence(run, desk, arguments, sentence):
    status, printed, errors = run(*arguments)
    assert (status, printed if "--json" not in arguments else "") == (2, "")
    assert sentence in errors


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"agent": "desk"}', "[" * 100_000, '"' + "x" * 1_000_000 + '"']
)
def test_file_that_is_no_lock_file_is_told(run, desk, tmp_path, text):
    file = tmp_path / "lock"
    file.write_text(text)

    status, printed, errors = run("check", str(file))

    assert (status, printed) == (2, "")
    assert errors


@pytest.mark.parametrize("key", ["", "pgb_wrong", "a b", "ключ", "a\nb"])
def test_key_that_is_not_taken_is_told(run, desk, monkeypatch, key):
    monkeypatch.setenv("PEGBOARD_API_KEY", key)
    status, _, errors = run("publish", "desk")
    assert status == 2
    assert errors


@pytest.fixture
def stranger():
    """A server that is no Pegboard: it answers with `replies`, and notes the keys that it receives."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            status, headers, body = self.server.reply
            self.server.keys.append(self.headers["Authorization"])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name that the server looks for

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.keys = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "reply",
    [
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b"{}"),
        (404, {}, b"gone"),
        (500, {}, b'{"message": null, "fields": 3}'),
        (409, {}, b'{"message": "\\u001b[2J", "checks": 7}'),
    ],
)
def test_an_address_that_is_no_pegboards_makes_a_sentence(run, stranger, reply):
    stranger.reply = reply
    status, printed, errors = run("publish", "desk", "--url", f"http://127.0.0.1:{stranger.server_port}")
    assert (status, printed) in ((2, ""), (1, ""))
    assert errors
    assert "\x1b" not in errors


def test_key_follows_no_redirect(run, stranger, live_server):
    stranger.reply = (302, {"Location": f"{live_server.url}/elsewhere"}, b"")

    status, _, errors = run("publish", "desk", "--url", f"http://127.0.0.1:{stranger.server_port}")

    assert (status, f"{live_server.url}/elsewhere" in errors) == (2, True)
    assert len(stranger.keys) == 1


def test_one_copied_file_is_enough(environment, live_server, desk, tmp_path):
    """The file needs no package: Python's own library is enough."""
    copied = tmp_path / "pegboard.py"
    copied.write_bytes(Path(client.__file__).read_bytes())
    variables = {"PEGBOARD_URL": live_server.url, "PEGBOARD_API_KEY": environment, "LC_ALL": "C"}

    with one_door.other_side():
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(copied), "publish", "desk"],
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stdout) == (1, "")
    assert "has no tools. Pin one, then publish." in done.stderr


def test_the_example_runs_commands_that_there_are():
    workflow = yaml.safe_load((ROOT / "docs/examples/pegboard-check.yml").read_text())
    lines = [
        line.strip()
        for step in workflow["jobs"]["lock-file"]["steps"]
        for line in step.get("run", "").splitlines()
        if "tools/pegboard.py" in line
    ]
    assert len(lines) == 2
    for line in lines:
        client.make_parser().parse_args(line.split("tools/pegboard.py ")[1].split())
