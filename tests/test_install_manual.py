"""The commands of docs/install.md, which `make operator` runs: a machine and a shell for each."""

import subprocess
from pathlib import Path

import pytest

from tests.operator_run.__main__ import ADDRESSES, CHECKS, PREPARATIONS
from tests.operator_run.manual import Block, read_blocks

MANUAL = Path(__file__).resolve().parent.parent / "docs" / "install.md"
BLOCKS = read_blocks(MANUAL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line-{block.line}")
def test_each_block_is_shell_for_a_known_machine(block: Block) -> None:
    assert block.machine in {*ADDRESSES, "admin", "cluster"}
    subprocess.run(["bash", "-n"], input=block.commands, text=True, check=True)


def test_sections_with_checks_exist() -> None:
    titles = {block.section or block.chapter for block in BLOCKS}
    assert {*CHECKS, *PREPARATIONS} <= titles


def test_a_block_knows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "manual.md"
    path.write_text(
        "## A\n```sh one\nls\n```\n### B\n```ini\nx=1\n```\n```sh two service=web\nrun \\\n  it\n```\n"
    )

    assert read_blocks(path) == [
        Block(chapter="A", section="", machine="one", commands="ls", line=2),
        Block(chapter="A", section="B", machine="two", commands="run \\\n  it", line=9, service="web"),
    ]
