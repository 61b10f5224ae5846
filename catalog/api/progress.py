from typing import Any

from rest_framework import serializers


class ProgressOutput(serializers.Serializer[Any]):
    """The progress of search and inspection after enumeration, in active tools."""

    tools = serializers.IntegerField()
    searchable = serializers.IntegerField(
        help_text="The number of tools whose current version a search finds."
    )
    inspected = serializers.IntegerField(help_text="The number of tools whose texts were inspected.")
    compared = serializers.IntegerField(
        allow_null=True,
        help_text="Tools whose current version has a vector; null if no meanings are compared.",
    )
    meaning_trouble = serializers.CharField(
        allow_blank=True, help_text="The reason why no vectors can be computed now; may be empty."
    )
