"""A form built from a signature: a user enters the inputs of a tool, or the answer to a question of a
call.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from msgspec.structs import replace

from catalog.models.calls import StoredQuestion
from catalog.rules.sensitive_values import mask, restore
from core import strict_json
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import SchemaBoundsError, read_document, read_object
from core.schema.subschemas import DEFINITIONS
from execution.calls import results
from execution.forms.argument_fields import (
    FIELD_BYTES,
    MAX_INPUT_LENGTH,
    OMITTED,
    count_field_bytes,
    initial_value,
    list_of_texts,
    make_field,
    simulate_submission,
    submitted_value,
)
from people.forms import OperationForm
from protocols.calls import arguments, outcomes
from protocols.calls.arguments import TOGETHER
from protocols.signature import Parameter, Signature

# Characters of definitions on one form. Inputs after these are shown without the definitions.
MAX_DEFINITIONS_LENGTH = 4_000
# Bytes of all fields of one form. The other inputs are entered as JSON.
MAX_FORM_BYTES = 20_000
# Inputs that do not fit, before no other is tried.
MAX_TOO_LARGE = 5
JSON_FIELD = "json"
SETTINGS_PREFIX = "configuration"


class ArgumentsForm(OperationForm):
    """One field per parameter, or all parameters as one JSON object.

    The form shows all errors at once, each at its field, and keeps the entered values. Fields have numbers,
    because a vendor's names may contain any character.

    initial_values: a value that its field would submit in another form, such as "", starts as JSON.
    marked_members: pointers of sensitive members. They start as masks, and a returned mask means the value in
    `initial_values`.
    max_bytes: of all fields on the page. Required inputs have fields first, and `more_count` have none.
    """

    def __init__(
        self,
        *args: Any,
        signature: Signature,
        initial_values: Mapping[str, Any] | None = None,
        marked_members: Collection[str] = (),
        max_bytes: int = MAX_FORM_BYTES,
        **kwargs: Any,
    ) -> None:
        self.signature = signature
        self.inputs = resolve_inputs(signature)
        self._stored_values = dict(initial_values or {}) if marked_members else None
        values: Mapping[str, Any] = mask(dict(initial_values or {}), marked_members)
        shown_fields = self._make_fields(values, max_bytes)
        initial = {_field_name(n): initial_value(self.inputs[n], values) for n in shown_fields}
        super().__init__(*args, initial=initial, **kwargs)
        self.fields |= {_field_name(n): field for n, field in shown_fields.items()}
        self.more_count = len(self.inputs) - len(shown_fields)
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

    def _make_fields(self, values: Mapping[str, Any], max_bytes: int) -> dict[int, forms.Field]:
        """Return the fields that fit on the page by the number of their input."""
        made_fields: dict[int, forms.Field] = {}
        free_bytes, too_large_count = max_bytes, 0
        # The vendor's schema decides, and no value: a form that comes back has the fields that were shown.
        for n in sorted(range(len(self.inputs)), key=lambda n: not self.inputs[n].required):
            if free_bytes < 2 * FIELD_BYTES or too_large_count > MAX_TOO_LARGE:
                break
            field_bytes = count_field_bytes(self.inputs[n], make_field(self.inputs[n], {}))
            if field_bytes <= free_bytes:
                made_fields[n] = make_field(self.inputs[n], values)
                free_bytes -= field_bytes
            else:
                too_large_count += 1
        return dict(sorted(made_fields.items()))

    def _is_reproducible(self, expected: Mapping[str, Any]) -> bool:
        """Return whether the untouched fields, as a browser submits them, yield the initial values."""
        submitted = {
            name: simulate_submission(self.fields[name], value) for name, value in self.initial.items()
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
        schema_rest = self.signature.schema_rest or {}
        definitions = {keyword: schema_rest[keyword] for keyword in DEFINITIONS if keyword in schema_rest}
        definitions_length, shown_length = len(json.dumps(definitions)), 0
        rows: list[tuple[Parameter, BoundField, Any]] = []
        for n, (parameter, resolved) in enumerate(zip(self.signature.inputs, self.inputs, strict=True)):
            if _field_name(n) not in self.fields:
                continue
            is_json = parameter.type == "json" and not list_of_texts(resolved)
            schema = parameter.schema if is_json and isinstance(parameter.schema, dict) else None
            # Definitions may be larger than the schema itself, and each of 1,000 inputs may refer to them.
            if schema and shown_length < MAX_DEFINITIONS_LENGTH and '"$ref"' in json.dumps(schema):
                schema = schema | definitions
                shown_length += definitions_length
            rows.append((parameter, self[_field_name(n)], schema))
        return rows

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get(JSON_FIELD, "").strip():
            self.arguments = self._read_json(cleaned)
        else:
            values = dict(cleaned)
            for n, parameter in enumerate(self.inputs):
                try:
                    submitted_value(parameter, values.get(_field_name(n), ""))
                except ProtocolViolationError as error:
                    message = _("This is not valid JSON: {reason}").format(reason=_describe_json_error(error))
                    self.add_error(_field_name(n), message)
                    # Without the value the check below does not report a second error.
                    values.pop(_field_name(n))
            self.arguments = self._read_values(values)
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

    def _read_values(self, entered_value: Mapping[str, Any]) -> dict[str, Any]:
        # Returns values by name. Raises ProtocolViolationError if a value should be JSON and is not.
        values = {
            p.name: submitted_value(p, entered_value.get(_field_name(n), ""))
            for n, p in enumerate(self.inputs)
        }
        return {name: value for name, value in values.items() if value is not OMITTED}

    def _read_json(self, cleaned_values: Mapping[str, Any]) -> dict[str, Any]:
        try:
            document = strict_json.loads(cleaned_values[JSON_FIELD].encode(errors="surrogatepass"))
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
                self.add_error(JSON_FIELD, _explain_reason(name, reason))
            return
        field_names = {
            parameter.name: _field_name(n)
            for n, parameter in enumerate(self.signature.inputs)
            if _field_name(n) in self.fields
        }
        for name, reason in error.fields.items():
            field_name = field_names.get(name)
            if field_name is None:
                self.add_error(None, _explain_reason(name, reason))
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

    def _read_values(self, typed_values: Mapping[str, Any]) -> dict[str, Any]:
        values = super()._read_values(typed_values)
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

    def _read_json(self, cleaned_values: Mapping[str, Any]) -> dict[str, Any]:
        if self.settings_form is not None:
            self.settings_form.errors.clear()  # The JSON replaces these fields too.
        return super()._read_json(cleaned_values)

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
        signature=results.questions(StoredQuestion(configuration.name, "", schema)),
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


def _explain_reason(name: str, reason: str) -> str:
    if name == TOGETHER:
        return _("Your input {reason}.").format(reason=reason)
    return _("“{name}” {reason}.").format(name=printable(name, 60), reason=reason)


def _field_name(number: int) -> str:
    return f"input-{number}"


def _describe_json_error(error: ProtocolViolationError) -> str:
    return error.message.replace("The reply is not JSON: ", "").replace("The reply", "it")
