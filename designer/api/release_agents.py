"""The agents of a release: the one that was published and its sub-agents, each with its own tools.

The addresses take the slug of any of them, and answer as those of the release itself do.
"""

from typing import Any

import msgspec
from django.http import Http404
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from designer.api.asked_releases import DOCUMENT_HEADERS, GONE, NUMBER, UNCHANGED, find_release
from designer.api.release_files import (
    EXPORT_PARAMETERS,
    EXPORT_REPLIES,
    FRESH,
    MARKDOWN,
    TOOL_FORMAT,
    TOOL_NAME,
    TOOL_REPLIES,
    ReleaseBytesView,
    ReleasedProceduresOutput,
    ReleaseTool,
    ReleaseTools,
)
from designer.exports import document as release_document
from designer.releases import publishing, receipts
from people.permissions import key_of

SUB = OpenApiParameter(
    "sub", str, OpenApiParameter.PATH, description="The slug of an agent of the release, as `agents/` has it."
)


class ReleasedTransferOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField(help_text="The sub-agent that takes over.")
    name = serializers.CharField(help_text="The name that a model sees.")
    description = serializers.CharField(help_text="The text that describes when to transfer.")


class ReleasedAgentOutput(serializers.Serializer[Any]):
    slug = serializers.SlugField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    parent = serializers.SlugField(  # type: ignore[assignment]
        allow_null=True, help_text="The slug of its parent; null for the topmost agent."
    )
    tools = serializers.IntegerField(help_text="The number of tools.")
    procedures = serializers.IntegerField(help_text="The number of procedures.")
    transfers = ReleasedTransferOutput(many=True, help_text="The transfers to its direct sub-agents.")


class ReleasedAgentsOutput(serializers.Serializer[Any]):
    results = ReleasedAgentOutput(many=True, help_text="The agents, each after its parent.")


@extend_schema(tags=["release-agents"])
class ReleaseAgents(ReleaseBytesView):
    """The tree of a release: the agent that was published, and its sub-agents."""

    @extend_schema(
        operation_id="agents_releases_agents_list",
        parameters=[NUMBER, *DOCUMENT_HEADERS],
        responses={200: ReleasedAgentsOutput, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str) -> HttpResponseBase:
        release = find_release(request, slug, number)

        def body() -> bytes:
            rows = [
                {
                    "slug": node.slug,
                    "name": node.name,
                    "description": node.description,
                    "parent": node.parent or None,
                    "tools": len(node.tools),
                    "procedures": len(node.procedures),
                    "transfers": node.transfers,
                }
                for node in release_document.decode(release.document).nodes
            ]
            return msgspec.json.encode({"results": rows})

        receipts.record_read(key_of(request), release, surface="agents", name=number)
        return self.answer(request, release.digest, body)


@extend_schema(tags=["release-agents"])
class ReleaseAgentTools(ReleaseTools):
    """The tools of one agent of a release, with its transfers as tools without inputs."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_retrieve",
        parameters=[NUMBER, SUB, *EXPORT_PARAMETERS],
        responses=EXPORT_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str, sub: str = "") -> HttpResponseBase:
        return self.exported(request, slug, number, "" if sub == slug else sub)


@extend_schema(tags=["release-agents"])
class ReleaseAgentTool(ReleaseTool):
    """One tool, or transfer, of one agent of a release."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_one_retrieve",
        parameters=[NUMBER, SUB, TOOL_NAME, TOOL_FORMAT, *FRESH, *DOCUMENT_HEADERS],
        responses=TOOL_REPLIES,
    )
    def get(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        return self.one(request, slug, number, name, "" if sub == slug else sub)


@extend_schema(tags=["release-agents"])
class ReleaseAgentProcedures(ReleaseBytesView):
    """The operating procedures of one agent of a release, in their order."""

    @extend_schema(
        operation_id="agents_releases_agents_procedures_list",
        parameters=[NUMBER, SUB, *DOCUMENT_HEADERS],
        responses={200: ReleasedProceduresOutput, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str, sub: str) -> HttpResponseBase:
        release = find_release(request, slug, number)
        procedures = publishing.part_of(release, "" if sub == slug else sub).procedures
        receipts.record_read(key_of(request), release, surface=_surface_of(slug, sub), name=number)
        return self.answer(request, release.digest, lambda: msgspec.json.encode({"results": procedures}))


@extend_schema(tags=["release-agents"])
class ReleaseAgentProcedure(ReleaseBytesView):
    """One operating procedure of one agent of a release, as a model reads it."""

    @extend_schema(
        operation_id="agents_releases_agents_procedures_retrieve",
        parameters=[NUMBER, SUB, *DOCUMENT_HEADERS],
        responses={(200, "text/markdown"): OpenApiTypes.STR, 304: UNCHANGED, 410: GONE},
    )
    def get(self, request: Request, slug: str, number: str, sub: str, procedure: str) -> HttpResponseBase:
        release = find_release(request, slug, number)
        rows = publishing.part_of(release, "" if sub == slug else sub).procedures
        released = next((row for row in rows if row.slug == procedure), None)
        if released is None:
            raise Http404
        receipts.record_read(key_of(request), release, surface=_surface_of(slug, sub), name=number)
        return self.answer(request, release.digest, released.text.encode, media_type=MARKDOWN)


def _surface_of(slug: str, sub: str) -> str:
    return "procedures" if sub == slug else f"{sub}/procedures"
