"""The form for a tool's tuned texts.

Each field starts with the effective text, so that an empty field is an error and never means the vendor's
text.
"""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from msgspec import UNSET

from catalog.models import ToolVersion
from catalog.rules.sensitive_values import MASK
from core import fitted_pages
from core.errors import DomainError
from designer.pins.tunings import MAX_TITLE_LENGTH
from designer.signatures import model_names
from designer.signatures.words import EFFECTS, Path, Words, from_members, members, of_vendor
from people.audit.edit_conflicts import Difference, LateEditError
from people.forms import OperationForm
from protocols.signature import AllowedValue, Parameter

# Bytes of a page for inputs, for outputs, and for the values of one input: 19 of 20 tools fit on one page.
# The other inputs and outputs have pages of their own; the other values are tuned over REST.
MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, MAX_VALUE_BYTES = 32_000, 11_000, 20_000
# Bytes of the markup of one row, and of the label of a choice.
INPUT_BYTES, OUTPUT_BYTES, VALUE_BYTES, CHOICE_BYTES = 2_300, 1_500, 800, 40
# A longer text is tuned over REST. The page repeats it for the button that restores it.
MAX_TEXT_BYTES = 4_000
# Bytes of all choices of one field. Otherwise the value is entered.
MAX_CHOICE_BYTES = 3_000
EFFECT_WORDS = {
    "read_only": (
        EFFECTS["read_only"],
        gettext_noop("It reads and changes nothing"),
        gettext_noop("It changes something"),
    ),
    "destructive": (
        EFFECTS["destructive"],
        gettext_noop("It may destroy something"),
        gettext_noop("It destroys nothing"),
    ),
    "idempotent": (
        EFFECTS["idempotent"],
        gettext_noop("Repeating a call has no further effect"),
        gettext_noop("Every call has an effect"),
    ),
}


@dataclass(frozen=True)
class TextLayers:
    """One text or choice: its field, the layer that is effective, and the layers below, from top to
    bottom.
    """

    field: BoundField
    source: str
    below: list[tuple[str, str]]
    is_ours: bool

    @property
    def beneath(self) -> str:
        """Return the effective value without the tuned one."""
        return self.below[0][1]


@dataclass(frozen=True)
class ValueRow:
    value: AllowedValue
    description: TextLayers
    hidden: TextLayers


@dataclass(frozen=True)
class ParameterRow:
    """One input or output.

    effective_description: the text that a model reads; `members` has none that is too long for a page.
    """

    parameter: Parameter
    members: dict[str, TextLayers]
    values: list[ValueRow]
    effective_description: str = ""
    more_values: int = 0

    @property
    def is_tuned(self) -> bool:
        all_members = [*self.members.values(), *(m for v in self.values for m in (v.description, v.hidden))]
        return any(member.is_ours for member in all_members)

    @property
    def is_hidden(self) -> bool:
        return bool(self.members["hidden"].field.value())

    @property
    def is_faulty(self) -> bool:
        all_members = [*self.members.values(), *(m for v in self.values for m in (v.description, v.hidden))]
        return any(member.field.errors for member in all_members)


