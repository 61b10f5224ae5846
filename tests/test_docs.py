import ast
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from core import own_commands
from pegboard import process_commands
from tests import test_words

ROOT = Path(__file__).resolve().parent.parent
CODE = ("pegboard", "people", "catalog", "protocols", "designer", "execution", "serving", "demo")
READ = re.compile(r"""environ(?:\.get)?[\[(]\s*"([A-Z_]+)"|_words\("([A-Z_]+)"|\benv\.get\("([A-Z_]+)"\)""")


def python_files():
    return [path for app in CODE for path in (ROOT / app).rglob("*.py")]


def variables_read():
    variables = {
        name for path in python_files() for groups in READ.findall(path.read_text()) for name in groups
    }
    # PEGBOARD_TOKEN is read by the programs that the connect page shows (serving/programs.py).
    return sorted(variables - {"", "DJANGO_SETTINGS_MODULE", "PEGBOARD_TOKEN"})


def test_every_variable_that_is_read_is_explained():
    text, names = (ROOT / "docs" / "operations.md").read_text(), variables_read()
    assert len(names) > 40, "the pattern that finds them still matches"
    assert [name for name in names if f"`{name}`" not in text] == []


def variables_of_the_manual():
    return {name for names, _ in rows_of_variables() for name in names}


def rows_of_variables():
    """The names and the default of each row of the manual's tables of variables."""
    text = (ROOT / "docs" / "operations.md").read_text().split("\n## Variables\n")[1].split("\n## ")[0]
    cells = [re.split(r"\s*\|\s*", line) for line in text.splitlines() if re.match(r"`[A-Z_]+`.* \|", line)]
    return [(re.findall(r"`([A-Z_]+)`", name), default) for name, default, _ in cells]


def test_the_manual_states_the_defaults_of_the_containers():
    text = (ROOT / "docker-compose.yml").read_text()
    defaults = dict(re.findall(r"\$\{([A-Z_]+):-([^}]+)\}", text))
    assert len(defaults) > 20
    for names, default in rows_of_variables():
        for name in set(names) & defaults.keys() - {"POSTGRES_IMAGE", "VALKEY_IMAGE"}:
            assert defaults[name] in default, f"{name} has the default {defaults[name]}"


def test_the_manual_is_short():
    """install.md and operations.md together, with their commands and tables."""
    pages = [(ROOT / "docs" / name).read_text() for name in ("install.md", "operations.md")]
    assert sum(len(page.split()) for page in pages) <= 6_000


def test_the_documentation_is_short():
    assert sum(len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md")) <= 55_000


def test_every_variable_of_the_containers_is_explained():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    own_services = [service for service in services.values() if service["image"] == "pegboard"]
    assert len(own_services) == 9
    names = {name for service in own_services for name in service["environment"]}
    names |= set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert sorted(names - variables_of_the_manual()) == []


# Variables of the manual that containers are not given, by the reason.
NOT_FOR_CONTAINERS = {
    "make run": "PORT DATA DEMO PEGBOARD_DEMO_PASSWORD PEGBOARD_PG_BIN RESTORE PEGBOARD_LOCAL PEGBOARD_DATA",
    "the image sets it": "PEGBOARD_STATIC_ROOT",
    "the web server sets it": "PEGBOARD_SERVES_PAGES",
    "one command reads it": "PEGBOARD_API_KEY PEGBOARD_FIRST_CODE",
    "never in production": "PEGBOARD_DEBUG CRASHPOINT DEBUG_CRASH",
}


def test_the_containers_pass_every_variable_of_the_manual():
    documented = variables_of_the_manual()
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    passed = {name for service in services.values() for name in service.get("environment", {})}
    # Read by docker-compose.yml itself.
    passed |= set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    excluded = {name for names in NOT_FOR_CONTAINERS.values() for name in names.split()}
    assert len(documented) > 50
    assert documented - passed == excluded


def test_every_container_that_stays_has_a_health_check():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ending = [name for name, service in services.items() if service["restart"] == "no"]
    assert ending == ["migrate", "backup", "restore"]
    assert [name for name, service in services.items() if "healthcheck" not in service] == ending


@pytest.mark.parametrize(
    ("age", "status", "is_killed"),
    [(None, 1, False), (0, 0, False), (120, 1, False), (400, 1, True)],
    ids=["not ready", "alive", "late", "stuck"],
)
@pytest.mark.parametrize("name", ["worker", "slow", "caller", "beat"])
def test_a_container_whose_process_does_not_touch_its_file_is_killed(tmp_path, name, age, status, is_killed):
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][name]
    path = tmp_path / "alive"
    if age is not None:
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    command = service["healthcheck"]["test"][1]
    for original, replacement in (
        (service["environment"]["PEGBOARD_READY_FILE"], str(path)),
        ("sleep 15", "true"),
        ("kill -KILL -1", "echo killed"),
    ):
        assert original in command
        command = command.replace(original, replacement)
    look = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (look.returncode, look.stdout == "killed\n") == (status, is_killed)


