"""Every word of the pages has a German translation that says the same about the same things."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.message_catalog import (
    LANGUAGES,
    compiled,
    is_translated,
    key_of,
    messages_of_pages,
    path_of,
    translations_of,
)

PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w+\}")
TAG = re.compile(r"<[^>]+>")
in_each_language = pytest.mark.parametrize("language", LANGUAGES)


def texts_of(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


@in_each_language
def test_the_catalog_holds_the_messages_of_the_pages_and_no_others(language):
    """Otherwise run `make messages`, and translate what is new."""
    used = {key_of(message) for message in messages_of_pages() if message.id}
    stored = {key_of(message) for message in translations_of(language) if message.id}

    assert sorted(map(str, used ^ stored)) == []


@in_each_language
def test_each_message_is_translated(language):
    assert [message.id for message in translations_of(language) if not is_translated(message)] == []


@in_each_language
def test_translations_have_the_placeholders_and_tags_of_their_messages(language):
    differences = []
    for message in translations_of(language):
        if not message.id:
            continue
        *_, longest = texts_of(message.id)
        names = set(PLACEHOLDER.findall(" ".join(texts_of(message.id))))
        for text in texts_of(message.string):
            # A singular may leave the number out: “One tool was added”.
            missing = set(PLACEHOLDER.findall(longest)) - set(PLACEHOLDER.findall(text))
            if set(PLACEHOLDER.findall(text)) - names or (missing and isinstance(message.id, str)):
                differences.append((message.id, text))
            if sorted(TAG.findall(text)) != sorted(TAG.findall(longest)):
                differences.append((message.id, text))

    assert differences == []


@in_each_language
def test_the_compiled_file_is_made_from_the_catalog(language):
    """Otherwise run `make messages`."""
    assert path_of(language).with_suffix(".mo").read_bytes() == compiled(translations_of(language))


def calls_at_import(tree: ast.AST) -> list[ast.Call]:
    """Return the calls outside of functions, whose results are the same in every language."""
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return [
            call
            for part in (tree.args, *getattr(tree, "decorator_list", ()))
            for call in calls_at_import(part)
        ]
    own = [tree] if isinstance(tree, ast.Call) else []
    return own + [call for child in ast.iter_child_nodes(tree) for call in calls_at_import(child)]


def test_no_module_translates_a_word_when_it_is_imported():
    """Use `gettext_lazy`: no request has chosen a language yet."""
    files = subprocess.check_output(["git", "ls-files", "*.py"], text=True).split()
    early = []
    for path in files:
        text = Path(path).read_text()
        if path.startswith("tests/") or "gettext" not in text:
            continue
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        eager = {
            name.asname or name.name
            for node in imports
            if node.module == "django.utils.translation"
            for name in node.names
            if name.name in ("gettext", "ngettext", "pgettext", "npgettext")
        }
        early += [
            f"{path}:{call.lineno}"
            for call in calls_at_import(tree)
            if isinstance(call.func, ast.Name) and call.func.id in eager
        ]

    assert early == []


def test_labels_of_forms_are_translated():
    """A label that is no message stays English on every page."""
    untranslated = []
    for path in sorted(Path().glob("*/forms/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg in ("label", "help_text", "empty_label"):
                value = node.value
                if (isinstance(value, ast.Constant) and value.value) or isinstance(value, ast.JoinedStr):
                    untranslated.append(f"{path}:{value.lineno}")

    assert untranslated == []


EAGER = {"gettext", "ngettext", "pgettext", "npgettext"}


def eager_calls(tree: ast.Module) -> list[int]:
    """Return the lines that translate when the module is imported, in the language of whoever imports it."""
    names = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
        if alias.name in EAGER
    }
    nodes, lines = list(ast.iter_child_nodes(tree)), []
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            lines.append(node.lineno)
        nodes += ast.iter_child_nodes(node)
    return lines


def test_no_module_translates_while_it_is_imported():
    lines_by_path = {
        str(path): lines
        for package in (
            "core",
            "people",
            "protocols",
            "catalog",
            "execution",
            "designer",
            "serving",
            "pegboard",
        )
        for path in Path(package).rglob("*.py")
        if "gettext" in path.read_text() and (lines := eager_calls(ast.parse(path.read_text())))
    }
    assert lines_by_path == {}


def test_a_translation_at_import_is_noticed():
    source = (
        "from django.utils.translation import gettext as _\nLABEL = _('Name')\ndef f():\n    return _('Name')"
    )
    assert eager_calls(ast.parse(source)) == [2]
