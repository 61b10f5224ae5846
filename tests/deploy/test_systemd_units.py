"""The units of deploy/systemd/: valid, hardened, and with the commands of docker-compose.yml.

systemd reads a unit, then the drop-in of all units that begin with `pegboard-`, then the unit's own.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests import compose
from tests.dockerfile import parse_dockerfile

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "systemd"
COMMON = FOLDER / "pegboard-.service.d" / "common.conf"
UNITS = sorted(path for path in FOLDER.iterdir() if path.is_file())
SERVICES = {path.stem.removeprefix("pegboard-"): path for path in UNITS if path.suffix == ".service"}
LONG_RUNNING = sorted(SERVICES.keys() - {"backup"})
INSTALLED = "/opt/pegboard/current"
HARDENED = {
    "User": ["pegboard"],
    "NoNewPrivileges": ["yes"],
    "ProtectSystem": ["strict"],
    "ProtectHome": ["yes"],
    "PrivateTmp": ["yes"],
    "CapabilityBoundingSet": [""],
}


def read_unit(path):
    """Return the settings of a unit and its drop-ins by section and name."""
    sections = defaultdict(lambda: defaultdict(list))
    drop_ins = sorted((FOLDER / f"{path.name}.d").glob("*.conf"))
    for line in "\n".join(file.read_text() for file in (path, COMMON, *drop_ins)).splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            settings = sections[section[1]]
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings[name].append(value)
    return sections


def commands_of(name):
    """Return the commands of a service without the directory of the virtual environment."""
    lines = read_unit(SERVICES[name])["Service"]["ExecStart"]
    words = [shlex.split(line.replace("%%", "%")) for line in lines]
    assert all(first.startswith(f"{INSTALLED}/.venv/bin/") for first, *_ in words)
    return [[first.rpartition("/")[2], *others] for first, *others in words]


def test_systemd_accepts_every_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    installed = tmp_path / "pegboard"
    (programs := installed / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "gunicorn", "celery"):
        (programs / name).symlink_to("/bin/true")
    for path in FOLDER.rglob("*.*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(FOLDER)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(path.read_text().replace(INSTALLED, str(installed)))
    copies = [str(tmp_path / path.name) for path in UNITS]
    environment = os.environ | {
        "SYSTEMD_LOG_LEVEL": "warning",
        "SYSTEMD_UNIT_PATH": f"{tmp_path}:/lib/systemd/system",
    }
    done = subprocess.run(
        ["systemd-analyze", "verify", *copies], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name):
    service = read_unit(SERVICES[name])["Service"]
    assert {setting: service[setting] for setting in HARDENED} == HARDENED
    assert service["EnvironmentFile"][0] == "/etc/pegboard/pegboard.env"


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_process_that_stays_is_started_again_and_has_time_to_end(name):
    unit, container = read_unit(SERVICES[name]), compose.services()[name]
    service = unit["Service"]
    assert (service["Restart"], unit["Unit"]["StartLimitIntervalSec"]) == (["always"], ["0"])
    assert service["KillMode"] == ["mixed"]
    assert f"{service['TimeoutStopSec'][0]}s" == container["stop_grace_period"]
    graceful = [
        ast.literal_eval(number)
        for number in re.findall(r"(?<=graceful_timeout = )\d+|(?<=else )\d+", gunicorn_settings())
    ]
    assert int(service["TimeoutStopSec"][0]) > max(graceful) > 20


def gunicorn_settings():
    text = (ROOT / "pegboard" / "gunicorn.py").read_text()
    return next(line for line in text.splitlines() if line.startswith("graceful_timeout"))


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_service_runs_the_command_and_settings_of_its_container(name):
    container = compose.services()[name]
    image = parse_dockerfile((ROOT / "Dockerfile").read_text())[-1].instructions
    default = next(ast.literal_eval(step.text) for step in image if step.name == "CMD")
    expected = compose.command_of(container, compose.VARIABLES) or default
    (command,) = commands_of(name)
    # The address differs: a container has a network of its own.
    assert [word.replace("${PEGBOARD_BIND}", "ADDRESS") for word in command] == [
        re.sub(r"[\d.]+:\d+", "ADDRESS", word) for word in expected
    ]
    environment = compose.environment_of(container, compose.VARIABLES)
    common = compose.compose_file()["x-product"]["environment"]
    expected = {item: value for item, value in environment.items() if common.get(item) is None}
    expected.pop("PEGBOARD_READY_FILE", None)
    lines = read_unit(SERVICES[name])["Service"]["Environment"]
    variables = dict(word.split("=", 1) for line in lines for word in line.split())
    for local in ("PEGBOARD_BIND", "PEGBOARD_READY_FILE", "PYTHONUNBUFFERED"):
        variables.pop(local, None)
    assert variables == expected


def test_backups_run_the_command_of_the_container():
    services = compose.services()
    assert commands_of("backup") == [compose.command_of(services["backup"], compose.VARIABLES)]
    assert read_unit(SERVICES["backup"])["Service"]["EnvironmentFile"][-1] == "/etc/pegboard/owner.env"


def test_every_process_of_the_containers_has_a_unit_that_the_manual_names():
    product_services = {
        name for name, service in compose.services().items() if service["image"] == "pegboard"
    }
    # Migrations and restores are commands of a person.
    assert set(SERVICES) == product_services - {"migrate", "restore"}
    manual = (ROOT / "docs" / "install.md").read_text()
    assert [name for name in SERVICES if f"pegboard-{name}" not in manual] == []


def test_messages_name_units_that_exist():
    manual = (ROOT / "docs" / "install.md").read_text()
    (template,) = re.findall(r'^PEGBOARD_START="(.+)"$', manual, flags=re.MULTILINE)
    for process in LONG_RUNNING:
        *command, unit = template.replace("{process}", process).split()
        assert command == ["systemctl", "start"]
        assert f"{unit}.service" in {path.name for path in UNITS}
