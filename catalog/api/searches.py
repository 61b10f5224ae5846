from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.search import recorded_searches
from people.api.generics import APIView
from people.models import Role

MAX_NEEDS = 200


class UnmetNeedOutput(serializers.Serializer[Any]):
    words = serializers.CharField()
    searches = serializers.IntegerField(
        help_text="The number of searches for these words without a good result."
    )
    days = serializers.IntegerField(help_text="The number of days with such a search.")
    first = serializers.DateField()
    last = serializers.DateField()
    vendor = serializers.SlugField(
        source="vendor_slug", allow_null=True, help_text="The vendor that later published a suitable tool."
    )


class UnmetNeedsOutput(serializers.Serializer[Any]):
    results = UnmetNeedOutput(many=True)


class UnmetNeedList(APIView):
    """The searches without a good result, the most frequent first, at most 200. No user is recorded."""

    read_role = Role.ADMIN

    @extend_schema(operation_id="searches_unmet_list", tags=["tools"], responses=UnmetNeedsOutput)
    def get(self, request: Request) -> Response:
        rows = recorded_searches.unmet_needs(MAX_NEEDS)
        return Response({"results": UnmetNeedOutput(rows, many=True).data})
