"""One word for one idea (docs/architecture.md, "Words") in REST, on pages, in docs and in messages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pegboard.web import api_reference

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "people", "catalog", "designer", "pegboard")

# What is not written, and what stands in its place.
WORDS = {
    r"(some|no|any|every)body|who(m)?ever": "a user, an administrator, the caller, no process",
    r"standing": "credential status, review state",
    r"access keys?|runtime keys?": "API key",
    r"(un)?seal(s|ed|ing)?": "encrypt (a secret), release (a document)",
    r"custody|farewells?|late edits?": "the field's own term",
    r"crying wolf|poison\w*": "what happens, without a picture",
}
# Where a word means something else: the text around it, and why.
EXCEPTIONS = {
    "or `nobody`": "the name of a Unix account",
    "credential.sealed": "the column of a secret's ciphertext",
    "c.sealed": "the same in SQL",
    "`sealed`": "the same in a decision record",
}


@cache
def documents() -> list[tuple[str, str]]:
    return list(_documents())


def _documents() -> Iterator[tuple[str, str]]:
    yield "REST schema", api_reference.document().decode()
    for path in [*(ROOT / "templates").rglob("*.html"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        yield str(path.relative_to(ROOT)), path.read_text()
    yield "CONTRIBUTING.md", (ROOT / "CONTRIBUTING.md").read_text()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        if "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), "\n".join(texts(path))


def texts(path: Path) -> Iterator[str]:
    """The sentences in a module that a user can read: texts with a blank in them that are no docstring."""
    tree = ast.parse(path.read_text())
    remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if is_text and id(node) not in remarks:
            yield node.value


def test_names_in_rest_say_run_for_an_enumeration_run():
    names = re.findall(r'"([a-z_]+)":', api_reference.document().decode())
    assert sorted({name for name in names if {"reading", "readings"} & set(name.split("_"))}) == []


@pytest.mark.parametrize("word", WORDS)
def test_one_idea_has_one_word(word):
    found = []
    for name, text in documents():
        for known in EXCEPTIONS:
            text = text.replace(known, "")
        found += [
            f"{name}: {text[max(0, m.start() - 40) : m.end() + 30]!r}"
            for m in re.finditer(rf"\b({word})\b", text, re.IGNORECASE)
        ]
    assert found == [], f"in its place: {WORDS[word]}"


def test_every_exception_is_used():
    told = "\n".join(text for _, text in documents())
    assert [known for known in EXCEPTIONS if known not in told] == []
