"""One word for one idea (docs/architecture.md, "Words") in REST, on pages, in docs and in messages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pegboard.web import api_reference

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("core", "people", "catalog", "protocols", "designer", "execution", "serving", "pegboard")

# Forbidden words, and their replacements.
WORDS = {
    r"(some|no|any|every)body|who(m)?ever": "a user, an administrator, the caller, no process",
    r"standing": "credential status, review state",
    r"access keys?|runtime keys?": "API key",
    r"(un)?seal(s|ed|ing)?": "encrypt (a secret), release (a document)",
    r"custody|farewells?|late edits?|lanes?": "the field's own term",
    r"crying wolf|poison\w*": "what happens, without a picture",
}
# Where a word means something else: the text around it, and why.
EXCEPTIONS = {
    "or `nobody`": "the name of a Unix account",
    "credential.sealed": "the column of a secret's ciphertext",
    "c.sealed": "the same in SQL",
    "`sealed`": "the same in a decision record",
    "secret access key": "AWS's term for its secret",
    "ccess key ID": "AWS's term for the name of a secret access key",
}


# Words that no name in the code contains as a whole word.
WORDS_OF_NAMES = {
    "LONGEST|SHORTEST|LARGEST|DEEPEST|FARTHEST|OLDEST|FEWEST|MOST|PATIENCE": "MAX_, MIN_, ..._SECONDS",
    "crashpoint": "failpoint",
    "guise|disguised?|farewell|looking": "another client",
    "readings?": "run; pass, where one run reads the list again; builder",
    "lanes?|custody|standing|echoes|remembering|outages|clashes": "the field's own term",
}

# Participles, verbs of speech and prepositions: as the whole name of a value, none states what the value is.
BARE_NAMES = re.compile(
    "asked|at|beside|each|found|given|got|kept|known|left|listed|made|meant|mine|most|named|of|on|own|read|rest|"
    "said|says|seen|sent|shown|taken|theirs|there|told|wanted|whole|why|written"
)
MAX_BARE_SHARE = 0.01


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


@cache
def names_in_code() -> list[tuple[str, str, list[str]]]:
    """Every module, class, function, argument and variable, with the words that its name is made of."""
    names_found = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        if "migrations" in path.parts:
            continue
        names_in_file = {path.stem}
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names_in_file.add(name)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                    names_in_file.add(name)
        names_found |= {(str(path.relative_to(ROOT)), name) for name in names_in_file}
    part = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
    return [(place, name, part.findall(name)) for place, name in sorted(names_found)]


@pytest.mark.parametrize("word", WORDS_OF_NAMES)
def test_names_in_code_are_the_terms_of_the_field(word):
    pattern = re.compile(word if word.isupper() else f"(?i:{word})")
    breaches = [
        f"{place}: {name}" for place, name, words in names_in_code() if any(map(pattern.fullmatch, words))
    ]
    assert breaches == [], f"in its place: {WORDS_OF_NAMES[word]}"


@pytest.mark.parametrize("rooms", [ROOMS, ("tests", "benchmarks", "soak", "demo")], ids=["product", "rest"])
def test_few_values_and_functions_have_a_bare_name(rooms):
    names: dict[str, list[str]] = {"values": [], "functions": []}
    for path in (path for room in rooms for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names["functions"].append(name.lstrip("_"))
                case ast.Name(id=name, ctx=ast.Store()):
                    names["values"].append(name.lstrip("_"))
    shares = {
        kind: sum(bool(BARE_NAMES.fullmatch(name)) for name in all_names) / len(all_names)
        for kind, all_names in names.items()
    }
    assert max(shares.values()) <= MAX_BARE_SHARE, shares


@pytest.mark.parametrize("word", WORDS)
def test_one_idea_has_one_word(word):
    breaches = []
    for name, text in documents():
        for exception in EXCEPTIONS:
            text = text.replace(exception, "")
        breaches += [
            f"{name}: {text[max(0, m.start() - 40) : m.end() + 30]!r}"
            for m in re.finditer(rf"\b({word})\b", text, re.IGNORECASE)
        ]
    assert breaches == [], f"in its place: {WORDS[word]}"


def test_every_exception_is_used():
    all_text = "\n".join(text for _, text in documents())
    assert [exception for exception in EXCEPTIONS if exception not in all_text] == []
