"""REST for the list of tools, as on the page /tools/."""

from dataclasses import asdict, replace
from typing import Any, get_args

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

import protocols
from catalog.api.progress import ProgressOutput
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import Query, count_facets, search
from catalog.search.facets import FACETS, MAX_VALUES
from catalog.search.progress import catalog_progress
from catalog.search.scope import CHANGE_SPANS
from catalog.search.tool_query import (
    ANY_KIND,
    EFFECTS,
    MAX_QUESTION_LENGTH,
    REQUIREMENTS,
    SORT_NAMES,
    USED,
    asked_kinds,
)
from core.errors import invalid
from core.public_url import public_url
from people.api.generics import APIView
from protocols.signature import Effect

DEFAULT_LIMIT, MAX_LIMIT = 50, 200


class WhyOutput(serializers.Serializer[Any]):
    name = serializers.ListField(
        child=serializers.CharField(), help_text="The words of the query that the tool's name contains."
    )
    words = serializers.ListField(
        child=serializers.CharField(), help_text="The words of the query that its other texts contain."
    )
    job_words = serializers.ListField(
        child=serializers.CharField(), help_text="The words of the query for which its texts have a synonym."
    )
    meaning = serializers.FloatField(
        allow_null=True,
        help_text="The similarity of the meanings, 0 to 1; null if meanings are not compared.",
    )


class VariantOutput(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    endpoint = serializers.IntegerField()


class ToolRow(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    tool_id = serializers.CharField(
        help_text="The vendor's id; for prompts and resources with the kind in front, as an address."
    )
    kind = serializers.ChoiceField(choices=ItemKind.choices)
    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    vendor = serializers.SlugField()
    vendor_name = serializers.CharField()
    endpoint = serializers.IntegerField()
    protocol = serializers.CharField()
    version = serializers.CharField(
        help_text="The vendor's name of the current version; empty if it has none."
    )
    ordinal = serializers.IntegerField()
    version_name = serializers.CharField(help_text="The name of the version that pages show.")
    status = serializers.ChoiceField(choices=ToolStatus.choices)
    is_stopped = serializers.BooleanField(
        help_text="True while every version of the tool is held for review or blocked."
    )
    tags = serializers.ListField(child=serializers.CharField())
    tokens = serializers.IntegerField(help_text="The estimated tokens of the tool as shown here.")
    effect = serializers.ChoiceField(
        choices=get_args(Effect), help_text="The most severe effect of a call, after tunings."
    )
    is_tuned = serializers.BooleanField(
        help_text="True if the description and the tokens are of a tuned text."
    )
    changed_at = serializers.DateTimeField()
    why = WhyOutput(
        allow_null=True, help_text="The reasons why the query found the tool; null without a query."
    )
    variants = VariantOutput(
        many=True, help_text="The same tool at other endpoints of the vendor. These have no rows."
    )


class FacetValueOutput(serializers.Serializer[Any]):
    value = serializers.CharField(help_text="The value for the query parameter of this name.")
    label = serializers.CharField(help_text="The value as pages show it.")  # type: ignore[assignment]
    count = serializers.IntegerField(help_text="The number of tools with this value.")


class ToolRows(serializers.Serializer[Any]):
    """A page of tools. `unmatched`: words that match no tool. `repaired`: maps misspelt words to the
    searched ones."""

    count = serializers.IntegerField(
        help_text="The number of matching tools. A query lists at most the best thousand."
    )
    row_count = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "The number of rows: a tool at several endpoints of a vendor has one row, except with"
            " `sort=-used`. Null if counting takes too long."
        ),
    )
    fits_badly = serializers.BooleanField(help_text="True if no result fits the query well.")

    results = ToolRow(many=True)
    facets = serializers.DictField(
        child=FacetValueOutput(many=True),
        required=False,
        help_text=f"With `facets=1`: up to {MAX_VALUES} values of each of {', '.join(FACETS)}. The "
        "counts of a facet ignore its own values, except those of `tag`, of which a tool has all.",
    )
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    unmatched = serializers.ListField(child=serializers.CharField())
    repaired = serializers.DictField(child=serializers.CharField())
    progress = ProgressOutput(help_text="The progress of indexing the whole catalog.")


