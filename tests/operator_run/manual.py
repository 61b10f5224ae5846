"""Read the commands of docs/install.md.

A block of commands starts with ```sh and the machine that it runs on, such as ```sh db1. `service=NAME` marks
commands that run until they are stopped.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?:sh (?P<machine>[a-z0-9]+)(?: service=(?P<service>[a-z-]+))?)?")
_HEADING = re.compile(r"^(?P<level>#{2,3}) (?P<title>.+)$")


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of one block and the place where they are written.

    chapter, section: the headings of level 2 and 3 above it; section is "" directly below a chapter.
    service: the name of the service that the commands are, "" for commands that end.
    """

    chapter: str
    section: str
    machine: str
    commands: str
    line: int
    service: str = ""


def read_blocks(path: Path) -> list[Block]:
    """Return the blocks of commands in their order. Blocks without a machine are examples and left out."""
    blocks: list[Block] = []
    chapter = section = ""
    lines = enumerate(path.read_text().splitlines(), start=1)
    for number, line in lines:
        if heading := _HEADING.match(line):
            is_chapter = heading["level"] == "##"
            chapter, section = (heading["title"], "") if is_chapter else (chapter, heading["title"])
        elif fence := _FENCE.match(line):
            commands = _read_to_fence(lines)
            if fence["machine"]:
                service = fence["service"] or ""
                blocks.append(Block(chapter, section, fence["machine"], commands, number, service))
    return blocks


def _read_to_fence(lines: "enumerate[str]") -> str:
    commands: list[str] = []
    for _, line in lines:
        if line == "```":
            break
        commands.append(line)
    return "\n".join(commands)
