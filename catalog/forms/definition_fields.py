"""A tool as a person defines it: rows for its inputs and outputs, or the whole as JSON.

The page carries the form that its rows were drawn from, in `document`. What was typed into a row is laid over
that, so that whatever no row shows is still there when it is saved.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.http import QueryDict

from catalog.models import Activity
from catalog.tools import definitions
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import rows
from core.schema.rows import KINDS, Row, RowError
from people.forms import OperationForm
from protocols import definition
from protocols.base import UnreadableItemError
from protocols.definition import Parts

MAX_JSON_LENGTH = 1_000_000
SPARE, MORE, MAX_ROWS = 2, 3, 1_000
DECIDED_ELSEWHERE = "-"
BLANK = Parts(
    "",
    "",
    "",
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {}},
)
# The name that a definition without one is read under.
_UNNAMED = "unnamed"
SIDES = ("inputs", "output")


class RowForm(forms.Form):
    """One input, or one member of what comes back. `kept` is what it was, with the name it had."""

    name = forms.CharField(max_length=200, required=False)
    kind = forms.ChoiceField(choices=[], label="Kind of value")
    description = forms.CharField(
        max_length=4_000, required=False, widget=forms.Textarea(attrs={"rows": 1}), label="What it means"
    )
    is_required = forms.BooleanField(required=False, label="Required")
    values = forms.CharField(
        max_length=20_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        label="Values, one on a line",
    )
    default = forms.CharField(
        max_length=4_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 1}),
        label="If nothing is given",
    )

    def __init__(self, *args: Any, kept: tuple[str, Any] | None = None, **kwargs: Any) -> None:
        kwargs["label_suffix"] = ""
        super().__init__(*args, **kwargs)
        self.kept = kept
        is_other = kept is not None and rows.kind_of(kept[1]) == "other"
        cast(forms.ChoiceField, self.fields["kind"]).choices = [
            (kind, word) for kind, word in KINDS.items() if kind != "other" or is_other
        ]
        # Only what a browser changes counts, so that a row of which nothing is typed is none.
        self.fields["kind"].initial = "text"

    @property
    def other(self) -> Any:
        """The whole schema of what a row cannot show."""
        return self.kept[1] if self.kept and rows.kind_of(self.kept[1]) == "other" else None

    @property
    def beside(self) -> list[str]:
        """What else it says: one short text for each keyword."""
        if self.kept is None or self.other is not None:
            return []
        said = rows.beside(self.kept[1])
        return [f"{keyword}: {json.dumps(value, ensure_ascii=False)}" for keyword, value in said.items()]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        row = self.row(given)
        if not row.name:
            if row.description or row.values or row.default:
                self.add_error("name", "Give it a name, or empty the whole row.")
            return given
        if row.name.startswith("_"):
            said = "A name that begins with an underscore belongs to the Tool System. Choose another one."
            self.add_error("name", said)
        if row.kind == "choice" and not row.values:
            self.add_error("values", "List the values, one on a line.")
        try:
            rows.schema_of(row, self.kept[1] if self.kept else None)
        except RowError as error:
            self.add_error("default", str(error))
        return given

    def row(self, given: Mapping[str, Any]) -> Row:
        text = {name: str(given.get(name) or "").replace("\r\n", "\n").strip() for name in self.fields}
        kind: Any = text["kind"] or "text"
        listed = dict.fromkeys(line.strip() for line in text["values"].splitlines() if line.strip())
        return Row(
            name=text["name"],
            kind=kind,
            description=text["description"],
            is_required=bool(given.get("is_required")),
            values=tuple(listed) if kind == "choice" else (),
            default=text["default"],
        )


class _Rows(BaseFormSet):  # type: ignore[type-arg] # not generic at run time
    """`schema` is what the rows were drawn from."""

    def __init__(self, *args: Any, schema: Mapping[str, Any], **kwargs: Any) -> None:
        self.schema = schema
        self.members = list((schema.get("properties") or {}).items())
        kwargs["initial"] = [_initial(row) for row in rows.rows_of(schema)]
        super().__init__(*args, **kwargs)
        self.extra = SPARE

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        kept = self.members[index] if index is not None and index < len(self.members) else None
        return {**super().get_form_kwargs(index), "kept": kept}

    def clean(self) -> None:
        seen: set[str] = set()
        for form in self.forms:
            name = form.cleaned_data.get("name", "").strip() if form.is_valid() else ""
            if name and name in seen:
                form.add_error("name", f"There is another “{printable(name, 60)}” above.")
            seen.add(name)

    def written(self) -> dict[str, Any]:
        """The schema with what was typed. The rows are valid."""
        typed = [(form.row(form.cleaned_data), form.kept) for form in self.forms]
        return rows.rewritten(
            self.schema, [(row, kept[0] if kept else None) for row, kept in typed if row.name]
        )


RowFormSet: Any = formset_factory(
    RowForm, formset=_Rows, extra=SPARE, max_num=MAX_ROWS, absolute_max=MAX_ROWS + MORE
)


def _initial(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "description": row.description,
        "is_required": row.is_required,
        "values": "\n".join(row.values),
        "default": row.default,
    }


class DefinitionForm(OperationForm):
    """What a tool says of itself. Beside it: the rows of its `inputs` and of its `output`."""

    name = forms.CharField(
        max_length=64,
        help_text="Letters, digits, hyphens and underscores, such as send_email.",
    )
    title = forms.CharField(
        max_length=definitions.MAX_TITLE_LENGTH,
        required=False,
        help_text="For people, such as “Send an e-mail”.",
    )
    description = forms.CharField(
        max_length=definitions.MAX_DESCRIPTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What it does, and when to use it. A model chooses the tool by these words.",
    )
    activity = forms.ChoiceField(required=False, label="Who answers a call")

    def __init__(self, data: QueryDict | None, *, parts: Parts) -> None:
        shown = DECIDED_ELSEWHERE if parts.activity is None else parts.activity
        initial = {"name": parts.name, "title": parts.title, "description": parts.description}
        super().__init__(data, initial={**initial, "activity": shown})
        named = Activity.objects.shared().order_by("name").values_list("name", flat=True)
        choices = [
            (DECIDED_ELSEWHERE, "Decided in the environments of each agent"),
            ("", "The model itself writes the output"),
            *((name, f"The activity “{name}”") for name in named),
        ]
        if parts.activity and parts.activity not in dict(choices):
            choices.append((parts.activity, f"The activity “{parts.activity}”, which is not there"))
        cast(forms.ChoiceField, self.fields["activity"]).choices = choices

    def field_for(self, path: str) -> str:
        return path.removeprefix("definition.")


class JsonForm(OperationForm):
    document = forms.CharField(
        max_length=MAX_JSON_LENGTH,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "mono"}),
        label="The whole definition",
        help_text="In the form of the Tool System: properties with an underscore are its own, all others are "
        "inputs.",
    )


def text_of(parts: Parts) -> str:
    return json.dumps(definition.document_of(parts), ensure_ascii=False, indent=2)


def parts_in(text: str) -> Parts:
    """Raises DomainError with a sentence for `document`."""
    try:
        given = strict_json.loads(text.encode(errors="surrogatepass"))
    except ProtocolViolationError as error:
        raise invalid(document=str(error).replace("The reply", "This")) from None
    try:
        return _read(given)
    except UnreadableItemError as error:
        raise invalid(document=error.reason) from None


def _read(given: Any) -> Parts:
    # A definition that has no name yet is shown in rows as well, where one is asked for.
    named = given.get("properties", {}).get(definition.TOOL) if isinstance(given, dict) else None
    if isinstance(named, dict) and named.get("const") == "":
        properties = {**given["properties"], definition.TOOL: {**named, "const": _UNNAMED}}
        return replace(definition.parts_of({**given, "properties": properties}), name="")
    if not isinstance(given, dict):
        raise UnreadableItemError("SHAPE", "A definition is an object, in braces.")
    return definition.parts_of(given)


class Editor:
    """One page on which a definition is written: rows, or JSON.

    `act` is the button that was pressed: it saves, shows the other of the two, or makes room for more rows.
    """

    def __init__(self, data: QueryDict | None, parts: Parts, *, is_json: bool = False) -> None:
        self.act = data.get("act", "save") if data else ""
        self.is_json = data.get("view") == "json" if data else is_json
        self.base = parts
        self.faults: dict[str, str] = {}
        if data is not None and not self.is_json:
            self.base = self._base(data, parts)
        self._draw(data)

    def _base(self, data: QueryDict, parts: Parts) -> Parts:
        try:
            return parts_in(data.get("document", ""))
        except DomainError:
            # Another page than ours has sent it.
            return parts

    def _draw(self, data: QueryDict | None) -> None:
        self.json = JsonForm(data if self.is_json else None, initial={"document": text_of(self.base)})
        self.form = DefinitionForm(None if self.is_json else data, parts=self.base)
        schemas = {"inputs": self.base.inputs, "output": self.base.output}
        self.rows: dict[str, Any] = {
            side: RowFormSet(None if self.is_json else data, prefix=side, schema=schema)
            for side, schema in schemas.items()
            if rows.is_in_rows(schema)
        }

    @property
    def head(self) -> OperationForm:
        return self.json if self.is_json else self.form

    @property
    def document(self) -> str:
        return text_of(self.base)

    @property
    def output_json(self) -> str:
        """Of an output that is no object, which no rows can show."""
        return "" if "output" in self.rows else json.dumps(self.base.output, ensure_ascii=False, indent=2)

    def sides(self) -> Iterator[tuple[str, Any, str]]:
        for side in SIDES:
            yield side, self.rows.get(side), self.faults.get(side, "")

    def typed(self) -> Parts | None:
        """What was typed; None where something has to be mended first, which is marked then."""
        if self.is_json:
            return self._typed_json()
        if not all(each.is_valid() for each in self.rows.values()):
            return None
        if self.act == "save" and not self.form.is_valid():
            return None
        self.form.is_valid()
        given: dict[str, Any] = {side: each.written() for side, each in self.rows.items()}
        for name in ("name", "title", "description"):
            given[name] = (self.form[name].value() or "").replace("\r\n", "\n").strip()
        chosen = self.form["activity"].value()
        return replace(self.base, **given, activity=None if chosen == DECIDED_ELSEWHERE else chosen)

    def _typed_json(self) -> Parts | None:
        if not self.json.is_valid():
            return None
        try:
            return parts_in(self.json.cleaned_data["document"])
        except DomainError as error:
            self.json.refuse(error)
            return None

    def refuse(self, error: DomainError) -> None:
        """What the operation refuses is shown where it was typed."""
        if self.is_json:
            fields = error.fields
            told = DomainError(error.code, " ".join(fields.values()) or error.message, status=error.status)
            self.json.refuse(error if not fields else told)
            return
        self.faults = {side: error.fields[side] for side in SIDES if side in error.fields}
        rest = {name: said for name, said in error.fields.items() if name not in SIDES}
        self.form.refuse(error if not self.faults else DomainError(error.code, error.message, fields=rest))

    def make_room(self, data: QueryDict, side: str) -> None:
        """More empty rows. Nothing that was typed is judged yet."""
        more = data.copy()
        name = f"{side}-TOTAL_FORMS"
        text = more.get(name, "0")
        count = min(int(text) if text.isdecimal() and len(text) < 6 else 0, MAX_ROWS)
        more[name] = str(count + MORE)
        for number in range(count, count + MORE):
            more[f"{side}-{number}-kind"] = "text"
        self._draw(more)
        for each in (self.form, *(form for shown in self.rows.values() for form in shown.forms)):
            each.errors.clear()
