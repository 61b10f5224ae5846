"""A process that is forked after its parent has read the settings has those of its own environment."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.process_commands import FOR_CALLS, FOR_RUNTIMES
from pegboard.process_settings import process_settings

ROOT = Path(__file__).resolve().parents[2]
PRINT_SETTINGS = """
import json, os, re
import django
from django.conf import settings
from django.db import connections
from pegboard.celery import app

def printed():
    connections.settings  # Django adds defaults to it
    names = [name for name in dir(settings) if name.isupper() and name[0] != "_"]
    values = {name: re.sub(" at 0x[0-9a-f]+", "", repr(getattr(settings, name))) for name in names}
    values["backend"] = type(connections["default"]).__module__
    values["options"] = app.conf.broker_transport_options
    return json.dumps(values)
"""
FRESH = f"{PRINT_SETTINGS}\n%s\ndjango.setup()\nprint(printed())"
# Forks a child for each environment, one after another.
FORKED = f"""{PRINT_SETTINGS}
from pegboard import forked_settings
django.setup()
printed()
for module, environment in json.loads(os.environ["CHILDREN"]):
    if os.fork():
        assert os.wait()[1] == 0
        continue
    os.environ.update(environment)
    forked_settings.read_again()
    exec(module)
    print(printed(), flush=True)
    os._exit(0)
"""
PROCESSES = {
    "worker": ("", {}),
    "caller": ("", FOR_CALLS),
    "web": ("import pegboard.gunicorn", {"WEB_THREADS": "8"}),
    "runtimes": ("import pegboard.gunicorn", FOR_RUNTIMES),
}


def settings_after(code: str, env: dict[str, str]) -> list[dict]:
    """Return the settings that each process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "pegboard.settings"} | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def forked() -> dict[str, dict]:
    """The settings of each process, forked from one parent."""
    children = settings_after(FORKED, {"CHILDREN": json.dumps([*PROCESSES.values()])})
    return dict(zip(PROCESSES, children, strict=True))


@pytest.mark.parametrize("name", PROCESSES)
def test_a_forked_process_has_the_settings_of_one_that_was_started(name, forked):
    module, env = PROCESSES[name]
    assert [forked[name]] == settings_after(FRESH % module, env)


def names_read_at_import(tree: ast.AST) -> set[str]:
    """Return the settings that a module reads outside its functions."""
    names = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "settings"
        ):
            names.add(node.attr)
        names |= names_read_at_import(node)
    return names


def test_no_module_keeps_a_setting_that_a_forked_process_reads_again():
    apps = ("core", "people", "catalog", "designer", "execution", "serving", "pegboard")
    modules = [path for app in apps for path in (ROOT / app).rglob("*.py")]
    assert len(modules) > 300
    names = process_settings({}).keys()
    names_by_path = {str(path): names_read_at_import(ast.parse(path.read_text())) & names for path in modules}
    assert {path: names_read for path, names_read in names_by_path.items() if names_read} == {}
    assert names_read_at_import(ast.parse("LIMIT = settings.QUERY_DEADLINE")) == {"QUERY_DEADLINE"}
