"""The Dockerfile and .dockerignore as Docker reads them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile.

    options: those before the arguments, such as `--from=build`, by name.
    text: everything after the options, as it is written.
    """

    name: str
    options: dict[str, str]
    text: str

    def paths(self) -> tuple[list[str], str]:
        """Return the sources and the target of a COPY."""
        *sources, target = shlex.split(self.text)
        return sources, target


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)


def parse_dockerfile(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile. Heredocs, ARG and parser directives are not read: ours has none."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, _, text = line.strip().partition(" ")
        options = {}
        while option := re.match(r"--([\w-]+)=(\S+)\s+", text := text.strip()):
            options[option[1]] = option[2]
            text = text[option.end() :]
        if name == "FROM":
            base, _, stage = text.partition(" AS ")
            stages.append(Stage(base.strip(), stage.strip()))
        else:
            stages[-1].instructions.append(Instruction(name, options, text))
    return stages


class DockerIgnore:
    """Decides which paths of the build context Docker leaves out: the last pattern that matches decides.

    A pattern also matches everything below a path that it matches.
    https://docs.docker.com/build/concepts/context/#dockerignore-files
    """

    def __init__(self, text: str) -> None:
        self.rules: list[tuple[re.Pattern[str], bool]] = []
        for line in text.removeprefix("\ufeff").splitlines():
            pattern = line.strip()
            # A comment begins in the first column.
            if line.startswith("#") or not pattern:
                continue
            is_exception = pattern.startswith("!")
            pattern = _clean_path(pattern.removeprefix("!").strip())
            self.rules.append((re.compile(_translate(pattern)), not is_exception))

    def leaves_out(self, path: str) -> bool:
        """Return True if Docker excludes the file at `path`, relative to the context, from the build."""
        names = [path, *(str(parent) for parent in PurePosixPath(path).parents if parent.name)]
        decision = False
        for pattern, leaves_out in self.rules:
            if any(pattern.fullmatch(name) for name in names):
                decision = leaves_out
        return decision


def _clean_path(pattern: str) -> str:
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


def _translate(pattern: str) -> str:
    expression, position = "", 0
    while position < len(pattern):
        remainder = pattern[position:]
        if remainder.startswith("**/"):
            expression, position = expression + "(?:.*/)?", position + 3
        elif remainder.startswith("**"):
            expression, position = expression + ".*", position + 2
        elif remainder[0] == "*":
            expression, position = expression + "[^/]*", position + 1
        elif remainder[0] == "?":
            expression, position = expression + "[^/]", position + 1
        elif remainder[0] == "[" and (characters := re.match(r"\[(\^?)((?:\\.|[^\]])+)\]", remainder)):
            expression, position = expression + characters[0], position + characters.end()
        elif remainder[0] == "\\" and len(remainder) > 1:
            expression, position = expression + re.escape(remainder[1]), position + 2
        else:
            expression, position = expression + re.escape(remainder[0]), position + 1
    return expression


def build_context(root: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield the files below `paths` that Docker sends to the build, relative to `root`."""
    ignore = DockerIgnore((root / ".dockerignore").read_text())
    for path in paths:
        source = root / path
        for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
            name = file.relative_to(root).as_posix()
            if file.is_file() and not ignore.leaves_out(name):
                yield name
