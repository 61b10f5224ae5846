from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import invalid
from core.public_url import runtimes_url
from designer.api.asked_releases import ENVIRONMENT, NUMBER, find_release
from designer.api.readiness import ReadinessStateOutput
from designer.environments import environments
from designer.exports import document as release_document
from designer.models import Release
from designer.readiness import obstacles
from people.api.generics import GenericAPIView
from people.permissions import key_of
from protocols.base import MAX_USER_LENGTH
from protocols.server import USER_HEADER

# A header, because logs contain addresses.
FOR_USER = OpenApiParameter(
    USER_HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Your own name for the user of the agent for whom the tools would run.",
)


class ObstacleOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    severity = serializers.ChoiceField(
        choices=["stops", "asks", "warns"],
        help_text=("The effect on a call: it is refused, runs once the caller adds something, or may fail."),
    )
    message = serializers.CharField()
    to_do = serializers.CharField()


class ReadinessOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField(help_text="The agent of the release that shows the tool.")
    tool = serializers.CharField(help_text="The name of the tool that a model sees.")
    runs = serializers.ChoiceField(
        choices=["vendor", "activity", "latent", "nothing"],
        help_text="The implementation: the vendor, an activity, the model itself, or nothing.",
    )
    activity = serializers.CharField(help_text="The name of the activity; empty for none.")
    can_run = serializers.BooleanField()
    obstacles = ObstacleOutput(many=True)
    state = ReadinessStateOutput(help_text="The most serious state of the tool.")


class PreflightOutput(serializers.Serializer[Any]):
    release = serializers.IntegerField()
    served_at = serializers.URLField(
        help_text="The address of the agent under the requested name; the name of a protocol follows, "
        "such as `mcp`."
    )
    environment = serializers.CharField(
        help_text="The environment in which the tools would run; empty for none."
    )
    can_run = serializers.BooleanField(help_text="True if every tool can run.")
    tools = ReadinessOutput(many=True)


@extend_schema(tags=["runtimes"])
class ReleasePreflight(GenericAPIView[Release]):
    """Check whether every tool of a release can run now. No request is sent to a vendor, and nothing
    changes.
    """

    runtime = True
    serializer_class = PreflightOutput
    queryset = Release.objects.none()

    @extend_schema(operation_id="agents_releases_preflight", parameters=[NUMBER, FOR_USER, ENVIRONMENT])
    def get(self, request: Request, slug: str, number: str) -> Response:
        release = find_release(request, slug, number)
        user = request.headers.get(USER_HEADER, "")
        if len(user) > MAX_USER_LENGTH:
            raise invalid(on_behalf_of=f"Send a name of at most {MAX_USER_LENGTH} characters.")
        place = environments.choose_environment(
            release, key_of(request), request.query_params.get("environment", "")
        )
        released = release_document.decode(release.document)
        rows = obstacles.of_document(release.agent, released, user=user, place=place)
        document = {
            "release": release.number,
            "served_at": runtimes_url(f"/serve/{release.agent.slug}/{number}/", request),
            "environment": place.name if place else "",
            "can_run": all(row.can_run for row in rows),
            "tools": [
                {
                    "agent": row.agent,
                    "tool": row.name,
                    "runs": row.runs,
                    "activity": row.activity,
                    "can_run": row.can_run,
                    "obstacles": row.obstacles,
                    "state": row.state,
                }
                for row in rows
            ],
        }
        return Response(PreflightOutput(document).data)
