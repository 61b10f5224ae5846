"""A form for a tool definition: rows for its inputs and outputs, or the whole definition as JSON.

The hidden field `document` contains the definition from which the page was rendered. The rows change that
definition, so that members without a row are saved unchanged.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Activity
from catalog.tools import definitions
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import rows, spelling
from core.schema.rows import KINDS, Row, RowError
from people.forms import OperationForm, form_field
from protocols import definition
from protocols.definition import Parts
from protocols.list_pages import UnreadableItemError

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
# A temporary name with which a definition without a name is parsed.
_UNNAMED = "unnamed"
SIDES = ("inputs", "output")


class RowForm(forms.Form):
    """A row for one input or output. `original`: its name and schema in the rendered definition."""

    name = forms.CharField(max_length=200, required=False)
    kind = forms.ChoiceField(choices=[], label=gettext_lazy("Kind of value"))
    description = forms.CharField(
        max_length=4_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 1}),
        label=gettext_lazy("What it means"),
    )
    is_required = forms.BooleanField(required=False, label=gettext_lazy("Required"))
    values = forms.CharField(
        max_length=20_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("Values, one on a line"),
    )
    default = forms.CharField(
        max_length=4_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 1}),
        label=gettext_lazy("Default value"),
    )

    def __init__(self, *args: Any, original: tuple[str, Any] | None = None, **kwargs: Any) -> None:
        kwargs["label_suffix"] = ""
        super().__init__(*args, **kwargs)
        self.original = original
        is_other = original is not None and rows.kind_of(original[1]) == "other"
        cast(forms.ChoiceField, self.fields["kind"]).choices = [
            (kind, _(word)) for kind, word in KINDS.items() if kind != "other" or is_other
        ]
        # Only changes in the browser count, so that a row without entries is empty.
        self.fields["kind"].initial = "text"

    @property
    def other(self) -> Any:
        """The schema of a row that the fields cannot represent, else None."""
        return self.original[1] if self.original and rows.kind_of(self.original[1]) == "other" else None

    @property
    def other_keywords(self) -> list[str]:
        """A short text for each keyword of the schema that no field represents."""
        if self.original is None or self.other is not None:
            return []
        keywords = rows.beside(self.original[1])
        return [f"{keyword}: {json.dumps(value, ensure_ascii=False)}" for keyword, value in keywords.items()]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        row = self.row(cleaned)
        if not row.name:
            if row.description or row.values or row.default:
                self.add_error("name", _("Enter a name, or clear the whole row."))
            return cleaned
        if row.name.startswith("_"):
            message = _(
                "A name that begins with an underscore belongs to the Tool System. Choose another one."
            )
            self.add_error("name", message)
        if row.kind == "choice" and not row.values:
            self.add_error("values", _("List the values, one on a line."))
        try:
            rows.schema_of(row, self.original[1] if self.original else None)
        except RowError as error:
            self.add_error("default", str(error))
        return cleaned

    def row(self, values: Mapping[str, Any]) -> Row:
        text = {name: str(values.get(name) or "").replace("\r\n", "\n").strip() for name in self.fields}
        kind: Any = text["kind"] or "text"
        allowed_values = dict.fromkeys(line.strip() for line in text["values"].splitlines() if line.strip())
        return Row(
            name=text["name"],
            kind=kind,
            description=text["description"],
            is_required=bool(values.get("is_required")),
            values=tuple(allowed_values) if kind == "choice" else (),
            default=text["default"],
        )


class _Rows(BaseFormSet):  # type: ignore[type-arg] # not generic at run time
    """The rows of one schema."""

    def __init__(self, *args: Any, schema: Mapping[str, Any], **kwargs: Any) -> None:
        self.schema = schema
        self.members = list(spelling.properties_of(schema).items())
        kwargs["initial"] = [{**asdict(row), "values": "\n".join(row.values)} for row in rows.rows_of(schema)]
        super().__init__(*args, **kwargs)
        self.extra = SPARE

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        original = self.members[index] if index is not None and index < len(self.members) else None
        return {**super().get_form_kwargs(index), "original": original}

    def clean(self) -> None:
        names: set[str] = set()
        for form in self.forms:
            name = form.cleaned_data.get("name", "").strip() if form.is_valid() else ""
            if name and name in names:
                form.add_error(
                    "name", _("A row above has the name “{name}” too.").format(name=printable(name, 60))
                )
            names.add(name)

    def changed_schema(self) -> dict[str, Any]:
        """Return the schema with the entries of the rows, which must be valid."""
        entries = [(form.row(form.cleaned_data), form.original) for form in self.forms]
        return rows.rewritten(
            self.schema, [(row, original[0] if original else None) for row, original in entries if row.name]
        )


RowFormSet: Any = formset_factory(
    RowForm, formset=_Rows, extra=SPARE, max_num=MAX_ROWS, absolute_max=MAX_ROWS + MORE
)


class DefinitionForm(OperationForm):
    """The fields of a tool that are not in the rows of its inputs and outputs."""

    name = form_field(definitions.NAME)
    title = form_field(definitions.TITLE)
    description = form_field(definitions.DESCRIPTION, widget=forms.Textarea(attrs={"rows": 3}))
    activity = forms.ChoiceField(required=False, label=gettext_lazy("Implementation"))

    def __init__(self, data: QueryDict | None, *, parts: Parts) -> None:
        selected_activity = DECIDED_ELSEWHERE if parts.activity is None else parts.activity
        initial = {"name": parts.name, "title": parts.title, "description": parts.description}
        super().__init__(data, initial={**initial, "activity": selected_activity})
        activity_names = Activity.objects.shared().order_by("name").values_list("name", flat=True)
        choices = [
            (DECIDED_ELSEWHERE, _("Decided in the environments of each agent")),
            ("", _("The model itself writes the output")),
            *((name, _("The implementation “{name}”").format(name=name)) for name in activity_names),
        ]
        if parts.activity and parts.activity not in dict(choices):
            choices.append(
                (
                    parts.activity,
                    _("The implementation “{activity}”, which does not exist").format(
                        activity=parts.activity
                    ),
                )
            )
        cast(forms.ChoiceField, self.fields["activity"]).choices = choices

    def field_for(self, path: str) -> str:
        return path.removeprefix("definition.")


class JsonForm(OperationForm):
    document = forms.CharField(
        max_length=MAX_JSON_LENGTH,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "mono"}),
        label=gettext_lazy("The whole definition"),
        help_text=gettext_lazy(
            "In the format of the Tool System: properties that begin with an underscore belong to it, "
            "all others are inputs."
        ),
    )


def text_of(parts: Parts) -> str:
    return json.dumps(definition.document_of(parts), ensure_ascii=False, indent=2)


def parts_in(text: str) -> Parts:
    """Parse a definition. Raises DomainError for the field `document`."""
    try:
        document = strict_json.loads(text.encode(errors="surrogatepass"))
    except ProtocolViolationError as error:
        raise invalid(document=str(error).replace("The reply", "This")) from None
    try:
        if not isinstance(document, dict):
            raise UnreadableItemError("SHAPE", _("A definition must be a JSON object, in braces."))
        # The page also shows a definition without a name, which only a saved definition needs.
        if definition.name_in(document) == "":
            return replace(definition.parts_of(definition.with_name(document, _UNNAMED)), name="")
        return definition.parts_of(document)
    except UnreadableItemError as error:
        raise invalid(document=error.reason) from None


class Editor:
    """The page for one definition, with rows or JSON.

    act: the pressed button. It saves, switches between rows and JSON, or adds empty rows.
    """

    def __init__(self, data: QueryDict | None, parts: Parts, *, is_json: bool = False) -> None:
        self.act = data.get("act", "save") if data else ""
        self.is_json = data.get("view") == "json" if data else is_json
        self.base = parts
        self.faults: dict[str, str] = {}
        if data is not None and not self.is_json:
            # The page sends only valid documents. Another client's invalid one is ignored.
            with suppress(DomainError):
                self.base = parts_in(data.get("document", ""))
        self._build_forms(data)

    def _build_forms(self, data: QueryDict | None) -> None:
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
        """The schema of an output that is not an object, which rows cannot represent, else ""."""
        return "" if "output" in self.rows else json.dumps(self.base.output, ensure_ascii=False, indent=2)

    def sides(self) -> Iterator[tuple[str, Any, str]]:
        for side in SIDES:
            yield side, self.rows.get(side), self.faults.get(side, "")

    def entered_parts(self) -> Parts | None:
        """Return the entered definition, or None after marking the fields that are invalid."""
        if self.is_json:
            if not self.json.is_valid():
                return None
            try:
                return parts_in(self.json.cleaned_data["document"])
            except DomainError as error:
                self.json.refuse(error)
                return None
        if not all(formset.is_valid() for formset in self.rows.values()):
            return None
        if self.act == "save" and not self.form.is_valid():
            return None
        self.form.is_valid()
        entries: dict[str, Any] = {side: formset.changed_schema() for side, formset in self.rows.items()}
        for name in ("name", "title", "description"):
            entries[name] = (self.form[name].value() or "").replace("\r\n", "\n").strip()
        activity = self.form["activity"].value()
        return replace(self.base, **entries, activity=None if activity == DECIDED_ELSEWHERE else activity)

    def refuse(self, error: DomainError) -> None:
        """Show an error of the operation at its fields."""
        if self.is_json:
            message = " ".join(error.fields.values()) or error.message
            self.json.refuse(DomainError(error.code, message, status=error.status) if error.fields else error)
            return
        self.faults = {side: error.fields[side] for side in SIDES if side in error.fields}
        others = {name: message for name, message in error.fields.items() if name not in SIDES}
        self.form.refuse(error if not self.faults else DomainError(error.code, error.message, fields=others))

    def make_room(self, data: QueryDict, side: str) -> None:
        """Add empty rows, without showing faults of the rows that exist."""
        more = data.copy()
        name = f"{side}-TOTAL_FORMS"
        text = more.get(name, "0")
        count = min(int(text) if text.isdecimal() and len(text) < 6 else 0, MAX_ROWS)
        more[name] = str(count + MORE)
        for number in range(count, count + MORE):
            more[f"{side}-{number}-kind"] = "text"
        self._build_forms(more)
        for form in (self.form, *(form for formset in self.rows.values() for form in formset.forms)):
            form.errors.clear()
