"""What the words about a tool say twice, and the shorter text that says it once. Pure.

A text is only shortened where what goes is said to a model elsewhere in the same tool.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from catalog.token_estimate import tokens_of_size
from designer.exports.base import Limits, lists_values
from designer.signatures.words import Path
from protocols.signature import Parameter, Signature

# Longer lists are rare in a text, and would make a slow pattern.
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
    """`path` leads to the words that `text` can stand for; `tokens` are what that saves."""

    code: str
    path: Path
    message: str
    text: str
    tokens: int


def savings(signature: Signature, said: Mapping[Path, Any], limits: Limits, *, size: int) -> list[Saving]:
    """The largest first. `said` is what counts at each member; `size` is that of the tool in bytes, as the
    format with these limits writes it.
    """
    found = []
    for code, path, message, text in _shorter(signature, said, limits):
        less = len(msgspec.json.encode(said[path])) - len(msgspec.json.encode(text))
        tokens = tokens_of_size(size) - tokens_of_size(size - less)
        if tokens > 0:
            found.append(Saving(code, path, message, text, tokens))
    return sorted(found, key=lambda each: (-each.tokens, each.path, each.code))


Found = Iterator[tuple[str, Path, str, str]]


def _shorter(signature: Signature, said: Mapping[Path, Any], limits: Limits) -> Found:
    title, description = str(said["title",]), str(said["description",])
    if "title" in limits.carries and title and _plain(title) in (_plain(description), _plain(signature.name)):
        what = "description" if _plain(title) == _plain(description) else "name"
        yield "title_repeats", ("title",), f"The title says no more than the {what}.", ""
    if text := without_name(description, signature.name):
        yield "name_repeated", ("description",), "The description begins with the tool's name.", text
    texts = {
        parameter.name: str(said["parameters", parameter.name, "description"])
        for parameter in signature.inputs
        if not said["parameters", parameter.name, "hidden"]
    }
    if text := without_inputs(description, texts):
        message = "The description lists the inputs in the words that stand at each of them."
        yield "inputs_repeated", ("description",), message, text
    if text := without_blanks(description):
        yield "blanks", ("description",), "The description holds blanks that say nothing.", text
    for parameter in signature.inputs:
        if parameter.name in texts:
            has_preset = said["parameters", parameter.name, "preset"] is not UNSET
            yield from _of_input(parameter, texts[parameter.name], limits, has_preset=has_preset)


def _of_input(parameter: Parameter, now: str, limits: Limits, *, has_preset: bool) -> Found:
    path, name = ("parameters", parameter.name, "description"), f"“{parameter.name}”"
    if lists_values(parameter, limits) and (text := without_values(now, parameter)):
        yield "values_repeated", path, f"The description of {name} lists the values that it takes.", text
    if text := without_name(now, parameter.name):
        yield "name_repeated", path, f"The description of {name} begins with its name.", text
    carries_default = "defaults" in limits.carries and not has_preset
    if carries_default and (text := without_default(now, parameter.default)):
        yield "default_repeated", path, f"The description of {name} says its default.", text
    # A strict schema requires every input, so there the word is all that says it.
    is_required = parameter.required and not has_preset
    if limits.contract.subset is None and (text := without_required(now, is_required=is_required)):
        word = "required" if is_required else "optional"
        yield "required_repeated", path, f"The description of {name} says that it is {word}.", text
    if text := without_blanks(now):
        yield "blanks", path, f"The description of {name} holds blanks that say nothing.", text


def without_values(text: str, parameter: Parameter) -> str:
    """Without a list of all allowed values; empty where it has none that can go, as for the rules below."""
    values = [value.name for value in parameter.allowed_values]
    if not 1 < len(values) <= MAX_VALUES or not all(values):
        return ""
    each = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    item = rf"[{_QUOTES}]?(?<![\w-])(?:{each})(?![\w-])[{_QUOTES}]?"
    between = r"(?:\s*(?:,|/|\||;)\s*(?:(?:or|and)\s+)?|\s+(?:or|and)\s+)"
    listed = re.compile(rf"{_INTRO}(?P<list>{item}(?:{between}{item})+){_END}", re.IGNORECASE)
    for found in listed.finditer(text):
        named = re.findall(item, found["list"])
        if {one.strip(_QUOTES) for one in named} == set(values):
            before = text[: found.start()].rstrip()
            # “Use one of a, b” would leave a sentence without an end.
            if not before or found["modal"] or not before[-1].isalnum():
                return _joined(before, text[found.end() :])
    return ""


def without_default(text: str, default: Any) -> str:
    if default is UNSET or isinstance(default, list | dict):
        return ""
    spoken = {default if isinstance(default, str) else json.dumps(default), str(default)} - {""}
    each = "|".join(re.escape(value) for value in sorted(spoken, key=len, reverse=True))
    if not each:
        return ""
    named = rf"[{_QUOTES}]?(?:{each})[{_QUOTES}]?"
    says = rf"(?:the\s+)?\bdefault(?:s\s+to|\s+(?:value\s+)?is|\s*[:=])\s*{named}{_END}"
    found = re.search(says, text, re.IGNORECASE)
    if not found:
        return ""
    before = text[: found.start()].rstrip()
    return _joined(before, text[found.end() :]) if not before[-1:].isalnum() else ""


def without_required(text: str, *, is_required: bool) -> str:
    found = _REQUIRED.search(text)
    word = (found["a"] or found["b"] or found["c"]).lower() if found else ""
    if not found or (word == "required") != is_required:
        return ""
    return (text[: found.start()] + (found["stop"] or "") + text[found.end() :]).strip()


def without_name(text: str, name: str) -> str:
    """Without the name that a text begins with, as in “city: The city to look up”."""
    begins = (
        rf"\s*[{_QUOTES}*]{{0,2}}(?P<name>[^:\n]{{1,100}}?)[{_QUOTES}*]{{0,2}}\s*(?::|\s[{_DASHES}])\s+(?=\S)"
    )
    found = re.match(begins, text)
    if not found or _plain(found["name"]) != _plain(name) or not _plain(name):
        return ""
    return text[found.end() :]


def without_inputs(text: str, inputs: Mapping[str, str]) -> str:
    """Without a section of arguments, as programs write it, that says nothing which the inputs do not say."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _SECTION.fullmatch(line)), None)
    if start is None:
        return ""
    depth = _indent(lines[start])
    inside = list(takewhile(lambda line: line.strip() and _indent(line) > depth, lines[start + 1 :]))
    entries: list[tuple[str, str]] = []
    for line in inside:
        entry = _ENTRY.fullmatch(line)
        if entry and entry["name"] in inputs:
            entries.append((entry["name"], entry["text"]))
        elif entries and _indent(line) > _indent(inside[0]):
            # A longer text goes on in the next line.
            entries[-1] = entries[-1][0], f"{entries[-1][1]} {line}"
        else:
            return ""
    if not entries or any(_plain(said) not in _plain(inputs[name]) for name, said in entries):
        return ""
    end = start + 1 + len(inside)
    before, after = "\n".join(lines[:start]).rstrip(), "\n".join(lines[end:]).strip("\n")
    return f"{before}\n\n{after}" if before and after else (before or after)


def without_blanks(text: str) -> str:
    """Without blanks at the ends of lines, blank lines in a row, and what all lines are indented by."""
    first, _, rest = text.replace("\r\n", "\n").strip().partition("\n")
    whole = f"{first}\n{textwrap.dedent(rest)}" if rest else first
    shorter = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+(?=\n|\Z)", "", whole))
    return shorter if len(shorter) < len(text.replace("\r\n", "\n")) else ""


def _joined(before: str, after: str) -> str:
    before, after = before.rstrip(f" \t\n,;:([{_DASHES}"), after.lstrip(" .")
    if before and before[-1] not in ".!?" and (not after or not after.startswith("\n")):
        before += "."
    return f"{before} {after}".strip() if after[:1] != "\n" else before + after


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _plain(text: str) -> str:
    # Two texts that differ in case, blanks and marks alone say the same.
    return "".join(re.findall(r"\w+", text.replace("_", " ").casefold()))
