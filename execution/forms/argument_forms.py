"""A form built from a signature: a user enters the inputs of a tool, or the answer to a question of a
call.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from msgspec.structs import replace

from catalog.models.calls import Asked
from catalog.rules.sensitive_values import mask, restore
from catalog.templatetags.display import grouped, shown
from catalog.templatetags.signatures import limits
from core import strict_json
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import SchemaBoundsError, read_document, read_object, types
from core.schema.subschemas import DEFINITIONS
from execution.calls import results
from people.forms import OperationForm
from protocols.calls import arguments, outcomes
from protocols.calls.arguments import TOGETHER
from protocols.signature import Parameter, Signature

# A longer list has to be scrolled; typing the value is quicker, and the check follows.
MAX_CHOICES = 200
MAX_INPUT_LENGTH = 256 * 1024
# A vendor's description may fill a page; the tool's own page shows all of it.
MAX_HINT_LENGTH = 600
MAX_LINE_LENGTH = 255  # characters of a one-line input
JSON_FIELD = "json"
SETTINGS_PREFIX = "configuration"
OMITTED = object()

FORMAT_HINTS = {
    "date": gettext_noop("A date, such as 2027-03-09."),
    "time": gettext_noop("A time, such as 14:30:00Z."),
    "date-time": gettext_noop("A date and time, such as 2027-03-09T14:30:00Z."),
    "duration": gettext_noop("A duration, such as P3DT4H."),
    "email": gettext_noop("An e-mail address."),
    "uri": gettext_noop("An address, such as https://example.com/."),
    "uuid": gettext_noop("A UUID, such as 123e4567-e89b-42d3-a456-426614174000."),
    "byte": gettext_noop("Bytes in Base64."),
}
_NOTES = frozenset({"title", "description", "default", "examples"})
# The keywords of a list, and of a text in it, that a form can express completely.
_LIST_KEYWORDS = _NOTES | {"type", "items", "minItems", "maxItems", "uniqueItems"}
_TEXT_KEYWORDS = _NOTES | {"type", "minLength", "maxLength", "format"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,400}")


class ArgumentsForm(OperationForm):
    """One field per parameter, or all parameters as one JSON object.

    The form shows all errors at once, each at its field, and keeps what was entered. Fields have numbers,
    because a vendor's names may contain any character.

    initial_values: a value that its field would submit in another form, such as "", starts as JSON.
    marked: pointers of sensitive members. They start as masks, and a mask that is sent back stands for the
    value in `initial_values`.
    """

    def __init__(
        self,
        *args: Any,
        signature: Signature,
        initial_values: Mapping[str, Any] | None = None,
        marked: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        self.signature = signature
        self.inputs = resolve_inputs(signature)
        self._stored_values = dict(initial_values or {}) if marked else None
        values: Mapping[str, Any] = mask(dict(initial_values or {}), marked)
        initial = {_field(n): _initial_value(p, values) for n, p in enumerate(self.inputs)}
        super().__init__(*args, initial=initial, **kwargs)
        for n, parameter in enumerate(self.inputs):
            self.fields[_field(n)] = _form_field(parameter, values)
        self.fields[JSON_FIELD] = forms.CharField(
            required=False,
            strip=False,
            max_length=MAX_INPUT_LENGTH,
            label=_("All inputs as one JSON object"),
            help_text=_("If you enter anything here, it replaces the fields above."),
            widget=forms.Textarea(attrs={"rows": 4, "class": "mono", "spellcheck": "false"}),
        )
        if values and not self._is_reproducible(values):
            self.initial[JSON_FIELD] = json.dumps(values, ensure_ascii=False, indent=2)

    def _is_reproducible(self, expected: Mapping[str, Any]) -> bool:
        # Returns whether the untouched fields, as a browser submits them, yield the initial values.
        submitted = {
            name: _simulate_submission(self.fields[name], value) for name, value in self.initial.items()
        }
        try:
            return canonical(self._read_values(submitted)) == canonical(expected)
        except ProtocolViolationError:
            return False

    @property
    def remark(self) -> str:
        """Return the vendor's rules that Pegboard cannot check."""
        return arguments.unchecked(self.signature)

    def rows(self) -> list[tuple[Parameter, BoundField, Any]]:
        """Return each input with its field and, for JSON, the schema with the definitions that it refers
        to.
        """
        pairs = enumerate(zip(self.signature.inputs, self.inputs, strict=True))
        return [
            (parameter, self[_field(n)], None if _list_of_texts(resolved) else self._schema_of(parameter))
            for n, (parameter, resolved) in pairs
        ]

    def _schema_of(self, parameter: Parameter) -> Any:
        if parameter.type != "json" or not isinstance(parameter.schema, dict):
            return None
        schema_rest = self.signature.schema_rest or {}
        refers = '"$ref"' in json.dumps(parameter.schema)
        # Definitions are included only if the schema refers to them: they may be larger than the schema
        # itself.
        definitions = {
            keyword: schema_rest[keyword] for keyword in DEFINITIONS if refers and keyword in schema_rest
        }
        return parameter.schema | definitions

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self.arguments = (
            self._read_json(cleaned) if cleaned.get(JSON_FIELD, "").strip() else self._read_fields(cleaned)
        )
        if self._stored_values is not None:
            try:
                self.arguments = restore(self.arguments, self._stored_values)
            except DomainError as error:
                self.add_error(None, error.message)
                return cleaned
        if refusal := outcomes.refusal(self.signature, self.arguments):
            reply = refusal.error or {}
            self.refuse(DomainError(reply["code"], reply["message"], fields=dict(reply.get("fields", {}))))
        return cleaned

    def _read_fields(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(cleaned)
        for n, parameter in enumerate(self.inputs):
            try:
                _value(parameter, values.get(_field(n), ""))
            except ProtocolViolationError as error:
                self.add_error(
                    _field(n),
                    _("This is not valid JSON: {reason}").format(reason=_describe_json_error(error)),
                )
                # Its error is reported above; without the value the check does not report a second one.
                values.pop(_field(n))
        return self._read_values(values)

    def _read_values(self, entered: Mapping[str, Any]) -> dict[str, Any]:
        # Returns values by name. Raises ProtocolViolationError if a value should be JSON and is not.
        values = {p.name: _value(p, entered.get(_field(n), "")) for n, p in enumerate(self.inputs)}
        return {name: value for name, value in values.items() if value is not OMITTED}

    def _read_json(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        try:
            document = strict_json.loads(cleaned[JSON_FIELD].encode(errors="surrogatepass"))
        except ProtocolViolationError as error:
            self.add_error(
                JSON_FIELD, _("This is not valid JSON: {reason}").format(reason=_describe_json_error(error))
            )
            return {}
        if isinstance(document, dict):
            return document
        self.add_error(JSON_FIELD, _("Enter one JSON object: {…}."))
        return {}

    def refuse(self, error: DomainError) -> None:
        # Errors of inputs appear at their fields, unless a field already has one.
        if not error.fields:
            self.add_error(None, error.message)
        if JSON_FIELD in self.errors:
            return
        if self.cleaned_data.get(JSON_FIELD, "").strip():
            for name, reason in error.fields.items():
                self.add_error(JSON_FIELD, _sentence(name, reason))
            return
        field_names = {parameter.name: _field(n) for n, parameter in enumerate(self.signature.inputs)}
        for name, reason in error.fields.items():
            field_name = field_names.get(name)
            if field_name is None:
                self.add_error(None, _sentence(name, reason))
            elif field_name not in self.errors:
                self.add_error(field_name, f"{reason[:1].upper()}{reason[1:].rstrip('.')}.")


class RunForm(ArgumentsForm):
    """The inputs of a run. The configuration of a tool has its own form, built from its schema:
    `settings_form`, None for a tool without a configuration.
    """

    def __init__(
        self,
        *args: Any,
        signature: Signature,
        configuration: Parameter | None,
        initial_values: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.configuration, self.settings_form = configuration, None
        values = dict(initial_values or {})
        if configuration is not None:
            settings = values.pop(configuration.name, None)
            self.settings_form = make_settings_form(
                configuration, *args, prefix=SETTINGS_PREFIX, settings=settings
            )
        super().__init__(*args, signature=signature, initial_values=values, **kwargs)
        if initial_values and JSON_FIELD in self.initial:
            self.initial[JSON_FIELD] = json.dumps(initial_values, ensure_ascii=False, indent=2)

    def rows(self) -> list[tuple[Parameter, BoundField, Any]]:
        return [row for row in super().rows() if row[0] != self.configuration]

    def _read_values(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        values = super()._read_values(typed)
        form, parameter = self.settings_form, self.configuration
        if form is None or parameter is None or not form.is_bound:
            return values
        is_filled_in = any(field.data not in ("", None, []) for field in form)
        if not is_filled_in and not parameter.required:
            form.errors.clear()
        elif not form.is_valid():
            self.add_error(None, _("The configuration is not valid. See its fields."))
        else:
            values[parameter.name] = results.answer_of(form.signature, form.arguments)
        return values

    def _read_json(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        if self.settings_form is not None:
            self.settings_form.errors.clear()  # The JSON replaces these fields too.
        return super()._read_json(cleaned)

    def refuse(self, error: DomainError) -> None:
        """Show the errors of the configuration in its own form."""
        fields = dict(error.fields)
        reason = fields.pop(self.configuration.name, "") if self.configuration else ""
        is_typed_as_json = bool(self.cleaned_data.get(JSON_FIELD, "").strip())
        if self.settings_form is None or not reason or is_typed_as_json:
            super().refuse(error)
            return
        if self.settings_form.is_valid():
            self.settings_form.add_error(None, _("The configuration {reason}.").format(reason=reason))
        if fields:
            super().refuse(DomainError(error.code, error.message, fields=fields))
        elif not self.errors:
            self.add_error(None, _("The configuration {reason}.").format(reason=reason))


def make_settings_form(configuration: Parameter, *args: Any, prefix: str, settings: Any) -> ArgumentsForm:
    """Return the form of a tool's configuration, built from its schema. settings: the initial values."""
    schema = configuration.schema if isinstance(configuration.schema, dict) else {}
    form = ArgumentsForm(
        *args,
        signature=results.questions(Asked(configuration.name, "", schema)),
        prefix=prefix,
        initial_values=settings if isinstance(settings, dict) else None,
    )
    form.fields[JSON_FIELD].label = _("The configuration as one JSON object")
    return form


class OutputsForm(ArgumentsForm):
    """A form for the outputs of a tool, built from its output schema."""

    def __init__(self, *args: Any, signature: Signature, **kwargs: Any) -> None:
        outputs = Signature(
            name="outputs", description="", inputs=signature.outputs, schema_rest=signature.outputs_rest
        )
        super().__init__(*args, signature=outputs, **kwargs)
        self.fields[JSON_FIELD].label = _("All outputs as one JSON object")


def any_inputs(signature: Signature) -> Signature:
    """Return the signature with all inputs optional and without rules across inputs."""
    schema_rest = signature.schema_rest or {}
    definitions = {
        keyword: schema_rest[keyword] for keyword in ("$schema", *DEFINITIONS) if keyword in schema_rest
    }
    return replace(
        signature,
        inputs=tuple(replace(parameter, required=False) for parameter in signature.inputs),
        schema_rest=definitions or None,
    )


def resolve_inputs(signature: Signature) -> tuple[Parameter, ...]:
    """Return the inputs with their references and combinations resolved, one level deep.

    Entries of a list are resolved too. An input whose rules do not fit into one schema keeps its own.
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


def _sentence(name: str, reason: str) -> str:
    if name == TOGETHER:
        return _("Your input {reason}.").format(reason=reason)
    return _("“{name}” {reason}.").format(name=printable(name, 60), reason=reason)


def _field(number: int) -> str:
    return f"input-{number}"


def _describe_json_error(error: ProtocolViolationError) -> str:
    return error.message.replace("The reply is not JSON: ", "").replace("The reply", "it")


def _form_field(parameter: Parameter, initial_arguments: Mapping[str, Any]) -> forms.Field:
    facts: dict[str, Any] = {
        "label": shown(parameter.name),
        "help_text": shown(_hint(parameter)),
        "required": False,
    }
    if parameter.type == "boolean" and parameter.required:
        return forms.BooleanField(**facts)
    if parameter.type == "boolean":
        choices = [("", _("Leave it out")), ("true", _("Yes")), ("false", _("No"))]
        return forms.CharField(widget=forms.Select(choices=choices), **facts)
    if (texts := _list_of_texts(parameter)) and texts.options:
        choices = [(value, shown(words)) for value, words in texts.options.items()]
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **facts)
    if 0 < len(parameter.allowed_values) <= MAX_CHOICES:
        rows = [
            (value.name, f"{value.name}: {value.description}"[:120] if value.description else value.name)
            for value in parameter.allowed_values
        ]
        # The value of an earlier call remains a choice even if the vendor no longer lists it; the check
        # rejects it with a reason.
        value_before = initial_arguments.get(parameter.name)
        if isinstance(value_before, str) and value_before not in dict(rows):
            rows.append((value_before, value_before))
        rows.insert(0, ("", _("Choose one") if parameter.required else _("Leave it out")))
        return forms.CharField(widget=forms.Select(choices=rows), **facts)
    return forms.CharField(strip=False, max_length=MAX_INPUT_LENGTH, widget=_widget(parameter), **facts)


@dataclass(frozen=True, slots=True)
class _Texts:
    """A list of `least` to `most` texts. `options` maps allowed values to their labels; empty if any text is
    allowed.
    """

    options: Mapping[str, str]
    least: int
    max_count: int | None


def _list_of_texts(parameter: Parameter) -> _Texts | None:
    # None for other JSON, and for a list with rules that fields cannot show.
    if parameter.type != "json":
        return None
    schema = _without_null(_schema(parameter))
    items = schema.get("items")
    is_list = {*types.type_words(schema)} - {"null"} == {"array"}
    if not is_list or not isinstance(items, dict) or not schema.keys() <= _LIST_KEYWORDS:
        return None
    options = _options(items)
    is_any = options is None and items.get("type") == "string" and items.keys() <= _TEXT_KEYWORDS
    if not is_any and not 0 < len(options or {}) <= MAX_CHOICES:
        return None
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    return _Texts(
        options or {},
        min_items if type(min_items) is int else 0,
        max_items if type(max_items) is int else None,
    )


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    # The one alternative besides null: some programs write an optional value this way.
    forms_of = schema.get("anyOf")
    if not isinstance(forms_of, list) or schema.keys() - {"anyOf"} - _NOTES:
        return schema
    others = [form for form in forms_of if form != {"type": "null"}]
    return others[0] if len(others) == 1 and isinstance(others[0], dict) else schema


def _options(items: Mapping[str, Any]) -> dict[str, str] | None:
    # None if any text is allowed. A list with an option that is not a text has no options.
    for keyword in ("anyOf", "oneOf"):
        if isinstance(values := items.get(keyword), list):
            pairs = [
                (option.get("const"), option.get("title")) for option in values if isinstance(option, dict)
            ]
            titles = {value: title for value, title in pairs if isinstance(value, str)}
            if len(titles) < len(values):
                return {}
            return {value: title if isinstance(title, str) else value for value, title in titles.items()}
    values = items.get("enum")
    if not isinstance(values, list):
        return None
    return {value: value for value in values} if _are_texts(values) else {}


def _widget(parameter: Parameter) -> forms.Widget:
    attributes = {"autocomplete": "off"}
    if parameter.default is not msgspec.UNSET:
        attributes["placeholder"] = _to_words(parameter.default)[:MAX_LINE_LENGTH]
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
    # The vendor's description, followed by the form of a value.
    schema, text = _schema(parameter), parameter.description.strip()
    pattern = schema.get("pattern")
    parts = [
        text if len(text) <= MAX_HINT_LENGTH else f"{text[:MAX_HINT_LENGTH]}…",
        _(FORMAT_HINTS.get(str(schema.get("format")), "")),
        _("Must match {pattern}").format(pattern=pattern[:200]) if isinstance(pattern, str) else "",
        _describe_type(parameter),
        _("Default: {value}.").format(value=_to_words(parameter.default)[:MAX_LINE_LENGTH])
        if parameter.default is not msgspec.UNSET and not parameter.required
        else "",
    ]
    return "\n".join(part for part in parts if part)


def _describe_type(parameter: Parameter) -> str:
    if texts := _list_of_texts(parameter):
        lines = "" if texts.options else _("One in each line.")
        count = ""
        if texts.max_count is not None and texts.least:
            count = _("{least} to {most} of them.").format(least=texts.least, most=grouped(texts.max_count))
        elif texts.max_count is not None:
            count = _("Up to {most} of them.").format(most=grouped(texts.max_count))
        elif texts.least:
            count = _("At least {least} of them.").format(least=grouped(texts.least))
        return f"{lines} {count}".strip()
    bounds = limits(parameter)
    match parameter.type:
        case "int":
            whole_number = _("A whole number, {bounds}.") if bounds else _("A whole number.")
            return whole_number.format(bounds=bounds)
        case "number":
            number = _("A number, {bounds}.") if bounds else _("A number.")
            return number.format(bounds=bounds)
        case "json":
            return _('JSON, such as {"a": 1}, ["b"] or "text".')
    if len(parameter.allowed_values) > MAX_CHOICES:
        first = ", ".join(value.name for value in parameter.allowed_values[:5])
        return _("One of {count} values, such as {examples}.").format(
            count=grouped(len(parameter.allowed_values)), examples=first[:MAX_LINE_LENGTH]
        )
    return f"{bounds[:1].upper()}{bounds[1:]}." if bounds else ""


def _schema(parameter: Parameter) -> Mapping[str, Any]:
    return parameter.schema if isinstance(parameter.schema, dict) else {}


def _initial_value(parameter: Parameter, initial_arguments: Mapping[str, Any]) -> Any:
    # A required input starts with the vendor's default.
    value = initial_arguments.get(parameter.name, parameter.default if parameter.required else msgspec.UNSET)
    if value is msgspec.UNSET or value is None:
        return None
    if parameter.type == "boolean" and isinstance(value, bool):
        return value if parameter.required else str(value).lower()
    if (texts := _list_of_texts(parameter)) and _are_texts(value):
        return value if texts.options else "\n".join(value)
    return json.dumps(value, ensure_ascii=False) if parameter.type == "json" else _to_text(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _to_words(value: Any) -> str:
    return ", ".join(value) if _are_texts(value) and value else _to_text(value)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(parameter: Parameter, entered: Any) -> Any:
    # Converts what was entered to the input's type. A value that cannot be converted stays a text, and the
    # check rejects it.
    if isinstance(entered, bool):
        return entered
    if isinstance(entered, list):
        return entered or OMITTED
    if not entered.strip():
        return OMITTED
    if _list_of_texts(parameter):
        return [line for line in entered.replace("\r\n", "\n").split("\n") if line.strip()]
    match parameter.type:
        case "boolean":
            return {"true": True, "false": False}.get(entered, entered)
        case "int" | "number":
            return _number(entered.strip())
        case "json":
            return strict_json.loads(entered.encode(errors="surrogatepass"))
    return entered.replace("\r\n", "\n")


def _simulate_submission(field: forms.Field, initial: Any) -> Any:
    # Returns the value as a browser would submit it.
    if initial is None or isinstance(initial, bool):
        return "" if initial is None else initial
    if isinstance(field, forms.MultipleChoiceField):
        choices: Any = field.choices
        return [value for value, _ in choices if isinstance(initial, list) and value in initial]
    # A one-line field drops line breaks, and a text area submits them as CR LF.
    lines = re.split(r"\r\n|\r|\n", str(initial))
    if isinstance(field.widget, forms.TextInput):
        return "".join(lines)
    text = "\r\n".join(lines)
    return text.strip() if isinstance(field.widget, forms.Select) else text


def _number(entered: str) -> Any:
    if _WHOLE_NUMBER.fullmatch(entered):
        return int(entered)
    try:
        value = strict_json.loads(entered.encode())
    except ProtocolViolationError:
        return entered
    return value if isinstance(value, int | float) and not isinstance(value, bool) else entered