def test_the_servers_of_the_containers_have_passwords_and_exact_versions():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert "--requirepass" in services["valkey"]["command"]
    assert "VALKEY_PASSWORD" in services["web"]["environment"]["REDIS_URL"]
    for server in ("postgres", "valkey"):
        assert re.search(r":-[\w/]+:\d+\.\d+[\w.]*(@sha256:[0-9a-f]{64})?}$", services[server]["image"])


def test_the_containers_run_the_commands_of_the_manual():
    operations = " ".join((ROOT / "docs" / "operations.md").read_text().split())
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for service in ("worker", "slow", "caller", "beat"):
        command = " ".join(
            word for word in services[service]["command"] if word not in ("--loglevel", "INFO")
        )
        assert command in operations


def test_each_package_states_what_is_in_it():
    packages = [
        path
        for path in python_files()
        if path.name == "__init__.py" and not {"migrations", "management"} & set(path.parts)
    ] + list((ROOT / "core").rglob("__init__.py"))
    assert len(packages) > 70
    assert [str(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_the_architecture_names_each_package():
    """A line for each package of the product, and folders that are there."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert len(text.splitlines()) <= 250
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.+) \|$", text, flags=re.MULTILINE))
    assert set(rows) == {*CODE, "core"}
    for package, contents in rows.items():
        folders = re.findall(r"`(\w+)/`", contents)
        assert [name for name in folders if not (ROOT / package / name / "__init__.py").exists()] == []


def anchors_of(document):
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", document.read_text()):
            page = document.parent / target if target else document
            assert page.exists(), f"{document.name} links to {target}"
            if anchor:
                assert anchor in anchors_of(page), f"{document.name} links to {target}#{anchor}"


def test_decision_records_have_one_form_and_no_gaps():
    """A number is a record, or the index names the record that it was merged into."""
    folder = ROOT / "docs" / "decisions"
    records = {int(path.name[:4]): path for path in folder.glob("0*.md")}
    for number, record in records.items():
        text = record.read_text()
        assert text.startswith(f"# {number}. ")
        headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
        assert [name for name in headings if name != "Alternatives"] == [
            "Context",
            "Decision",
            "Consequences",
        ], record.name
    entries = re.findall(r"^(\d+)\. (.+)$", (folder / "README.md").read_text(), flags=re.MULTILINE)
    assert [int(number) for number, _ in entries] == list(range(1, max(records) + 1))
    for number, entry in ((int(number), entry) for number, entry in entries):
        if number in records:
            title = records[number].read_text().splitlines()[0].partition(". ")[2]
            assert entry == f"[{title}]({records[number].name})"
        else:
            later = re.fullmatch(r"Merged into \[(\d+)\]\((.+)\)\.", entry)
            assert later, f"{number} is a gap"
            assert records[int(later[1])].name == later[2]


def test_documents_that_the_code_points_to_exist():
    places = [*python_files(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]
    pointed = {name for path in places for name in re.findall(r"docs/[\w/-]+\.md", path.read_text())}
    assert sorted(name for name in pointed if not (ROOT / name).exists()) == []


def test_management_commands_are_written_as_they_can_be_called():
    """Commands name the Python that runs them. `manage.py` alone is the name of the file."""
    places = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "templates").rglob("*.html"), ROOT / "README.md"]
    }
    for path in python_files():
        places[str(path.relative_to(ROOT))] = "\n".join(test_words.texts(path))
    bare = {
        f"{name}: {command}"
        for name, text in places.items()
        for command in re.findall(r"(?<!python )(?<!\w)manage\.py [a-z]\w+", text)
        # Output of Pegboard's own programs: `make run`, and messages that quote a step.
        if command not in ("manage.py up", "manage.py prints")
    }
    assert bare == set()


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("/srv/pegboard/.venv/bin/python", ".venv/bin/python manage.py"),
        ("/opt/venv/bin/python", "/opt/venv/bin/python manage.py"),
    ],
)
def test_messages_name_the_python_of_this_installation(python, command):
    assert own_commands.default_command(Path(python), Path("/srv/pegboard")) == command


@pytest.mark.parametrize("process", ["worker", "slow", "caller", "beat"])
def test_messages_start_a_process_as_docker_compose_does(process, monkeypatch):
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    template = services[process]["environment"]["PEGBOARD_START"]
    monkeypatch.setenv("PEGBOARD_START", template)
    assert process_commands.start_command(process) == f"docker compose up --detach {process}"


@pytest.mark.parametrize("process", ["worker", "slow", "caller", "beat"])
def test_messages_start_a_process_with_a_program_that_is_there(process, monkeypatch):
    monkeypatch.delenv("PEGBOARD_START", raising=False)
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    words = shlex.split(process_commands.start_command(process))
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        assert services[process]["environment"][name] == value
    program, *arguments = words
    assert os.access(ROOT / program, os.X_OK)
    assert arguments == [word for word in services[process]["command"][1:] if word != "--quiet"]
