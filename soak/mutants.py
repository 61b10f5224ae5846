"""Mutants of the code that reads and writes schemas: mutmut changes one expression at a time in a copy of the
repository, and the tests beside the code have to fail.

A run tries a sample of the mutants of each area, drawn with the seed of the run. `MUTANTS` in the environment
is the size of the sample, "all" tries every mutant. Tests should kill nine of ten; the command lists the
survivors.

mutmut 3.8 is not among the development packages, because it installs `setproctitle`, with which gunicorn and
Celery rename their processes. Install it in a copy of the virtual environment.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from soak.frame import Field

ROOT = Path(__file__).parents[1]
# The share that has to be killed.
GOAL = 0.9
NO_SUCH_MUTANT = "no_such_mutant"
KILLED = {
    1,  # a test failed
    3,  # the test runner failed
    36,  # the tests took too long
    -24,  # the tests used too much processor time
    152,
    255,
}
# It reads the source of the package, in which every mutant is.
READS_SOURCE = "tests/protocols/test_contract.py::test_every_code_is_explained"
CONFIGURATION = """
[tool.mutmut]
source_paths = {sources}
also_copy = {copied}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "soak._pure_tests", "--deselect", "{reads_source}"]
"""


@dataclass(frozen=True)
class Area:
    """`sources` are mutated, `tests` are the tests beside them; both are globs from the root."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = (
    Area(
        "core/schema",
        ("core/schema/*.py",),
        (
            "tests/core/schema/test_*.py",
            "tests/protocols/calls/test_*.py",
            "tests/protocols/test_parameters.py",
        ),
    ),
    Area(
        "protocols/*/document",
        ("protocols/*/document.py",),
        (
            "tests/protocols/test_*.py",
            "tests/protocols/*/test_signature.py",
            "tests/protocols/*/test_listing.py",
            "tests/protocols/openapi/test_document*.py",
            "tests/protocols/acp/test_messages.py",
        ),
    ),
    Area("designer/exports", ("designer/exports/*.py",), ("tests/designer/exports/test_*.py",)),
)


def storm(field: Field) -> None:
    if importlib.util.find_spec("mutmut") is None:
        field.skip("mutmut is not installed: see soak/mutants.py")
        return
    for area in AREAS:
        copy = field.directory / area.name.replace("/", "-").replace("*", "")
        prepare(copy, area)
        environment = field.environment | {"PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        run(copy, environment, [NO_SUCH_MUTANT])
        names = sorted(results(copy))
        if not field.expect(bool(names), f"{area.name}: the tests fail before anything is changed"):
            continue
        sample_size = os.environ.get("MUTANTS") or str(field.times(short=40, long=400))
        size = len(names) if sample_size == "all" else min(int(sample_size), len(names))
        sample = field.random.sample(names, size)
        run(copy, environment, sample)
        outcomes = results(copy)
        survivors = sorted(name for name in sample if outcomes[name] not in KILLED)
        for _ in sample:
            field.fault(f"mutant of {area.name}")
        field.figure(f"{area.name}: mutants", len(names))
        field.figure(f"{area.name}: killed of {size}", size - len(survivors))
        field.figure(f"{area.name}: survivors", survivors)
        field.expect(
            len(survivors) <= (1 - GOAL) * size, f"{area.name}: {len(survivors)} of {size} mutants survive"
        )


def prepare(copy: Path, area: Area) -> None:
    """Copy the repository, and configure mutmut: sources to change and tests to run."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    top = sorted(path.name for path in copy.iterdir() if path.name not in ("tests", "pyproject.toml"))
    configuration = CONFIGURATION.format(
        sources=json.dumps(globbed(copy, area.sources)),
        copied=json.dumps(top),
        tests=json.dumps(globbed(copy, area.tests)),
        reads_source=READS_SOURCE,
    )
    with (copy / "pyproject.toml").open("a") as file:
        file.write(configuration)


def globbed(root: Path, patterns: tuple[str, ...]) -> list[str]:
    return sorted(str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern))


def run(copy: Path, environment: dict[str, str], names: list[str]) -> None:
    """Run mutmut on these mutants. It makes the mutants first, and measures which test reaches which."""
    with (copy / "mutmut.log").open("a") as log:
        subprocess.run(
            [sys.executable, "-m", "mutmut", "run", *names],
            cwd=copy,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )


def results(copy: Path) -> dict[str, int | None]:
    """Return how the tests ended for each mutant, None where they did not run."""
    exit_codes: dict[str, int | None] = {}
    for path in copy.glob("mutants/**/*.meta"):
        exit_codes |= json.loads(path.read_text())["exit_code_by_key"]
    return exit_codes
