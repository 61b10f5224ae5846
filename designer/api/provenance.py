from typing import Any

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import valid_data
from designer.api.agents import chosen_agent
from designer.releases import provenance
from people.api.generics import GenericAPIView


class ReceivedQuery(serializers.Serializer[Any]):
    at = serializers.DateTimeField(required=False, help_text="The time to report about; now by default.")
    number = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The release that a runtime requests by number.",
    )


class ApprovalOutput(serializers.Serializer[Any]):
    by = serializers.CharField()
    at = serializers.DateTimeField()
    entry = serializers.IntegerField(help_text="The id of the entry in the audit trail.")
    why = serializers.CharField(allow_blank=True)


class ReceivedTool(serializers.Serializer[Any]):
    sub_agent = serializers.CharField(
        allow_blank=True, help_text="The slug of the one that shows it; empty for the agent itself."
    )
    tool = serializers.IntegerField()
    name = serializers.CharField(help_text="The name of the tool that a model saw.")
    vendor = serializers.CharField()
    version = serializers.CharField(help_text="The vendor's name of the version; empty if it has none.")
    ordinal = serializers.IntegerField()
    version_name = serializers.CharField(help_text="The name of the version that pages show.")
    digest = serializers.CharField(help_text="The digest of the vendor's document.")
    pinned = ApprovalOutput(allow_null=True)
    accepted = ApprovalOutput(
        allow_null=True, help_text="The acceptance of the version; null if the endpoint's policy accepted it."
    )
    worded = ApprovalOutput(
        allow_null=True, help_text="The user who last edited the tuned texts, if there are any."
    )


class ReceivedOutput(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    digest = serializers.CharField()
    published = ApprovalOutput()
    tools = ReceivedTool(many=True)


class AgentReceived(GenericAPIView[Any]):
    """The release that a runtime of the agent received at a time, and who approved each part of it."""

    serializer_class = ReceivedOutput

    @extend_schema(
        operation_id="agents_received_retrieve", parameters=[ReceivedQuery], responses=ReceivedOutput
    )
    def get(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(ReceivedQuery(data=request.query_params.dict()))
        answer = provenance.find_received_release(
            agent, received_at=values.get("at") or timezone.now(), number=values.get("number")
        )
        if answer is None:
            raise Http404
        return Response(ReceivedOutput(answer).data)