class WordsForm(OperationForm):
    """The form of a tool's tuned texts.

    words, below: as people see them; a masked preset that is sent back stands for the stored one.

    below: the tuned texts for all agents, if this form edits those of one agent.
    pages: the numbers of the first input and of the first output that the form shows, as a user may have
    typed them. Texts of the others stay.
    """

    version = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,
        version: ToolVersion,
        words: Words,
        below: Words | None = None,
        pages: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.signature = version.decoded()
        self.ordinal = version.ordinal
        self.vendor = of_vendor(self.signature)
        self.catalog = members(below) if below is not None else {}
        self.inherited = self.vendor | self.catalog
        self.own = members(words)
        self.is_of_an_agent = below is not None
        self.inputs = {parameter.name: parameter for parameter in self.signature.inputs}
        effective = self.inherited | self.own
        self._effective_texts = effective
        numbers = pages or {}
        self.inputs_page = fitted_pages.fitted_page_of(
            list(enumerate(self.signature.inputs)),
            str(numbers.get("inputs", "")),
            count_bytes=lambda row: (
                INPUT_BYTES
                + self._count_text_bytes(row[1], "parameters")
                + _count_bytes_of_values(row[1].allowed_values)
            ),
            max_bytes=MAX_INPUT_BYTES,
            name="inputs",
        )
        self.outputs_page = fitted_pages.fitted_page_of(
            list(enumerate(self.signature.outputs)),
            str(numbers.get("outputs", "")),
            count_bytes=lambda row: OUTPUT_BYTES + self._count_text_bytes(row[1], "outputs"),
            max_bytes=MAX_OUTPUT_BYTES,
            name="outputs",
        )
        self.paths = dict(self._named_paths())
        initial = {name: self._field_value(path, effective[path]) for name, path in self.paths.items()}
        super().__init__(*args, initial={"version": version.ordinal, **initial}, **kwargs)
        for name, path in self.paths.items():
            self.fields[name] = self._build_field(path, initial[name])

    def _named_paths(self) -> Iterator[tuple[str, Path]]:
        # A field's name consists of its kind and the input's index, because vendors' names may be anything.
        yield "title", ("title",)
        yield "description", ("description",)
        for effect in EFFECTS:
            yield f"effect-{effect}", ("effects", effect)
        for index, parameter in self.inputs_page:
            for kind in ("description", "name", "hidden", "preset"):
                path: Path = ("parameters", parameter.name, kind)
                if self._fits_field(path):
                    yield f"{kind}-{index}", path
        for index, output in self.outputs_page:
            for kind in ("description", "hidden"):
                path = ("outputs", output.name, kind)
                if self._fits_field(path):
                    yield f"output-{kind}-{index}", path
        yield from self._paths_of_values()

    def _paths_of_values(self) -> Iterator[tuple[str, Path]]:
        for index, parameter in self.inputs_page:
            value_bytes = 0
            for value_index, value in enumerate(parameter.allowed_values):
                value_bytes += _count_value_bytes(value)
                if value_bytes > MAX_VALUE_BYTES:
                    break
                for kind in ("description", "hidden"):
                    path = ("parameters", parameter.name, "values", value.name, kind)
                    yield f"value-{kind}-{index}-{value_index}", path

    def page_query(self) -> dict[str, str]:
        """Return the query of the page with these inputs and outputs."""
        pages = (self.inputs_page, self.outputs_page)
        return {page.name: str(page.first) for page in pages if page.first > 1}

    def _fits_field(self, path: Path) -> bool:
        return path[-1] != "description" or _count_bytes(self._effective_texts[path]) <= MAX_TEXT_BYTES

    def _count_text_bytes(self, parameter: Parameter, side: str) -> int:
        length = _count_bytes(self._effective_texts[side, parameter.name, "description"])
        return min(3 * length, 3 * MAX_TEXT_BYTES)

    def _build_field(self, path: Path, current_value: Any) -> forms.Field:
        kind, subject = path[-1], path[-2] if len(path) > 1 else ""
        if path[0] == "effects":
            label, yes, no = map(_, EFFECT_WORDS[kind])
            inherited_value = self.inherited[path]
            choice_text = _("nothing") if inherited_value is None else f"“{yes if inherited_value else no}”"
            layer_text = _("Your text (all agents)") if path in self.catalog else _("Vendor text")
            choices = [("", f"{layer_text} {choice_text}"), ("true", yes), ("false", no)]
            return forms.ChoiceField(choices=choices, required=False, label=label)
        if kind == "hidden":
            label = (
                _("Remove from the result of a call") if path[0] == "outputs" else _("Hide from the model")
            )
            label = _("Hide {subject}").format(subject=subject) if "values" in path[2:3] else label
            return forms.BooleanField(required=False, label=label)
        if kind == "preset":
            return _preset_field(self.inputs[path[1]], current_value)
        label = {"title": _("Title"), "name": _("Name that the model reads")}.get(
            kind, _("Description of {subject}").format(subject=subject)
        )
        # One line that grows, because most texts of an input are short.
        attrs: dict[str, Any] = {"rows": 4 if len(path) == 1 else 1, "data-counted": ""}
        if kind == "title":
            counted = forms.TextInput(attrs={"data-counted": ""})
            return forms.CharField(
                strip=False, required=False, label=label, max_length=MAX_TITLE_LENGTH, widget=counted
            )
        if kind == "name":
            attrs = {"autocomplete": "off", "spellcheck": "false", "class": "mono"}
            return forms.CharField(
                required=False,
                label=label,
                max_length=model_names.MAX_LENGTH,
                widget=forms.TextInput(attrs=attrs),
            )
        if len(path) == 1:
            label = _("Description")
        return forms.CharField(strip=False, required=False, label=label, widget=forms.Textarea(attrs=attrs))

    def member(self, name: str) -> TextLayers:
        path = self.paths[name]
        below = [(_("Vendor text"), self._display_value(path, self.vendor[path]))]
        source = _("Vendor text")
        if path in self.catalog:
            source = _("Your text (all agents)")
            below.insert(0, (source, self._display_value(path, self.catalog[path])))
        if path in self.own:
            source = _("Your text (this agent)") if self.is_of_an_agent else _("Your text (all agents)")
        return TextLayers(self[name], source, below, is_ours=path in self.own)

    def _display_value(self, path: Path, value: Any) -> str:
        if path[0] == "effects":
            return "" if value is None else _(EFFECT_WORDS[path[1]][1 if value else 2])
        if path[-1] == "hidden":
            return _("Hidden") if value else _("Visible")
        return str(self._field_value(path, value))

    # Named unlike the fields, because a template would find those first.
    @property
    def tool_title(self) -> TextLayers:
        return self.member("title")

    @property
    def tool_description(self) -> TextLayers:
        return self.member("description")

    def effects(self) -> list[TextLayers]:
        return [self.member(f"effect-{effect}") for effect in EFFECTS]

    @property
    def effects_say(self) -> str:
        effective = self.inherited | self.own
        sentences = [
            _(EFFECT_WORDS[effect][1 if effective["effects", effect] else 2])
            for effect in EFFECTS
            if effective["effects", effect] is not None
        ]
        return _(". ").join(sentences) or _("Not stated")

    def rows(self) -> list[ParameterRow]:
        parameter_rows = []
        for index, parameter in self.inputs_page:
            values = [
                ValueRow(
                    value,
                    self.member(f"value-description-{index}-{value_index}"),
                    self.member(f"value-hidden-{index}-{value_index}"),
                )
                for value_index, value in enumerate(parameter.allowed_values)
                if f"value-hidden-{index}-{value_index}" in self.paths
            ]
            parameter_rows.append(
                ParameterRow(
                    parameter,
                    {
                        kind: self.member(f"{kind}-{index}")
                        for kind in ("description", "name", "hidden", "preset")
                        if f"{kind}-{index}" in self.paths
                    },
                    values,
                    self._description_of(f"description-{index}", ("parameters", parameter.name)),
                    len(parameter.allowed_values) - len(values),
                )
            )
        return parameter_rows

    def outputs(self) -> list[ParameterRow]:
        return [
            ParameterRow(
                output,
                {
                    kind: self.member(f"output-{kind}-{index}")
                    for kind in ("description", "hidden")
                    if f"output-{kind}-{index}" in self.paths
                },
                [],
                self._description_of(f"output-description-{index}", ("outputs", output.name)),
            )
            for index, output in self.outputs_page
        ]

    def _description_of(self, name: str, path: Path) -> str:
        # As it was entered, where the page has a field for it.
        value = self[name].value() if name in self.paths else self._effective_texts[*path, "description"]
        return str(value or "")

    @property
    def are_effects_tuned(self) -> bool:
        return any(path[0] == "effects" for path in self.own)

    def clean_version(self) -> int:
        version: int = self.cleaned_data["version"]
        # The texts were edited next to those of another version.
        if version != self.ordinal:
            raise forms.ValidationError(_("Another user has changed the version. Check the texts again."))
        return version

    def words(self) -> dict[str, Any]:
        """Return the arguments of `tunings.tune`: the texts that differ from the layer below."""
        on_page = set(self.paths.values())
        tuned = {
            # Texts without a field on the page are kept.
            path: value
            for path, value in self.own.items()
            if path in self.vendor and path not in on_page
        }
        for name, path in self.paths.items():
            entered = self.cleaned_data[name]
            # The page was opened before this field existed, so its text is kept.
            is_missing = name not in self.data and path[-1] != "hidden"
            # A masked preset equals the masked one below, whatever their values.
            if is_missing or (path[-1] == "preset" and entered == self.initial[name]):
                tuned |= {path: self.own[path]} if path in self.own else {}
            # An empty name restores the vendor's name.
            elif path[-1] == "name" and not entered:
                continue
            elif path[0] == "effects":
                if entered:
                    tuned[path] = entered == "true"
            elif path[-1] == "hidden":
                if entered != bool(self.inherited[path]):
                    tuned[path] = entered
            # A browser sends line ends as CR LF, which is not a difference.
            elif (text := entered.replace("\r\n", "\n")) != self._field_value(
                path, self.inherited[path]
            ).replace("\r\n", "\n"):
                value = _parse_value(self.inputs[path[1]], text) if path[-1] == "preset" else text
                if value is not UNSET:
                    tuned[path] = value
        document: dict[str, Any] = msgspec.to_builtins(from_members(tuned))
        return document

    def _field_value(self, path: Path, value: Any) -> Any:
        """Return the value in the field's form: a text unchanged, any other preset as JSON."""
        if path[0] == "effects":
            return {True: "true", False: "false", None: ""}[value if path in self.own else None]
        if path[-1] == "hidden":
            return bool(value)
        if value is UNSET or value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def field_for(self, path: str) -> str:
        names = {".".join(place): name for name, place in self.paths.items()}
        return names.get(path) or names.get(f"{path}.preset") or names.get(f"{path}.description") or path

    def field_value(self, name: str, value: object) -> object:
        # A field without a text of this layer shows the inherited one, which is effective.
        path = self.paths[name]
        if path[0] == "effects":
            return {True: "true", False: "false"}.get(bool(value), "") if value is not None else ""
        return self._field_value(path, self.inherited[path] if value is None else value)

    def late_rows(self) -> list[tuple[str, Difference]]:
        # The replaced vendor texts belong to the words; no user edits them.
        return [row for row in super().late_rows() if not row[1].path.startswith(("replaced", "against"))]

    def refuse(self, error: DomainError) -> None:
        if isinstance(error, LateEditError):
            super().refuse(error)
            return
        fields = {self.field_for(name): message for name, message in error.fields.items()}
        super().refuse(DomainError(error.code, error.message, fields=fields, status=error.status))


