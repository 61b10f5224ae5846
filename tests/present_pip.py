"""Replaces pip in an image that is built without a network.

`install --require-hashes --requirement FILE` copies the distributions that FILE pins from /present, where the
packages of the tests' environment are mounted; `uninstall --yes NAME...` removes them.
"""

import re
import shutil
import sys
import sysconfig
from importlib.metadata import Distribution, distributions
from pathlib import Path

PRESENT = Path("/present")
TARGET, SCRIPTS = Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts"))


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def paths_of(distribution: Distribution) -> set[str]:
    """Names directly below site-packages that belong to the distribution; scripts lie outside."""
    return {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}


def install(requirements: Path) -> None:
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==", requirements.read_text(), re.MULTILINE)
    by_name = {
        normalize(distribution.metadata["Name"]): distribution
        for distribution in distributions(path=[str(PRESENT)])
    }
    for name in filter(by_name.__contains__, map(normalize, pins)):
        for path in paths_of(by_name[name]):
            if (PRESENT / path).is_dir():
                shutil.copytree(PRESENT / path, TARGET / path, dirs_exist_ok=True)
            else:
                shutil.copy2(PRESENT / path, TARGET / path)
        for entry in by_name[name].entry_points.select(group="console_scripts"):
            script = SCRIPTS / entry.name
            script.write_text(
                f"#!{sys.executable}\nimport sys\nfrom {entry.module} import {entry.attr.partition('.')[0]}\n"
                f"sys.exit({entry.attr}())\n"
            )
            script.chmod(0o755)


def uninstall(names: list[str]) -> None:
    by_name = {
        normalize(distribution.metadata["Name"]): distribution
        for distribution in distributions(path=[str(TARGET)])
    }
    for name in names:
        for path in paths_of(by_name[normalize(name)]):
            if (TARGET / path).is_dir():
                shutil.rmtree(TARGET / path)
            else:
                (TARGET / path).unlink(missing_ok=True)


match sys.argv[1:]:
    case ["install", "--require-hashes", "--requirement", file]:
        install(Path(file))
    case ["uninstall", "--yes", *names]:
        uninstall(names)
    case words:
        sys.exit(f"pip {' '.join(words)} is not among the commands that the tests know.")
