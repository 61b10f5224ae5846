"""Find repetitions in a tool's texts and the shorter texts without them. Pure."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from catalog.token_estimate import tokens_of_size
from core.translatable import Wording
from core.translatable import mark as _
from designer.exports.base import FormatLimits, lists_values
from designer.signatures.words import Path
from protocols.signature import Parameter, Signature

# Longer lists are rare in a text and would make the pattern slow.
MAX_VALUES = 200
_INTRO = (
    r"(?P<modal>(?:must|can|should|may|has to|needs to)\s+be\s+)?"
    r"(?:either|(?:one|any)\s+of(?:\s+the\s+following)?|(?:the\s+)?(?:allowed|possible|valid|accepted|supported|"
    r"available)\s+(?:values|options)(?:\s+are)?|options|values|choices|enum)\s*:?\s*"
)
_QUOTES = "\"'`“”\u2018\u2019"
_DASHES = "-\u2013\u2014"
_END = r"\s*[)\]]?(?:\.(?=\s|\Z)|(?=\n|\Z))"
_SECTION = re.compile(r"[ \t]*(?:args|arguments|parameters|params|inputs)[ \t]*:[ \t]*", re.IGNORECASE)
_ENTRY = re.compile(
    r"[ \t]*(?:[-*][ \t]+)?[`*]{0,2}(?P<name>[^\s`*(:]+)[`*]{0,2}[ \t]*(?:\([^()]*\)[ \t]*)?"
    r":[ \t]*(?P<text>.*)"
)
_REQUIRED = re.compile(
    r"\A\s*(?:[(\[](?P<a>required|optional)[)\]][.:,;]?|(?P<b>required|optional)[.:])\s+"
    r"|\s*[(\[](?P<c>required|optional)[)\]](?P<stop>\.?)\s*\Z",
    re.IGNORECASE,
)


class Saving(NamedTuple):
    """A shorter `text` for the member at `path`, and the number of tokens that it saves."""

    code: str
    path: Path
    message: str
    text: str
    tokens: int


def find_savings(
    signature: Signature, tuned_texts: Mapping[Path, Any], limits: FormatLimits, *, size: int
) -> list[Saving]:
    """Return the savings, the largest first.

    tuned_texts: the effective value of each member.
    size: the size in bytes of the tool in the format with these limits.
    """
    results = []
    for code, path, message, text in _find_shorter_texts(signature, tuned_texts, limits):
        saved_bytes = len(msgspec.json.encode(tuned_texts[path])) - len(msgspec.json.encode(text))
        tokens = tokens_of_size(size) - tokens_of_size(size - saved_bytes)
        if tokens > 0:
            results.append(Saving(code, path, message, text, tokens))
    return sorted(results, key=lambda saving: (-saving.tokens, saving.path, saving.code))


Candidates = Iterator[tuple[str, Path, str, str]]


def _find_shorter_texts(
    signature: Signature, tuned_texts: Mapping[Path, Any], limits: FormatLimits
) -> Candidates:
    title, description = str(tuned_texts["title",]), str(tuned_texts["description",])
    if (
        "title" in limits.carries
        and title
        and _normalize_words(title) in (_normalize_words(description), _normalize_words(signature.name))
    ):
        message = Wording(_("The title repeats the name."))
        if _normalize_words(title) == _normalize_words(description):
            message = Wording(_("The title repeats the description."))
        yield "title_repeats", ("title",), message, ""
    if text := without_name(description, signature.name):
        message = Wording(_("The description begins with the tool's name."))
        yield "name_repeated", ("description",), message, text
    texts = {
        parameter.name: str(tuned_texts["parameters", parameter.name, "description"])
        for parameter in signature.inputs
        if not tuned_texts["parameters", parameter.name, "hidden"]
    }
    if text := without_inputs(description, texts):
        message = Wording(_("The description repeats the descriptions of the inputs."))
        yield "inputs_repeated", ("description",), message, text
    if text := without_blanks(description):
        message = Wording(_("The description contains unnecessary spaces."))
        yield "blanks", ("description",), message, text
    for parameter in signature.inputs:
        if parameter.name in texts:
            has_preset = tuned_texts["parameters", parameter.name, "preset"] is not UNSET
            yield from _find_for_input(parameter, texts[parameter.name], limits, has_preset=has_preset)


def _find_for_input(parameter: Parameter, now: str, limits: FormatLimits, *, has_preset: bool) -> Candidates:
    path, values = ("parameters", parameter.name, "description"), {"name": parameter.name}
    if lists_values(parameter, limits) and (text := without_values(now, parameter)):
        template = _("The description of “{name}” repeats its allowed values.")
        yield "values_repeated", path, Wording(template, values), text
    if text := without_name(now, parameter.name):
        template = _("The description of “{name}” begins with its name.")
        yield "name_repeated", path, Wording(template, values), text
    carries_default = "defaults" in limits.carries and not has_preset
    if carries_default and (text := without_default(now, parameter.default)):
        message = Wording(_("The description of “{name}” repeats its default."), values)
        yield "default_repeated", path, message, text
    # A strict schema requires every input, so there only the word states it.
    is_required = parameter.required and not has_preset
    if limits.contract.subset is None and (text := remove_required_note(now, is_required=is_required)):
        template = (
            _("The description of “{name}” repeats that it is required.")
            if is_required
            else _("The description of “{name}” repeats that it is optional.")
        )
        yield "required_repeated", path, Wording(template, values), text
    if text := without_blanks(now):
        template = _("The description of “{name}” contains unnecessary spaces.")
        yield "blanks", path, Wording(template, values), text


def without_values(text: str, parameter: Parameter) -> str:
    """Return the text without a list of all allowed values; "" if there is nothing to remove. The functions
    below do the same.
    """
    values = [value.name for value in parameter.allowed_values]
    if not 1 < len(values) <= MAX_VALUES or not all(values):
        return ""
    alternatives = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    item = rf"[{_QUOTES}]?(?<![\w-])(?:{alternatives})(?![\w-])[{_QUOTES}]?"
    separator = r"(?:\s*(?:,|/|\||;)\s*(?:(?:or|and)\s+)?|\s+(?:or|and)\s+)"
    pattern = re.compile(rf"{_INTRO}(?P<list>{item}(?:{separator}{item})+){_END}", re.IGNORECASE)
    for match in pattern.finditer(text):
        items = re.findall(item, match["list"])
        if {value.strip(_QUOTES) for value in items} == set(values):
            before = text[: match.start()].rstrip()
            # “Use one of a, b” would leave an incomplete sentence.
            if not before or match["modal"] or not before[-1].isalnum():
                return _join_texts(before, text[match.end() :])
    return ""


def without_default(text: str, default: Any) -> str:
    if default is UNSET or isinstance(default, list | dict):
        return ""
    spellings = {default if isinstance(default, str) else json.dumps(default), str(default)} - {""}
    alternatives = "|".join(re.escape(value) for value in sorted(spellings, key=len, reverse=True))
    if not alternatives:
        return ""
    value_pattern = rf"[{_QUOTES}]?(?:{alternatives})[{_QUOTES}]?"
    pattern = rf"(?:the\s+)?\bdefault(?:s\s+to|\s+(?:value\s+)?is|\s*[:=])\s*{value_pattern}{_END}"
    match = re.search(pattern, text, re.IGNORECASE)
    if not match:
        return ""
    before = text[: match.start()].rstrip()
    return _join_texts(before, text[match.end() :]) if not before[-1:].isalnum() else ""


def remove_required_note(text: str, *, is_required: bool) -> str:
    match = _REQUIRED.search(text)
    word = (match["a"] or match["b"] or match["c"]).lower() if match else ""
    if not match or (word == "required") != is_required:
        return ""
    return (text[: match.start()] + (match["stop"] or "") + text[match.end() :]).strip()


def without_name(text: str, name: str) -> str:
    """Return the text without the name that it begins with, as in “city: The city to look up”."""
    pattern = (
        rf"\s*[{_QUOTES}*]{{0,2}}(?P<name>[^:\n]{{1,100}}?)[{_QUOTES}*]{{0,2}}\s*(?::|\s[{_DASHES}])\s+(?=\S)"
    )
    match = re.match(pattern, text)
    if not match or _normalize_words(match["name"]) != _normalize_words(name) or not _normalize_words(name):
        return ""
    return text[match.end() :]


def without_inputs(text: str, inputs: Mapping[str, str]) -> str:
    """Return the text without a section of arguments, as in docstrings, that repeats the texts of the
    inputs.
    """
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if _SECTION.fullmatch(line)), None)
    if start is None:
        return ""
    depth = _indent_of(lines[start])
    section = list(takewhile(lambda line: line.strip() and _indent_of(line) > depth, lines[start + 1 :]))
    entries: list[tuple[str, str]] = []
    for line in section:
        entry = _ENTRY.fullmatch(line)
        if entry and entry["name"] in inputs:
            entries.append((entry["name"], entry["text"]))
        elif entries and _indent_of(line) > _indent_of(section[0]):
            # A longer text continues on the next line.
            entries[-1] = entries[-1][0], f"{entries[-1][1]} {line}"
        else:
            return ""
    if not entries or any(
        _normalize_words(entry_text) not in _normalize_words(inputs[name]) for name, entry_text in entries
    ):
        return ""
    end = start + 1 + len(section)
    before, after = "\n".join(lines[:start]).rstrip(), "\n".join(lines[end:]).strip("\n")
    return f"{before}\n\n{after}" if before and after else (before or after)


def without_blanks(text: str) -> str:
    """Return the text without trailing blanks, repeated blank lines and common indentation."""
    first, _, following_lines = text.replace("\r\n", "\n").strip().partition("\n")
    dedented = f"{first}\n{textwrap.dedent(following_lines)}" if following_lines else first
    shorter = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+(?=\n|\Z)", "", dedented))
    return shorter if len(shorter) < len(text.replace("\r\n", "\n")) else ""


def _join_texts(before: str, after: str) -> str:
    before, after = before.rstrip(f" \t\n,;:([{_DASHES}"), after.lstrip(" .")
    if before and before[-1] not in ".!?" and (not after or not after.startswith("\n")):
        before += "."
    return f"{before} {after}".strip() if after[:1] != "\n" else before + after


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def _normalize_words(text: str) -> str:
    # Texts that differ only in case, blanks and punctuation count as equal.
    return "".join(re.findall(r"\w+", text.replace("_", " ").casefold()))
