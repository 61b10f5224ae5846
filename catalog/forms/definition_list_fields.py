"""Many tools as a designer pastes them, and where in that text each fault is."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms

from catalog.tools import definition_import
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError, printable
from people.forms import OperationForm
from protocols.definition import TOOL

# A form of a page has at most 1 MB, as a body of REST has.
MAX_BYTES = 900_000
MAX_FAULTS_SHOWN = 50
_PLACE = re.compile(r"tools\.(\d+)(?:\.(.*))?", re.DOTALL)
_AT = re.compile(r"at char (\d+)")


@dataclass(frozen=True, slots=True)
class Fault:
    """`tool` is its number, from 1; `member` is empty where the tool as a whole is meant."""

    tool: int
    name: str
    line: int | None
    member: str
    says: str


class DefinitionListForm(OperationForm):
    # No maximal length: a browser would cut off what is pasted, without a word.
    text = forms.CharField(
        strip=False,
        label="Tools, as JSON",
        help_text="An array in brackets. Each tool has name, description, inputs and output, and may have "
        "title and activity; or it is in the form of the Tool System. A schema of calls is taken as well.",
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "mono"}),
        error_messages={"required": "Paste the tools first."},
    )
    faults: tuple[Fault, ...] = ()

    @property
    def more(self) -> int:
        """How many faults are not shown."""
        return max(0, len(self.faults) - MAX_FAULTS_SHOWN)

    @property
    def faults_shown(self) -> tuple[Fault, ...]:
        return self.faults[:MAX_FAULTS_SHOWN]

    def document(self) -> Any:
        """Raises DomainError. The form is valid."""
        text = self.cleaned_data["text"].encode(errors="surrogatepass")
        if len(text) > MAX_BYTES:
            said = f"This has {len(text):,} bytes; {MAX_BYTES:,} are the most. Define the tools in parts."
            raise DomainError("too_large", said, fields={"text": said})
        try:
            return strict_json.loads(text)
        except ProtocolViolationError as error:
            said = str(error).replace("The reply", "This")
            raise invalid(text=_AT.sub(self._line_at, said)) from None

    def refuse_all(self, error: DomainError, document: Any) -> None:
        """What was refused is shown by tool and line."""
        found = [(match, said) for path, said in error.fields.items() if (match := _PLACE.fullmatch(path))]
        if not found:
            said = " ".join(dict.fromkeys(error.fields.values())) or error.message
            self.add_error("text", said)
            return
        tools = definition_import.listed(document)
        lines = dict(enumerate(lines_of(self.cleaned_data["text"], _way(document))))
        self.faults = tuple(
            Fault(number + 1, name_of(tools[number]), lines.get(number), member or "", said)
            for number, member, said in sorted(
                ((int(match[1]), match[2], said) for match, said in found), key=lambda each: each[0]
            )
        )

    def _line_at(self, match: re.Match[str]) -> str:
        before = self.cleaned_data["text"][: int(match[1])]
        return "in line " + str(before.count("\n") + 1)


def name_of(tool: Any) -> str:
    """What it calls itself, in either form; empty where it does not."""
    said = tool.get("name") if isinstance(tool, dict) else None
    if isinstance(tool, dict) and isinstance(properties := tool.get("properties"), dict):
        own = properties.get(TOOL)
        said = own.get("const") if isinstance(own, dict) else None
    return printable(said, 64) if isinstance(said, str) else ""


def lines_of(text: str, way: tuple[str, ...]) -> Iterator[int]:
    """In which line each item of the array begins to which these members lead. The text is valid JSON."""
    decoder, at = json.JSONDecoder(), _next(text, 0)
    for wanted in way:
        at = _next(text, at + 1)
        while text[at] != "}":
            name, at = decoder.raw_decode(text, at)
            at = _next(text, at)
            if name == wanted:
                break
            _, at = decoder.raw_decode(text, at)
            at = _next(text, at)
    if text[at] != "[":
        yield text.count("\n", 0, at) + 1
        return
    line, counted, at = 1, 0, _next(text, at + 1)
    while text[at] != "]":
        line, counted = line + text.count("\n", counted, at), at
        yield line
        _, at = decoder.raw_decode(text, at)
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    # Past blanks, and past the mark between two members or items.
    while text[at] in " \t\r\n,:\ufeff":
        at += 1
    return at


def _way(document: Any) -> tuple[str, ...]:
    if isinstance(document, list):
        return ()
    if not definition_import.is_composed(document):
        return ("tools",)
    return ("calls", "items", "anyOf") if "anyOf" in document["calls"]["items"] else ("calls", "items")
