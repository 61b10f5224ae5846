from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from rest_framework import serializers
from rest_framework.settings import api_settings

from core import slugs

JSON_TYPES: list[tuple[type[serializers.Field[Any, Any, Any, Any]], type, str]] = [
    (serializers.BooleanField, bool, "Send true or false."),
    (serializers.IntegerField, int, "Send a whole number, without quotes."),
    (serializers.CharField, str, "Send a text in quotes."),
]
Row = TypeVar("Row", bound=models.Model)
# A person reads no more; a body of a megabyte may contain thousands.
MAX_REFUSALS = 20


def refusals(names: Iterable[str], valid_names: Collection[str], kind: str) -> dict[str, str]:
    """Return a sentence for each name that is not valid."""
    hint = f"Valid: {', '.join(valid_names)}." if valid_names else "This call accepts none."
    unknown = (name for name in names if name not in valid_names)
    sentence = f"There is no such {kind}. {hint}"
    return {name: sentence for name, _ in zip(unknown, range(MAX_REFUSALS), strict=False)}


# A JSON body that is read strictly: the framework alone would accept 5 for "5" and "yes" for true, and drop
# an unknown member. A comment and no docstring, because the OpenAPI schema would repeat it for every body.
class Input(serializers.Serializer[Any]):
    @classmethod
    def parse(cls, data: Any) -> dict[str, Any]:
        # Returns `validated_data` for busy paths, where copying the fields for each body takes longer than
        # validating it. Validation stores nothing in the fields, so all threads share them. Raises
        # ValidationError.
        values: dict[str, Any] = _shared_instance(cls).run_validation(data)
        return values

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)
        faults: dict[str, Any] = refusals(data, self.fields, "member")
        faults |= {
            name: fault
            for name, field in self.fields.items()
            if name in data and (fault := _find_fault(field, data[name]))
        }
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            details = error.detail if isinstance(error.detail, dict) else {}
            raise serializers.ValidationError({**details, **faults}) from error
        if faults:
            raise serializers.ValidationError(faults)
        return value


def valid_data(serializer: serializers.BaseSerializer[Any]) -> dict[str, Any]:
    """Return the validated data. Raises ValidationError."""
    serializer.is_valid(raise_exception=True)
    data: dict[str, Any] = serializer.validated_data
    return data


# All fields of an answer are read-only.
class ModelOutput(serializers.ModelSerializer[Row]):
    def get_extra_kwargs(self) -> dict[str, Any]:
        options = super().get_extra_kwargs()
        return {name: {**options.get(name, {}), "read_only": True} for name in self.Meta.fields}


class NewSlug(serializers.RegexField):
    def __init__(self, **options: Any) -> None:
        options.pop("allow_unicode", None)
        super().__init__(f"^{slugs.PATTERN}$", **options)


# The members are fields of the model, with its limits, choices and help texts. An operation checks the rest,
# such as names that must be unique, with errors of its own.
class ModelInput(Input, serializers.ModelSerializer[Any]):
    serializer_field_mapping = serializers.ModelSerializer.serializer_field_mapping | {
        models.SlugField: NewSlug
    }

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[Any, dict[str, Any]]:
        field_class, options = super().build_standard_field(field_name, model_field)
        options.pop("validators", None)
        return field_class, options

    def get_uniqueness_extra_kwargs(
        self, field_names: Any, declared_fields: Any, extra_kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        return extra_kwargs, {}

    def get_validators(self) -> list[Any]:
        return []


# Members that are left out stay as they are.
class ModelChange(ModelInput):
    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[Any, dict[str, Any]]:
        field_class, options = super().build_standard_field(field_name, model_field)
        return field_class, options | {"required": False}


def input_field(declared: "models.Field[Any, Any]", **options: Any) -> Any:
    """Return the member for a field that belongs to no model: an input that is no column."""
    limits: dict[str, Any] = {"required": not declared.blank}
    if declared.help_text:
        limits["help_text"] = declared.help_text
    if isinstance(declared, models.CharField | models.TextField):
        limits |= {"max_length": declared.max_length, "allow_blank": declared.blank}
    for validator in declared.validators if isinstance(declared, models.IntegerField) else ():
        if isinstance(validator, MinValueValidator):
            limits["min_value"] = validator.limit_value
        elif isinstance(validator, MaxValueValidator):
            limits["max_value"] = validator.limit_value
    field_class = serializers.ModelSerializer.serializer_field_mapping[type(declared)]
    return field_class(**limits | options)


@cache
def _shared_instance(kind: type[Input]) -> Input:
    return kind()


def _find_fault(field: Any, value: Any) -> str:
    # Checks the JSON type of the value. The field checks everything else.
    if value is None:
        return ""
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return next((fault for entry in value if (fault := _find_fault(field.child, entry))), "")
    for kind, json_type, sentence in JSON_TYPES:
        if isinstance(field, kind) and type(value) is not json_type:
            return sentence
    max_length = getattr(field, "max_length", None)
    if isinstance(value, str) and max_length is not None and len(value) > max_length:
        # The field itself would count after it has stripped spaces.
        return str(field.error_messages["max_length"]).format(max_length=max_length)
    return ""


def sentences(detail: Any) -> tuple[str, dict[str, str]]:
    """Return the errors of a serializer: for the whole body, and by path. A path may be one empty name."""
    errors: dict[tuple[str, ...], list[str]] = {}
    for path, sentence in _sentences(detail, ()):
        errors.setdefault(path, []).append(sentence)
    general = " ".join(errors.pop((), []))
    return general, {".".join(path): " ".join(messages) for path, messages in errors.items()}


def _sentences(detail: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(detail, dict):
        for name, nested_detail in detail.items():
            general = name in (api_settings.NON_FIELD_ERRORS_KEY, "__all__")
            yield from _sentences(nested_detail, path if general else (*path, str(name)))
    elif isinstance(detail, list):
        for index, entry in enumerate(detail):
            yield from _sentences(entry, (*path, str(index)) if isinstance(entry, dict) else path)
    else:
        yield path, str(detail)
