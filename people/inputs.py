from typing import Any

from rest_framework import serializers

JSON_TYPES: list[tuple[type[serializers.Field[Any, Any, Any, Any]], type, str]] = [
    (serializers.BooleanField, bool, "Give true or false."),
    (serializers.IntegerField, int, "Give a whole number, without quotes."),
    (serializers.CharField, str, "Give a text in quotes."),
]


class Input(serializers.Serializer[Any]):
    """A JSON body, taken as the schema says: the framework alone would read 5 as "5" and "yes" as true."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            faults = {
                name: fault
                for name, field in self.fields.items()
                if name in data and (fault := _fault(field, data[name]))
            }
            if faults:
                raise serializers.ValidationError(faults)
        return super().to_internal_value(data)


def _fault(field: Any, value: Any) -> str:
    """Why this value is not of the field's JSON type; what else is wrong with it, the field says itself."""
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
