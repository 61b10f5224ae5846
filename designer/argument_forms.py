"""A form made out of a signature: what a person types to run a tool, or to answer what a call asks."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.forms import BoundField
from msgspec.structs import replace

from catalog.calls import results
from catalog.models.calls import Asked
from catalog.templatetags.display import shown
from catalog.templatetags.signatures import limits
from core import strict_json
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import SchemaBoundsError, read_document, read_object, types
from core.schema.subschemas import DEFINITIONS
from people.forms import OperationForm
from protocols.calls import arguments, outcomes
from protocols.calls.arguments import TOGETHER
from protocols.signature import Parameter, Signature

# A longer list is scrolled through; typing and the check after it are quicker.
MAX_CHOICES = 200
MAX_INPUT_LENGTH = 256 * 1024
# A vendor's description may be a page; all of it stands on the tool's own page.
MAX_HINT_LENGTH = 600
MAX_LINE_LENGTH = 255  # characters that are typed on one line
JSON_FIELD = "json"
SETTINGS_PREFIX = "configuration"
NOT_GIVEN = object()

FORMAT_HINTS = {
    "date": "A date, such as 2027-03-09.",
    "time": "A time, such as 14:30:00Z.",
    "date-time": "A date and time, such as 2027-03-09T14:30:00Z.",
    "duration": "A duration, such as P3DT4H.",
    "email": "An e-mail address.",
    "uri": "An address, such as https://example.com/.",
    "uuid": "A UUID, such as 123e4567-e89b-42d3-a456-426614174000.",
    "byte": "Bytes in Base64.",
}
_NOTES = frozenset({"title", "description", "default", "examples"})
# What a list, and a text in it, may say of itself for a form to show all of it.
_OF_LISTS = _NOTES | {"type", "items", "minItems", "maxItems", "uniqueItems"}
_OF_TEXTS = _NOTES | {"type", "minLength", "maxLength", "format"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,400}")


class ArgumentsForm(OperationForm):
    """One field for each parameter, or all of them as one JSON object.

    Everything that is wrong is said at once, each at its field, and nothing typed is lost. `given` are
    values to begin with; what the fields would send otherwise than it came, such as an empty text, begins
    as JSON. Fields have numbers, because a vendor's names may be anything.
    """

    def __init__(
        self, *args: Any, signature: Signature, given: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.signature = signature
        self.inputs = resolve_inputs(signature)
        given = given or {}
        initial = {_field(n): _typed(p, given) for n, p in enumerate(self.inputs)}
        super().__init__(*args, initial=initial, **kwargs)
        for n, parameter in enumerate(self.inputs):
            self.fields[_field(n)] = _form_field(parameter, given)
        self.fields[JSON_FIELD] = forms.CharField(
            required=False,
            strip=False,
            max_length=MAX_INPUT_LENGTH,
            label="All inputs as one JSON object",
            help_text="If this holds anything, it counts instead of the fields above.",
            widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        )
        if given and not self._would_send(given):
            self.initial[JSON_FIELD] = json.dumps(given, ensure_ascii=False, indent=2)

    def _would_send(self, given: Mapping[str, Any]) -> bool:
        # Whether the fields, as a browser sends them untouched, come back as what was given.
        sent = {name: _as_sent(self.fields[name], value) for name, value in self.initial.items()}
        try:
            return canonical(self._read(sent)) == canonical(given)
        except ProtocolViolationError:
            return False

    @property
    def remark(self) -> str:
        """What the vendor asks for beyond what can be checked here."""
        return arguments.unchecked(self.signature)

    def rows(self) -> list[tuple[Parameter, BoundField, Any]]:
        """Each input with its field and, for JSON, the schema with the definitions that it refers to."""
        pairs = enumerate(zip(self.signature.inputs, self.inputs, strict=True))
        return [
            (parameter, self[_field(n)], None if _list_of_texts(resolved) else self._shape(parameter))
            for n, (parameter, resolved) in pairs
        ]

    def _shape(self, parameter: Parameter) -> Any:
        if parameter.type != "json" or not isinstance(parameter.schema, dict):
            return None
        rest = self.signature.schema_rest or {}
        refers = '"$ref"' in json.dumps(parameter.schema)
        # Only where the schema refers to them: they may be larger than all the rest.
        named = {keyword: rest[keyword] for keyword in DEFINITIONS if refers and keyword in rest}
        return parameter.schema | named

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self.arguments = (
            self._whole(cleaned) if cleaned.get(JSON_FIELD, "").strip() else self._by_field(cleaned)
        )
        if refusal := outcomes.refusal(self.signature, self.arguments):
            error = refusal.error or {}
            self.refuse(DomainError(error["code"], error["message"], fields=dict(error.get("fields", {}))))
        return cleaned

    def _by_field(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        typed = dict(cleaned)
        for n, parameter in enumerate(self.inputs):
            try:
                _value(parameter, typed.get(_field(n), ""))
            except ProtocolViolationError as error:
                self.add_error(_field(n), f"This is not JSON that can be read: {_about_input(error)}")
                # Its own error says enough; without the value the check does not complain a second time.
                typed.pop(_field(n))
        return self._read(typed)

    def _read(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        # Values by name. Raises ProtocolViolationError for what should be JSON and is not.
        values = {p.name: _value(p, typed.get(_field(n), "")) for n, p in enumerate(self.inputs)}
        return {name: value for name, value in values.items() if value is not NOT_GIVEN}

    def _whole(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        try:
            document = strict_json.loads(cleaned[JSON_FIELD].encode(errors="surrogatepass"))
        except ProtocolViolationError as error:
            self.add_error(JSON_FIELD, f"This is not JSON that can be read: {_about_input(error)}")
            return {}
        if isinstance(document, dict):
            return document
        self.add_error(JSON_FIELD, "Write one object: {…}.")
        return {}

    def refuse(self, error: DomainError) -> None:
        # Sentences about inputs go to their fields, unless a field has one of its own already.
        if not error.fields:
            self.add_error(None, error.message)
        if JSON_FIELD in self.errors:
            return
        if self.cleaned_data.get(JSON_FIELD, "").strip():
            for name, why in error.fields.items():
                self.add_error(JSON_FIELD, _sentence(name, why))
            return
        places = {parameter.name: _field(n) for n, parameter in enumerate(self.signature.inputs)}
        for name, why in error.fields.items():
            place = places.get(name)
            if place is None:
                self.add_error(None, _sentence(name, why))
            elif place not in self.errors:
                self.add_error(place, f"{why[:1].upper()}{why[1:].rstrip('.')}.")


class RunForm(ArgumentsForm):
    """The inputs of a run; the one that configures the tool has a form of its own, made of its schema.

    `settings_form` is that form, None for a tool without a configuration.
    """

    def __init__(
        self,
        *args: Any,
        signature: Signature,
        configuration: Parameter | None,
        given: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.configuration, self.settings_form = configuration, None
        values = dict(given or {})
        if configuration is not None:
            schema = configuration.schema if isinstance(configuration.schema, dict) else {}
            settings = values.pop(configuration.name, None)
            self.settings_form = ArgumentsForm(
                *args,
                signature=results.questions(Asked(configuration.name, "", schema)),
                prefix=SETTINGS_PREFIX,
                given=settings if isinstance(settings, dict) else None,
            )
            self.settings_form.fields[JSON_FIELD].label = "The configuration as one JSON object"
        super().__init__(*args, signature=signature, given=values, **kwargs)
        if given and JSON_FIELD in self.initial:
            self.initial[JSON_FIELD] = json.dumps(given, ensure_ascii=False, indent=2)

    def rows(self) -> list[tuple[Parameter, BoundField, Any]]:
        return [row for row in super().rows() if row[0] != self.configuration]

    def _read(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        values = super()._read(typed)
        form, parameter = self.settings_form, self.configuration
        if form is None or parameter is None or not form.is_bound:
            return values
        is_filled_in = any(each.data not in ("", None, []) for each in form)
        if not is_filled_in and not parameter.required:
            form.errors.clear()
        elif not form.is_valid():
            self.add_error(None, "The configuration cannot be used as it is. See its fields.")
        else:
            values[parameter.name] = results.answer_of(form.signature, form.arguments)
        return values

    def _whole(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        if self.settings_form is not None:
            self.settings_form.errors.clear()  # the JSON counts instead of its fields, too
        return super()._whole(cleaned)

    def refuse(self, error: DomainError) -> None:
        """Show what is wrong with the configuration in its own form, which has no field here."""
        fields = dict(error.fields)
        reason = fields.pop(self.configuration.name, "") if self.configuration else ""
        is_typed_as_json = bool(self.cleaned_data.get(JSON_FIELD, "").strip())
        if self.settings_form is None or not reason or is_typed_as_json:
            super().refuse(error)
            return
        if self.settings_form.is_valid():
            self.settings_form.add_error(None, f"The configuration {reason}.")
        if fields:
            super().refuse(DomainError(error.code, error.message, fields=fields))
        elif not self.errors:
            self.add_error(None, f"The configuration {reason}.")


class OutputsForm(ArgumentsForm):
    """The same for the outputs of a tool, as its output schema has them."""

    def __init__(self, *args: Any, signature: Signature, **kwargs: Any) -> None:
        outputs = Signature(
            name="outputs", description="", inputs=signature.outputs, schema_rest=signature.outputs_rest
        )
        super().__init__(*args, signature=outputs, **kwargs)
        self.fields[JSON_FIELD].label = "All outputs as one JSON object"


def any_inputs(signature: Signature) -> Signature:
    """Any of the inputs of a tool, without the rules that hold for all of them together."""
    rest = signature.schema_rest or {}
    kept = {keyword: rest[keyword] for keyword in ("$schema", *DEFINITIONS) if keyword in rest}
    return replace(
        signature,
        inputs=tuple(replace(each, required=False) for each in signature.inputs),
        schema_rest=kept or None,
    )


def resolve_inputs(signature: Signature) -> tuple[Parameter, ...]:
    """Return the inputs with the schemas that their references and combinations come to, one level deep.

    The entries of a list are resolved too. An input keeps its schema where no single one states all rules.
    """
    try:
        document = read_document(arguments.inputs_schema(signature))
    except SchemaBoundsError:
        return signature.inputs
    inputs = read_object(document, document.root)
    members = inputs.members if inputs else {}

    def resolve(parameter: Parameter) -> Parameter:
        member = members.get(parameter.name)
        schema = document.root if parameter.is_whole else member.schema if member else None
        if not isinstance(parameter.schema, dict) or schema is None:
            return parameter
        level = document.level(schema)
        resolved = dict(level.schema)
        if isinstance(items := resolved.get("items"), dict) and not document.level(items).apart:
            resolved["items"] = document.level(items).schema
        return parameter if level.apart else replace(parameter, schema=resolved)

    return tuple(map(resolve, signature.inputs))


def _sentence(name: str, why: str) -> str:
    who = "What you have entered" if name == TOGETHER else f"“{printable(name, 60)}”"
    return f"{who} {why}."


def _field(number: int) -> str:
    return f"input-{number}"


def _about_input(error: ProtocolViolationError) -> str:
    return error.message.replace("The reply is not JSON: ", "").replace("The reply", "it")


def _form_field(parameter: Parameter, given: Mapping[str, Any]) -> forms.Field:
    facts: dict[str, Any] = {
        "label": shown(parameter.name),
        "help_text": shown(_hint(parameter)),
        "required": False,
    }
    if parameter.type == "boolean" and parameter.required:
        return forms.BooleanField(**facts)
    if parameter.type == "boolean":
        choices = [("", "Leave it out"), ("true", "Yes"), ("false", "No")]
        return forms.CharField(widget=forms.Select(choices=choices), **facts)
    if (texts := _list_of_texts(parameter)) and texts.options:
        choices = [(value, shown(words)) for value, words in texts.options.items()]
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **facts)
    if 0 < len(parameter.allowed_values) <= MAX_CHOICES:
        return forms.CharField(widget=forms.Select(choices=_choices(parameter, given)), **facts)
    return forms.CharField(strip=False, max_length=MAX_INPUT_LENGTH, widget=_widget(parameter), **facts)


def _choices(parameter: Parameter, given: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (value.name, f"{value.name}: {value.description}"[:120] if value.description else value.name)
        for value in parameter.allowed_values
    ]
    # The value of an earlier call stays on offer, even where the vendor no longer lists it: it is refused in
    # words.
    stale = given.get(parameter.name)
    if isinstance(stale, str) and stale not in dict(rows):
        rows.append((stale, stale))
    return [("", "Choose one" if parameter.required else "Leave it out"), *rows]


@dataclass(frozen=True, slots=True)
class _Texts:
    """A list of `least` to `most` texts: any, or some of the `options`, which are values with the words for
    them."""

    options: Mapping[str, str]
    least: int
    most: int | None


def _list_of_texts(parameter: Parameter) -> _Texts | None:
    # None for all other JSON, and for a list of which more is asked than fields can show.
    if parameter.type != "json":
        return None
    schema = _but_null(_schema(parameter))
    items = schema.get("items")
    is_list = {*types.type_words(schema)} - {"null"} == {"array"}
    if not is_list or not isinstance(items, dict) or not schema.keys() <= _OF_LISTS:
        return None
    options = _options(items)
    is_any = options is None and items.get("type") == "string" and items.keys() <= _OF_TEXTS
    if not is_any and not 0 < len(options or {}) <= MAX_CHOICES:
        return None
    least, most = schema.get("minItems"), schema.get("maxItems")
    return _Texts(options or {}, least if type(least) is int else 0, most if type(most) is int else None)


def _but_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # The one form beside null, as some programs write what may be left out.
    forms_of = schema.get("anyOf")
    if not isinstance(forms_of, list) or schema.keys() - {"anyOf"} - _NOTES:
        return schema
    others = [each for each in forms_of if each != {"type": "null"}]
    return others[0] if len(others) == 1 and isinstance(others[0], dict) else schema


def _options(items: Mapping[str, Any]) -> dict[str, str] | None:
    # None where any text will do. A list in which one is no text has no options.
    for keyword in ("anyOf", "oneOf"):
        if isinstance(listed := items.get(keyword), list):
            pairs = [(each.get("const"), each.get("title")) for each in listed if isinstance(each, dict)]
            named = {value: title for value, title in pairs if isinstance(value, str)}
            if len(named) < len(listed):
                return {}
            return {value: title if isinstance(title, str) else value for value, title in named.items()}
    listed = items.get("enum")
    if not isinstance(listed, list):
        return None
    return {value: value for value in listed} if _are_texts(listed) else {}


def _widget(parameter: Parameter) -> forms.Widget:
    attributes = {"autocomplete": "off"}
    if parameter.default is not msgspec.UNSET:
        attributes["placeholder"] = _in_words(parameter.default)[:MAX_LINE_LENGTH]
    if _list_of_texts(parameter):
        return forms.Textarea(attrs=attributes | {"rows": 3})
    match parameter.type:
        case "int":
            return forms.TextInput(attrs=attributes | {"inputmode": "numeric"})
        case "number":
            return forms.TextInput(attrs=attributes | {"inputmode": "decimal"})
        case "json":
            return forms.Textarea(attrs=attributes | {"rows": 3, "class": "mono", "spellcheck": "false"})
    is_line = (
        _schema(parameter).keys() & {"format", "pattern"}
        or (parameter.max_length or MAX_LINE_LENGTH + 1) <= MAX_LINE_LENGTH
    )
    return forms.TextInput(attrs=attributes) if is_line else forms.Textarea(attrs=attributes | {"rows": 1})


def _hint(parameter: Parameter) -> str:
    # The vendor's description and, after it, what a value must look like.
    schema, text = _schema(parameter), parameter.description.strip()
    pattern = schema.get("pattern")
    said = [
        text if len(text) <= MAX_HINT_LENGTH else f"{text[:MAX_HINT_LENGTH]}…",
        FORMAT_HINTS.get(str(schema.get("format")), ""),
        f"Must match {pattern[:200]}" if isinstance(pattern, str) else "",
        _about_type(parameter),
        f"If you leave it out, it is {_in_words(parameter.default)[:MAX_LINE_LENGTH]}."
        if parameter.default is not msgspec.UNSET and not parameter.required
        else "",
    ]
    return "\n".join(part for part in said if part)


def _about_type(parameter: Parameter) -> str:
    if texts := _list_of_texts(parameter):
        return _about_list(texts)
    bounds = limits(parameter)
    match parameter.type:
        case "int":
            return f"A whole number{', ' if bounds else ''}{bounds}."
        case "number":
            return f"A number{', ' if bounds else ''}{bounds}."
        case "json":
            return 'JSON, such as {"a": 1}, ["b"] or "text".'
    if len(parameter.allowed_values) > MAX_CHOICES:
        first = ", ".join(value.name for value in parameter.allowed_values[:5])
        return f"One of {len(parameter.allowed_values):,} values, such as {first[:MAX_LINE_LENGTH]}."
    return f"{bounds[:1].upper()}{bounds[1:]}." if bounds else ""


def _about_list(texts: _Texts) -> str:
    each = "" if texts.options else "One in each line. "
    if texts.most is not None:
        return f"{each}{texts.least or 'Up'} to {texts.most:,} of them."
    return f"{each}At least {texts.least:,} of them." if texts.least else each.strip()


def _schema(parameter: Parameter) -> Mapping[str, Any]:
    return parameter.schema if isinstance(parameter.schema, dict) else {}


def _typed(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    # A required input begins with the vendor's default.
    value = given.get(parameter.name, parameter.default if parameter.required else msgspec.UNSET)
    if value is msgspec.UNSET or value is None:
        return None
    if parameter.type == "boolean" and isinstance(value, bool):
        return value if parameter.required else str(value).lower()
    if (texts := _list_of_texts(parameter)) and _are_texts(value):
        return value if texts.options else "\n".join(value)
    return json.dumps(value, ensure_ascii=False) if parameter.type == "json" else _as_text(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _in_words(value: Any) -> str:
    return ", ".join(value) if _are_texts(value) and value else _as_text(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(parameter: Parameter, typed: Any) -> Any:
    # What was typed, as the input takes it. What cannot be read stays a text, and the check refuses it.
    if isinstance(typed, bool):
        return typed
    if isinstance(typed, list):
        return typed or NOT_GIVEN
    if not typed.strip():
        return NOT_GIVEN
    if _list_of_texts(parameter):
        return [line for line in typed.replace("\r\n", "\n").split("\n") if line.strip()]
    match parameter.type:
        case "boolean":
            return {"true": True, "false": False}.get(typed, typed)
        case "int" | "number":
            return _number(typed.strip())
        case "json":
            return strict_json.loads(typed.encode(errors="surrogatepass"))
    return typed.replace("\r\n", "\n")


def _as_sent(field: forms.Field, initial: Any) -> Any:
    # What a browser makes of a value on its way through a field.
    if initial is None or isinstance(initial, bool):
        return "" if initial is None else initial
    if isinstance(field, forms.MultipleChoiceField):
        choices: Any = field.choices
        return [value for value, _ in choices if isinstance(initial, list) and value in initial]
    # A one-line field drops line breaks, and a textarea sends them as CR LF.
    lines = re.split(r"\r\n|\r|\n", str(initial))
    if isinstance(field.widget, forms.TextInput):
        return "".join(lines)
    text = "\r\n".join(lines)
    return text.strip() if isinstance(field.widget, forms.Select) else text


def _number(typed: str) -> Any:
    if _WHOLE_NUMBER.fullmatch(typed):
        return int(typed)
    try:
        value = strict_json.loads(typed.encode())
    except ProtocolViolationError:
        return typed
    return value if isinstance(value, int | float) and not isinstance(value, bool) else typed
