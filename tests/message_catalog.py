"""The messages of the pages: found in templates and Python, kept in locale/, compiled for gettext.

`python -m tests.message_catalog` adds new messages to each language, removes those that no page shows,
and compiles.
"""

import ast
import io
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).parent.parent
LANGUAGES = ("de",)
PACKAGES = ("core", "people", "protocols", "catalog", "execution", "designer", "serving", "pegboard")
# In place of the time at which a file was made: it changes only with its messages.
NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTIONS = [
    "_",
    "gettext",
    "gettext_lazy",
    "gettext_noop",
    "ngettext",
    "ngettext_lazy",
    "pgettext",
    "pgettext_lazy",
    "npgettext",
]

# Packages whose sentences are stored, or raised for pages by code that does not know them. Each string in
# them that is a sentence is a message, and pages find it again by its text (core/stored_sentences.py).
STORED = re.compile(
    r"core/(outbound|oauth|schema|strict_|open_replies|encryption|display_names|proxy_signs)"
    r"|protocols/(?!.*server)"
    r"|catalog/(enumeration|credentials|rules|review|notifications|second_look|pictures|vendors|worker_audit)"
    r"|execution/"
    r"|designer/(agents|environments|exports|news|pins|procedures|readiness|rehearsals|releases|translations)"
)
# Texts of programs, command lines and exports in these packages.
NOT_STORED = re.compile(
    r"catalog/(rules/call_errors|credentials/rotation)|designer/(agents/access_tokens|exports/tool_system"
    r"|rehearsals/confusion|releases/lock_file|translations/chat)"
)
# A sentence has three words, and ends as one or before another one.
SENTENCE = re.compile(r"\S+ +\S+ .*[\w)}”\"'%][.?:]", re.DOTALL)
# Modules with parts of sentences of two words or more.
FRAGMENTS = re.compile(r"core/(schema/error_messages|value_descriptions)")
# Calls with a part of a sentence, by the position of this argument.
PARTS = {"text_rule": slice(2, 3), "CharacterKind": slice(1, 2)}
# Arguments that only programs and operators read.
OTHER_TEXTS = ("help_text", "description", "documentation")


def path_of(language: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / "django.po"


def messages_of_pages() -> Catalog:
    """Return all messages of templates and Python, without translations."""
    catalog = Catalog()
    for path, source in _sources():
        for _line, function, message, _comments in extract_python(
            io.BytesIO(source.encode()), FUNCTIONS, [], {"encoding": "utf-8"}
        ):
            if message:  # a function called with a variable has none
                _add(catalog, str(path), function, message)
        if path.suffix == ".py":
            for text in sentences_of(source, pattern_of(str(path))):
                _add(catalog, str(path), "mark", text)
    return catalog


def pattern_of(path: str) -> re.Pattern[str] | None:
    """Return what a string of this module has to match to be a message; None for marked ones only."""
    if FRAGMENTS.match(path):
        return re.compile(r"\w+( \S+)+")
    return SENTENCE if STORED.match(path) and not NOT_STORED.match(path) else None


def sentences_of(source: str, pattern: re.Pattern[str] | None) -> Iterator[str]:
    """Return the marked texts, f-strings as templates, and those that match the pattern."""
    tree = ast.parse(source)
    other_texts = {id(part) for node in ast.walk(tree) for part in _other_texts(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "mark":
            yield from map(template_of, node.args)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PARTS:
            arguments = [
                part for arg in node.args for part in getattr(getattr(arg, "value", arg), "elts", [arg])
            ]
            yield from map(template_of, arguments[PARTS[node.func.id]])
        elif pattern and isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in other_texts:
            text = template_of(node).strip()
            if pattern.fullmatch(text):
                yield text


def _other_texts(node: ast.AST) -> list[ast.AST]:
    """Return docstrings, parts of f-strings and texts of logs, metrics and the schema of REST."""
    if isinstance(node, ast.Expr):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return list(node.values)
    if not isinstance(node, ast.Call):
        return []
    called = ast.unparse(node.func)
    is_for_operators = called.startswith(("logger.", "metrics.", "Counter", "Histogram", "Gauge"))
    is_translated = called in FUNCTIONS  # babel has them, with contexts and plurals
    texts = node.args if is_for_operators or is_translated else []
    return [part for text in texts for part in ast.walk(text)] + [
        part for keyword in node.keywords if keyword.arg in OTHER_TEXTS for part in ast.walk(keyword.value)
    ]


def template_of(node: ast.expr) -> str:
    """Return a string as a message, with a placeholder for each expression in it; "" for other values."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    names: dict[str, str] = {}  # by expression
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            expression = ast.unparse(part.value)
            name = placeholder_of(part.value)
            if expression not in names:
                names[expression] = f"{name}{len(names) + 1}" if name in names.values() else name
            parts.append(f"{{{names[expression]}}}")
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value).replace("{", "{{").replace("}", "}}"))
    return "".join(parts)


def placeholder_of(value: ast.expr) -> str:
    """Return the name of a value: of a call, that of its first argument."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower()
        case ast.Call(args=[first, *_rest]):
            return placeholder_of(first)
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.BinOp(left=inner):
            return placeholder_of(inner)
        case ast.Starred(value=inner) | ast.IfExp(body=inner) | ast.NamedExpr(target=inner):
            return placeholder_of(inner)
    return "value"


def _sources() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        # One line, because the result has the indentation of HTML.
        yield path.relative_to(ROOT), " ".join(templatize(path.read_text()).split("\n"))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT), path.read_text()


def _add(catalog: Catalog, path: str, function: str, found: str | tuple[str | None, ...]) -> None:
    arguments = [found] if isinstance(found, str) else list(found)
    context = arguments.pop(0) if "pgettext" in function else None
    texts = arguments[:2] if function.startswith(("n", "np")) else arguments[:1]
    if all(texts):
        catalog.add(tuple(texts) if len(texts) == 2 else texts[0], locations=[(path, 0)], context=context)


def translations_of(language: str) -> Catalog:
    with path_of(language).open("rb") as file:
        return read_po(file, locale=language, charset="utf-8")


def compiled(translations: Catalog) -> bytes:
    """Return the file that gettext reads. A message without a translation is not in it and stays English."""
    complete = Catalog(locale=translations.locale, creation_date=NO_TIME, revision_date=NO_TIME)
    for message in translations:
        if message.id and is_translated(message):
            complete.add(message.id, message.string, context=message.context)
    file = io.BytesIO()
    write_mo(file, complete)
    return file.getvalue()


def key_of(message: Message) -> tuple[str | None, str | tuple[str, ...]]:
    return message.context, message.id if isinstance(message.id, str) else tuple(message.id)


def is_translated(message: Message) -> bool:
    texts = message.string if isinstance(message.string, tuple) else (message.string,)
    return bool(texts) and all(texts)


def main() -> None:
    messages = messages_of_pages()
    for language in LANGUAGES:
        path = path_of(language)
        translations = translations_of(language) if path.exists() else Catalog(locale=language)
        translations.update(messages, no_fuzzy_matching=True)
        translations.obsolete.clear()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            write_po(file, translations, width=0, sort_output=True, include_lineno=False, omit_header=True)
        path.with_suffix(".mo").write_bytes(compiled(translations))
        missing = sum(1 for message in translations if not is_translated(message))
        sys.stdout.write(f"{language}: {len(translations)} messages, {missing} without a translation\n")


if __name__ == "__main__":
    main()
