from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

from rest_framework import serializers
from rest_framework.settings import api_settings

JSON_TYPES: list[tuple[type[serializers.Field[Any, Any, Any, Any]], type, str]] = [
    (serializers.BooleanField, bool, "Give true or false."),
    (serializers.IntegerField, int, "Give a whole number, without quotes."),
    (serializers.CharField, str, "Give a text in quotes."),
]
# As many as a person reads; a body of a megabyte may hold thousands.
MAX_REFUSALS = 20


def refusals(given: Iterable[str], known: Collection[str], kind: str) -> dict[str, str]:
    """A sentence for each name that is not among the known ones."""
    there_are = f"There are: {', '.join(known)}." if known else "This call takes none."
    unknown = (name for name in given if name not in known)
    sentence = f"There is no such {kind}. {there_are}"
    return {name: sentence for name, _ in zip(unknown, range(MAX_REFUSALS), strict=False)}


# A JSON body, taken as the schema says and no further: the framework alone would read 5 as "5" and "yes" as
# true, and drop a member that it does not know. No docstring: the schema would show it as every body's.
class Input(serializers.Serializer[Any]):
    @classmethod
    def taken(cls, data: Any) -> dict[str, Any]:
        # What `validated_data` holds, for bodies that come all day: copying the fields for each takes longer
        # than judging it. Judging leaves nothing behind in them, so all threads share them. Raises
        # ValidationError.
        found: dict[str, Any] = _judge(cls).run_validation(data)
        return found

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)
        faults: dict[str, Any] = refusals(data, self.fields, "member")
        faults |= {
            name: fault
            for name, field in self.fields.items()
            if name in data and (fault := _fault(field, data[name]))
        }
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            found = error.detail if isinstance(error.detail, dict) else {}
            raise serializers.ValidationError({**found, **faults}) from error
        if faults:
            raise serializers.ValidationError(faults)
        return value


@cache
def _judge(kind: type[Input]) -> Input:
    return kind()


def _fault(field: Any, value: Any) -> str:
    # Why this value is not of the field's JSON type; what else is wrong with it, the field says itself.
    if value is None:
        return ""
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return next((fault for below in value if (fault := _fault(field.child, below))), "")
    for kind, json_type, sentence in JSON_TYPES:
        if isinstance(field, kind) and type(value) is not json_type:
            return sentence
    longest = getattr(field, "max_length", None)
    if isinstance(value, str) and longest is not None and len(value) > longest:
        # As it was sent: the field itself counts after it has cut the spaces off.
        return str(field.error_messages["max_length"]).format(max_length=longest)
    return ""


def sentences(detail: Any) -> tuple[str, dict[str, str]]:
    """What a serializer refused: of the whole body, and by path. A path may be one empty name."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path, sentence in _sentences(detail, ()):
        found.setdefault(path, []).append(sentence)
    general = " ".join(found.pop((), []))
    return general, {".".join(path): " ".join(said) for path, said in found.items()}


def _sentences(detail: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(detail, dict):
        for name, below in detail.items():
            general = name in (api_settings.NON_FIELD_ERRORS_KEY, "__all__")
            yield from _sentences(below, path if general else (*path, str(name)))
    elif isinstance(detail, list):
        for index, below in enumerate(detail):
            nested = isinstance(below, dict)
            yield from _sentences(below, (*path, str(index)) if nested else path)
    else:
        yield path, str(detail)
