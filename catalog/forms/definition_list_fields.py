"""A form for many pasted tools, which shows the line of each fault."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.tools import definition_import
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError, printable
from people.forms import OperationForm
from protocols import definition

# Forms of pages have at most 1 MB, like REST bodies.
MAX_BYTES = 900_000
MAX_FAULTS_SHOWN = 50
_PATH = re.compile(r"tools\.(\d+)(?:\.(.*))?", re.DOTALL)
_AT = re.compile(r"at char (\d+)")


@dataclass(frozen=True, slots=True)
class PastedToolFault:
    """A fault in a pasted tool.

    tool: its position, from 1. member: the path within the tool, "" for the tool itself.
    """

    tool: int
    name: str
    line: int | None
    member: str
    message: str


class DefinitionListForm(OperationForm):
    # Without a maximum length, because a browser would silently truncate the pasted text.
    text = forms.CharField(
        strip=False,
        label=gettext_lazy("Tools, as JSON"),
        help_text=gettext_lazy(
            "A JSON array. Each tool has name, description, inputs and output, and optionally title and "
            "activity, or it has the format of the Tool System. A schema of calls is accepted too."
        ),
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "mono"}),
        error_messages={"required": gettext_lazy("Paste the tools first.")},
    )
    faults: tuple[PastedToolFault, ...] = ()

    @property
    def more(self) -> int:
        """The number of faults that are not shown."""
        return max(0, len(self.faults) - MAX_FAULTS_SHOWN)

    @property
    def faults_shown(self) -> tuple[PastedToolFault, ...]:
        return self.faults[:MAX_FAULTS_SHOWN]

    def document(self) -> Any:
        """Parse the text of the valid form. Raises DomainError."""
        text = self.cleaned_data["text"].encode(errors="surrogatepass")
        if len(text) > MAX_BYTES:
            message = _(
                "The text has {size} bytes. The limit is {maximum}. Define the tools in parts."
            ).format(
                size=number_format(len(text), force_grouping=True),
                maximum=number_format(MAX_BYTES, force_grouping=True),
            )
            raise DomainError("too_large", message, fields={"text": message})
        try:
            return strict_json.loads(text)
        except ProtocolViolationError as error:
            message = str(error).replace("The reply", "This")
            pasted = self.cleaned_data["text"]
            message = _AT.sub(
                lambda at: _("in line {number}").format(number=pasted[: int(at[1])].count("\n") + 1), message
            )
            raise invalid(text=message) from None

    def refuse_all(self, error: DomainError, document: Any) -> None:
        """Show the faults of an error by tool and line."""
        faults = [
            (int(match[1]), match[2] or "", message)
            for path, message in error.fields.items()
            if (match := _PATH.fullmatch(path))
        ]
        if not faults:
            self.add_error("text", " ".join(dict.fromkeys(error.fields.values())) or error.message)
            return
        tools = definition_import.tools_in(document)
        path: tuple[str, ...] = ()
        if definition_import.is_composed(document):
            path = (
                ("calls", "items", "anyOf") if "anyOf" in document["calls"]["items"] else ("calls", "items")
            )
        elif isinstance(document, dict):
            path = ("tools",)
        lines = dict(enumerate(lines_of(self.cleaned_data["text"], path)))
        self.faults = tuple(
            PastedToolFault(index + 1, name_of(tools[index]), lines.get(index), member, message)
            for index, member, message in sorted(faults, key=lambda fault: fault[0])
        )


def name_of(tool: Any) -> str:
    """Return the name of a tool in either format, or "" without one."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if definition.is_document(tool):
        name = definition.name_in(tool)
    return printable(name, 64) if isinstance(name, str) else ""


def lines_of(text: str, path: tuple[str, ...]) -> Iterator[int]:
    """Yield the line of each item of the array at `path`. The text is valid JSON."""
    decoder, offset = json.JSONDecoder(), _skip_separators(text, 0)
    for member in path:
        offset = _skip_separators(text, offset + 1)
        while text[offset] != "}":
            name, offset = decoder.raw_decode(text, offset)
            offset = _skip_separators(text, offset)
            if name == member:
                break
            _unused, offset = decoder.raw_decode(text, offset)
            offset = _skip_separators(text, offset)
    if text[offset] != "[":
        yield text.count("\n", 0, offset) + 1
        return
    line, counted_to, offset = 1, 0, _skip_separators(text, offset + 1)
    while text[offset] != "]":
        line, counted_to = line + text.count("\n", counted_to, offset), offset
        yield line
        _unused, offset = decoder.raw_decode(text, offset)
        offset = _skip_separators(text, offset)


def _skip_separators(text: str, offset: int) -> int:
    """Return the offset of the next character that is not white space, a comma or a colon."""
    while text[offset] in " \t\r\n,:\ufeff":
        offset += 1
    return offset