def _preset_field(parameter: Parameter, now: str) -> forms.Field:
    label = _("Value to send")
    if parameter.type == "boolean":
        offered = [("true", _("Yes")), ("false", _("No"))]
    elif parameter.type in ("enum", "string") and parameter.allowed_values:
        offered = [(value.name, value.name) for value in parameter.allowed_values]
    else:
        return forms.CharField(strip=False, required=False, label=label)
    if sum(_count_bytes(value) + CHOICE_BYTES for value, _ in offered) > MAX_CHOICE_BYTES:
        return forms.CharField(strip=False, required=False, label=label)
    # A value from another version remains a choice.
    if now and now not in dict(offered):
        is_masked = now == MASK
        other = now if is_masked else _("{value} (not accepted by this version)").format(value=now)
        offered.append((now, other))
    wrong = _("“{name}” must be one of: {choices}.").format(
        name=parameter.name, choices=", ".join((value for value, _ in offered))
    )
    return forms.ChoiceField(
        choices=[("", _("None")), *offered],
        required=False,
        label=label,
        error_messages={"invalid_choice": wrong},
    )


def _count_bytes(text: str) -> int:
    return len(html.escape(text).encode())


def _count_bytes_of_values(values: Sequence[AllowedValue]) -> int:
    # Longer lists are cut, and a schema may repeat one with thousands of values at each input.
    first_values = values[: MAX_VALUE_BYTES // VALUE_BYTES + 1]
    return min(MAX_VALUE_BYTES, sum(map(_count_value_bytes, first_values)))


def _count_value_bytes(value: AllowedValue) -> int:
    return VALUE_BYTES + 4 * _count_bytes(value.name) + 2 * _count_bytes(value.description)


def _parse_value(parameter: Parameter, entered_text: str) -> Any:
    # Converts the entered text to the input's type. A text that cannot be converted is refused by the rules.
    if not entered_text:
        return UNSET
    if parameter.type in ("string", "enum"):
        return entered_text
    try:
        return json.loads(entered_text)
    except ValueError:
        return entered_text
