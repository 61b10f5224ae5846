from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec
from django.http import Http404, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from catalog.rules import diff
from core.errors import DomainError, invalid
from designer import exports
from designer.api.asked_releases import DOCUMENT_HEADERS, ENVIRONMENT, GONE, NUMBER, UNCHANGED, find_release
from designer.environments import environments
from designer.exports import document as release_document
from designer.exports import json_schema, transfers
from designer.exports.base import JSON
from designer.models import Release
from designer.releases import (
    fresh_signatures,
    freshness,
    preset_reads,
    publishing,
    receipts,
    release_access,
    shown_activities,
)
from designer.releases.freshness import Decision
from people.api.generics import GenericAPIView
from people.permissions import key_of, person

MARKDOWN = "text/markdown; charset=utf-8"


class AsStored(BaseContentNegotiation):
    """The bytes were settled at publishing; `format` names an export here, never a renderer."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]


class ReleaseBytesView(GenericAPIView[Release]):
    """A view that answers 304 after one indexed query on the release."""

    runtime = True
    content_negotiation_class = AsStored
    queryset = Release.objects.none()

    def answer(
        self,
        request: Request,
        tag: str,
        body: Callable[[], bytes],
        media_type: str = JSON,
        *,
        with_presets: Release | None = None,
    ) -> HttpResponseBase:
        """Reply with the body, or with 304 if the client has it.

        with_presets: the release, if the body contains its presets.
        """
        response: HttpResponse
        if publishing.etag_matches(tag, request.headers.get("If-None-Match", "")):
            response = HttpResponseNotModified()
        else:
            if with_presets and key_of(request) is None:
                preset_reads.record_preset_read(person(request), with_presets)
            response = HttpResponse(body(), content_type=media_type)
        response["ETag"] = f'"{tag}"'
        response["Cache-Control"] = publishing.CACHE_CONTROL
        return response


EXPORT_PARAMETERS = [
    OpenApiParameter("format", str, required=True, enum=[format_.name for format_ in exports.FORMATS]),
    OpenApiParameter(
        "partial",
        str,
        enum=["0", "1"],
        description="1 leaves out the tools that the format cannot carry, which the release names in "
        "`formats`; the document then has an ETag of its own.",
    ),
    ENVIRONMENT,
    *DOCUMENT_HEADERS,
]
EXPORT_REPLIES = {
    200: OpenApiResponse(
        OpenApiTypes.ANY,
        description="The release in this format; a file where the format is none of JSON.",
    ),
    304: UNCHANGED,
    409: OpenApiResponse(
        OpenApiTypes.OBJECT, description="This format cannot carry all of this release, or any of it."
    ),
    410: GONE,
}


@extend_schema(tags=["releases"])
class ReleaseTools(ReleaseBytesView):
    """The tools of a release in one format. The answer is 304 if `If-None-Match` names the ETag."""

    @extend_schema(
        operation_id="agents_releases_tools_retrieve",
        parameters=[NUMBER, *EXPORT_PARAMETERS],
        responses=EXPORT_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        return self.exported(request, slug, number)

    def exported(self, request: Request, slug: str, number: str, sub: str = "") -> HttpResponseBase:
        is_partial = request.query_params.get("partial", "0")
        if is_partial not in ("0", "1"):
            message = "Send 1 to leave out the tools that the format cannot carry, or 0."
            raise DomainError("invalid", message, fields={"partial": message})
        name, leaves_out = request.query_params.get("format", ""), is_partial == "1"
        names = publishing.export_names(name, is_partial=leaves_out, sub_agent=sub)
        release = find_release(request, slug, number, names)
        place = environments.choose_environment(
            release, key_of(request), request.query_params.get("environment", "")
        )
        # Only a stored export can be unchanged: any other may have to be refused.
        stored_name, body = next((row for row in names if row in release.written), ""), None
        if not stored_name:
            body, stored_name = publishing.export(release, name, is_partial=leaves_out, sub_agent=sub)
        receipts.record_read(key_of(request), release, surface=names[0], name=number)
        release_access.mark_answered(request.META, key_of(request), release)
        tag = release.digest if stored_name == names[0] else f"{release.digest}{publishing.PARTIAL}"
        format_ = publishing.find_format(name)

        def read_body() -> bytes:
            return body or publishing.export(release, name, is_partial=leaves_out, sub_agent=sub)[0]

        if format_.resolve:
            as_published = read_body()
            body = shown_activities.with_activities(release, format_, as_published, place, sub_agent=sub)
            tag = shown_activities.etag_with_activities(tag, as_published, body)
        response = self.answer(request, tag, read_body, format_.media_type, with_presets=release)
        if not format_.is_text:
            file_name = f"{sub or slug}-{number}.{name}.{format_.suffix}".replace(":", "-")
            response["Content-Disposition"] = f'attachment; filename="{file_name}"'
        return response


TOOL_NAME = OpenApiParameter(
    "name", str, OpenApiParameter.PATH, description="The name of the tool that a model sees."
)
TOOL_FORMAT = OpenApiParameter(
    "format", str, enum=[format_.name for format_ in exports.FORMATS], description="`json-schema` if unsaid."
)
# Of the signature that is answered: which it is, and what it differs in from that of the release.
_SIGNATURE = (
    (
        "Pegboard-Signature",
        "`fresh`: as it is at the vendor. `cached`: that of the release.",
        ("fresh", "cached"),
    ),
    ("Pegboard-Signature-Reason", "Why it is `cached`.", tuple(freshness.REASONS)),
    (
        "Pegboard-Signature-Version",
        "The version, as the vendor numbers it, percent-encoded; absent for none.",
        (),
    ),
    (
        "Pegboard-Signature-Ordinal",
        "Pegboard's number of it. A call with this signature sends it as `ordinal`.",
        (),
    ),
    (
        "Pegboard-Signature-Class",
        "What the vendor has changed since the release; absent where the vendor was not asked.",
        diff.CLASSES,
    ),
)
FRESH = [
    ENVIRONMENT,
    OpenApiParameter(
        "fresh",
        str,
        enum=["0", "1"],
        description="1 requests the tool of its vendor, if the tool follows the vendor and was not "
        "requested in the last minute. A signature that only adds inputs and outputs to the "
        "released one replaces it, with the texts of the release. The headers state which one"
        " the answer has.",
    ),
    *(
        OpenApiParameter(
            name,
            str,
            OpenApiParameter.HEADER,
            response=[200, 304],
            description=help_text,
            enum=values or None,
        )
        for name, help_text, values in _SIGNATURE
    ),
]
TOOL_REPLIES = {
    **EXPORT_REPLIES,
    200: OpenApiResponse(OpenApiTypes.ANY, description="The tool, as the export of all tools has it."),
}


@extend_schema(tags=["releases"])
class ReleaseTool(ReleaseBytesView):
    """One tool of a release in one format."""

    @extend_schema(
        operation_id="agents_releases_tools_one_retrieve",
        parameters=[NUMBER, TOOL_NAME, TOOL_FORMAT, *FRESH, *DOCUMENT_HEADERS],
        responses=TOOL_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str, name: str) -> HttpResponseBase:
        return self.one(request, slug, number, name)

    def one(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        format_ = request.query_params.get("format", json_schema.FORMAT.name)
        release = find_release(request, slug, number)
        # Checked before 304: a missing tool cannot be unchanged.
        body = publishing.export_of_tool(release, format_, name, sub_agent=sub)
        surface = publishing.export_names(format_, is_partial=False, sub_agent=sub)[0]
        is_fresh = request.query_params.get("fresh", "0")
        if is_fresh not in ("0", "1"):
            raise invalid(fresh="Send 1 for the signature as it is now, or 0 for that of the release.")
        receipts.record_read(key_of(request), release, surface=surface, name=number)
        place = environments.choose_environment(
            release, key_of(request), request.query_params.get("environment", "")
        )
        how, tag = publishing.find_format(format_), release.digest
        if how.resolve:
            as_published = body
            body = shown_activities.with_activities(
                release, how, as_published, place, sub_agent=sub, tool=name
            )
            tag = shown_activities.etag_with_activities(tag, as_published, body)
        if is_fresh == "0":
            return self.answer(request, tag, lambda: body, with_presets=release)
        released_tools = transfers.with_transfers_as_tools(publishing.part_of(release, sub)).tools
        released = next(tool for tool in released_tools if tool.signature.name == name)
        decision = fresh_signatures.read_fresh(released)
        if decision.tool != released:
            other = publishing.export_of_version(release, format_, decision.tool, sub_agent=sub)
            if other is None:
                decision = replace(decision, tool=released, reason="not_carried")
            else:
                # The words are of the release, and a version never changes.
                body = shown_activities.with_activities(release, how, other, place, sub_agent=sub, tool=name)
                tag = f"{tag}.{decision.tool.version.ordinal}"
        response = self.answer(request, tag, lambda: body, with_presets=release)
        for header, value in _freshness_headers(decision).items():
            response[header] = value
        return response


def _freshness_headers(decision: Decision) -> dict[str, str]:
    version = decision.tool.version
    headers = {
        "Pegboard-Signature": "fresh" if decision.is_fresh else "cached",
        "Pegboard-Signature-Reason": decision.reason,
        # Vendors may write anything, and a header holds ASCII.
        "Pegboard-Signature-Version": quote(version.label),
        "Pegboard-Signature-Ordinal": str(version.ordinal),
        "Pegboard-Signature-Class": decision.class_ or "",
    }
    return {header: value for header, value in headers.items() if value}


@extend_schema(tags=["releases"])
class ReleaseBundle(ReleaseBytesView):
    """The whole release document. The answer is 304 if `If-None-Match` names the ETag."""

    @extend_schema(
        operation_id="agents_releases_bundle_retrieve",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={
            200: OpenApiResponse(OpenApiTypes.OBJECT, description="The whole release document."),
            304: UNCHANGED,
            410: GONE,
        },
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        release = find_release(request, slug, number)
        receipts.record_read(key_of(request), release, surface="bundle", name=number)
        release_access.mark_answered(request.META, key_of(request), release)
        return self.answer(request, release.digest, lambda: release.document.encode(), with_presets=release)


class ReleasedReferenceOutput(serializers.Serializer[Any]):
    line = serializers.IntegerField(help_text="The line in `text`, from 1.")
    kind = serializers.ChoiceField(["tool", "input", "output", "agent", "item"])
    name = serializers.CharField(allow_blank=True, help_text="The name of the tool or the transfer.")
    member = serializers.CharField(allow_blank=True, help_text="The name of the input, output or item.")


class ReleasedProcedureOutput(serializers.Serializer[Any]):
    slug = serializers.SlugField()
    title = serializers.CharField()
    text = serializers.CharField(help_text="The markdown that a model reads.")
    references = ReleasedReferenceOutput(many=True)


class ReleasedProceduresOutput(serializers.Serializer[Any]):
    results = ReleasedProcedureOutput(many=True)


@extend_schema(tags=["releases"])
class ReleaseProcedures(ReleaseBytesView):
    """The operating procedures of a release, in their order."""

    @extend_schema(
        operation_id="agents_releases_procedures_list",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={200: ReleasedProceduresOutput, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        release = find_release(request, slug, number)

        def body() -> bytes:
            procedures = release_document.decode(release.document).procedures
            return msgspec.json.encode({"results": procedures})

        receipts.record_read(key_of(request), release, surface="procedures", name=number)
        return self.answer(request, release.digest, body)


@extend_schema(tags=["releases"])
class ReleaseProcedure(ReleaseBytesView):
    """One operating procedure of a release, as a model reads it."""

    @extend_schema(
        operation_id="agents_releases_procedures_retrieve",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={(200, "text/markdown"): OpenApiTypes.STR, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str, procedure: str) -> HttpResponseBase:
        release = find_release(request, slug, number)
        procedures = release_document.decode(release.document).procedures
        released_procedure = next((row for row in procedures if row.slug == procedure), None)
        if released_procedure is None:
            raise Http404
        receipts.record_read(key_of(request), release, surface="procedures", name=number)
        return self.answer(request, release.digest, released_procedure.text.encode, media_type=MARKDOWN)