SOME_TEXT = {"type": "string", "minLength": 1}
PARAMETERS = [
    OpenApiParameter("q", str, description=f"Words or a question, up to {MAX_QUESTION_LENGTH} characters."),
    OpenApiParameter(
        "vendor",
        {"type": "array", "items": SOME_TEXT},
        description="The slug of a vendor. It may be repeated.",
    ),
    OpenApiParameter("protocol", str, enum=[name for name, _ in protocols.choices()], many=True),
    OpenApiParameter(
        "tag",
        {"type": "array", "items": SOME_TEXT},
        description=(
            "A tag, in any spelling (`E-Mail`, `email`). With several, a tool must have all of them."
        ),
    ),
    OpenApiParameter("effect", str, enum=EFFECTS, many=True),
    OpenApiParameter(
        "requirement", str, enum=REQUIREMENTS, many=True, description="The requirement of a call."
    ),
    OpenApiParameter("used", str, enum=USED, many=True, description="`true`: tools that agents use."),
    OpenApiParameter(
        "kind",
        str,
        enum=[*ItemKind.values, ANY_KIND],
        many=True,
        description="The kind of item; tools by default. It may be repeated.",
    ),
    OpenApiParameter("status", str, enum=ToolStatus.values, many=True),
    OpenApiParameter(
        "changed_since",
        {"type": "array", "items": SOME_TEXT},
        description=f"{', '.join(f'`{name}`' for name in CHANGE_SPANS)} (of 30 days), or a date (UTC) such "
        "as `2026-11-01`. Of several, the earliest counts.",
    ),
    OpenApiParameter(
        "version",
        SOME_TEXT,
        description="The vendor's name of the current version, such as `2` or `1.0.0`.",
    ),
    OpenApiParameter("endpoint", {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}),
    OpenApiParameter("as_typed", bool, description="`true` searches misspelt words as they are."),
    OpenApiParameter("sort", str, enum=SORT_NAMES),
    OpenApiParameter("facets", str, enum=["1"], description="True returns `facets` too."),
    OpenApiParameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
    ),
    OpenApiParameter("cursor", SOME_TEXT, description="The cursor from the links of another page."),
]


class ToolList(APIView):
    """Searches names, titles, descriptions, tags, vendors and parameters of all tools at once."""

    def within(self, request: Request) -> frozenset[int] | None:
        """Return the keys of the vendors to search; None for all."""
        return None

    def use_counts(self) -> dict[int, int]:
        """Return the number of agents that use each tool; tools without agents are left out."""
        return {}

    @extend_schema(operation_id="tools_list", parameters=PARAMETERS, responses=ToolRows)
    def get(self, request: Request) -> Response:
        query = replace(_read_query(request), within=self.within(request), use_counts=self.use_counts())
        text = request.query_params.get("facets")
        if text not in (None, "1"):
            raise invalid(facets="Send 1, or leave it out.")
        page = search(query, with_facets=text == "1")
        facets = count_facets(query, page.matches) if text == "1" else None
        url = public_url(request.get_full_path(), request)
        document: dict[str, Any] = {
            "count": page.count,
            "row_count": page.row_count,
            "results": [row | {"why": row["why"] and asdict(row["why"])} for row in page.rows],
            "next": replace_query_param(url, "cursor", page.next) if page.next else None,
            "previous": replace_query_param(url, "cursor", page.previous) if page.previous else None,
            "unmatched": page.unmatched,
            "repaired": page.repaired,
            "fits_badly": page.fits_badly,
            "progress": ProgressOutput(catalog_progress()).data,
        }
        if facets is not None:
            document["facets"] = {
                name: [
                    {"value": value.value, "label": value.label, "count": value.count}
                    for value in values[:MAX_VALUES]
                ]
                for name, values in facets.items()
            }
        return Response(document)


def _read_query(request: Request) -> Query:
    parameters = request.query_params
    # A filter that a program left empty by mistake would answer with everything; only `q` may be empty.
    names = {parameter.name for parameter in PARAMETERS} - {"q"}
    empty = [name for name, values in parameters.lists() if name in names and "" in values]
    if empty:
        raise invalid(**dict.fromkeys(empty, "Send a value, or leave it out."))
    text = parameters.get("as_typed")
    if text not in (None, "true", "false"):
        raise invalid(as_typed="Send true or false.")
    return Query(
        q=parameters.get("q", ""),
        vendor=tuple(parameters.getlist("vendor")),
        protocol=tuple(parameters.getlist("protocol")),
        tag=tuple(parameters.getlist("tag")),
        kind=asked_kinds(parameters.getlist("kind")),
        effect=tuple(parameters.getlist("effect")),
        requirement=tuple(parameters.getlist("requirement")),
        used=tuple(parameters.getlist("used")),
        status=tuple(parameters.getlist("status")),
        changed_since=tuple(parameters.getlist("changed_since")),
        version=parameters.get("version", ""),
        endpoint=_parse_integer(parameters.get("endpoint"), "endpoint", 2**63 - 1),
        as_typed=text == "true",
        is_folded=True,
        sort=parameters.get("sort", ""),
        limit=_parse_integer(parameters.get("limit"), "limit", MAX_LIMIT) or DEFAULT_LIMIT,
        cursor=parameters.get("cursor", ""),
    )


def _parse_integer(text: str | None, name: str, maximum: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 1 <= int(text) <= maximum):
        sentence = (
            f"Send a whole number from 1 to {maximum}."
            if name == "limit"
            else "Send the number of an endpoint."
        )
        raise invalid(**{name: sentence})
    return int(text)
