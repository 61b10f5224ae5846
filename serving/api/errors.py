from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.rules import call_errors
from designer.api.asked_releases import NUMBER, find_release
from designer.api.release_agents import SUB
from designer.exports import transfers
from designer.models import Release
from people.api.generics import GenericAPIView
from serving.api.invoke import NAME
from serving.calls import released_version
from serving.released_documents import load_sealed_release


class ErrorKindOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    description = serializers.CharField(help_text="The vendor's description; may be empty.")
    is_transient = serializers.BooleanField(
        allow_null=True, help_text="True if the error is expected to pass by itself; null if unknown."
    )
    details_schema = serializers.JSONField(
        allow_null=True, help_text="A JSON Schema of the details of the error; null if there are none."
    )


class ErrorsOutput(serializers.Serializer[Any]):
    tool = serializers.CharField()
    ours = ErrorKindOutput(
        many=True,
        help_text=(
            "The code. In capital letters it is `error.code` of an outcome, in small letters "
            "`code` of a refusal. `xx` replaces digits of a status, and `…` the rest of a code."
        ),
    )
    vendor = ErrorKindOutput(
        many=True,
        help_text="The errors that the vendor's document declares for this tool, by the vendor's codes "
        "or by statuses of HTTP. An outcome has the vendor's code in `error.vendor`.",
    )


@extend_schema(tags=["invoke"])
class ReleaseErrors(GenericAPIView[Release]):
    """The ways in which a call of a tool may fail: Pegboard's codes, and those that its vendor declares."""

    runtime = True
    serializer_class = ErrorsOutput
    queryset = Release.objects.none()

    @extend_schema(operation_id="agents_releases_tools_errors", parameters=[NUMBER, NAME])
    def get(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> Response:
        tool = load_sealed_release(find_release(request, slug, number)).tool(name, "" if sub == slug else sub)
        if tool is None:
            raise Http404
        declared: Any = ()
        if tool.signature.kind != transfers.KIND:
            version = released_version(tool)
            declared = version.tool.endpoint.build_protocol().errors(version.decoded())
        document = {
            "tool": tool.signature.name,
            "ours": [kind._asdict() for kind in call_errors.PEGBOARD_ERRORS],
            "vendor": [kind._asdict() for kind in declared],
        }
        return Response(ErrorsOutput(document).data)


@extend_schema(tags=["invoke"])
class ReleaseAgentErrors(ReleaseErrors):
    """The possible errors of a tool of one agent of a release."""

    @extend_schema(operation_id="agents_releases_agents_tools_errors", parameters=[NUMBER, SUB, NAME])
    def get(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> Response:
        return super().get(request, slug, number, name, sub)
