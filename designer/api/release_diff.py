from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import DomainError
from core.serializers import Input, valid_data
from designer.api.asked_releases import NUMBER, chosen_release, releases_at, report_retirement
from designer.exports import document as release_document
from designer.models import Release
from designer.releases import publishing, recorded_bindings
from designer.releases.masked_changes import compare_masked
from people.api.generics import GenericAPIView


class MemberOutput(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="The path in what a model sees: `inputs.city.description`.")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ToolChangeOutput(serializers.Serializer[Any]):
    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    tool = serializers.IntegerField()
    name = serializers.CharField()
    sentences = serializers.ListField(child=serializers.CharField())
    members = MemberOutput(many=True)


class ProcedureChangeOutput(serializers.Serializer[Any]):
    """`before` and `after` are the texts that a model reads, empty where there is none."""

    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    slug = serializers.SlugField()
    title = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)


class TransferChangeOutput(serializers.Serializer[Any]):
    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    agent = serializers.SlugField(help_text="The sub-agent that takes over.")
    name = serializers.CharField()
    members = MemberOutput(many=True)


class AgentChangeOutput(serializers.Serializer[Any]):
    """The changes of one sub-agent; all its content if it was added or removed."""

    mark = serializers.ChoiceField(choices=["added", "removed", "changed"])
    slug = serializers.SlugField()
    name = serializers.CharField()
    agent = MemberOutput(many=True, help_text="The changed texts of the sub-agent itself.")
    tools = ToolChangeOutput(many=True)
    procedures = ProcedureChangeOutput(many=True)
    transfers = TransferChangeOutput(many=True)
    # A member of the reply, and not what the class has under this name.
    context = ToolChangeOutput(  # type: ignore[assignment]
        many=True, help_text="The changes of prompts and resources."
    )


class BindingChangeOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField()
    tool = serializers.CharField()
    message = serializers.CharField()


class ReleaseDiffOutput(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    against = serializers.IntegerField()
    agent = MemberOutput(
        source="changes.own.agent", many=True, help_text="The changed texts of the agent itself."
    )
    tools = ToolChangeOutput(source="changes.own.tools", many=True)
    procedures = ProcedureChangeOutput(source="changes.own.procedures", many=True)
    transfers = TransferChangeOutput(source="changes.own.transfers", many=True)
    # A member of the reply, and not what the class has under this name.
    context = ToolChangeOutput(  # type: ignore[assignment]
        source="changes.own.context", many=True, help_text="The changes of prompts and resources."
    )
    agents = AgentChangeOutput(
        source="changes.agents", many=True, help_text="The sub-agents that differ, the removed ones first."
    )
    bindings = BindingChangeOutput(
        many=True,
        help_text="Tools for which something else ran in the default environment when it was published.",
    )


class Against(Input):
    against = serializers.CharField(
        required=False, max_length=80, help_text="The release to compare with; the one before by default."
    )


@extend_schema(tags=["releases"])
class ReleaseDiff(GenericAPIView[Release]):
    """The differences of this release from another one: in sentences for people, and by member."""

    serializer_class = ReleaseDiffOutput

    @extend_schema(parameters=[NUMBER, Against], responses=ReleaseDiffOutput)
    def get(self, request: Request, slug: str, number: str) -> Response:
        values = valid_data(Against(data=request.query_params.dict()))
        releases = releases_at(request, slug)
        release = chosen_release(releases, number)
        report_retirement(request, release, hands_out=False)
        against = values.get("against")
        other = chosen_release(releases, against) if against else publishing.previous_release(release)
        if other is None:
            message = "There is no release before this one. Name another."
            raise DomainError("nothing_to_compare", message, fields={"against": message})
        old, new = release_document.decode(other.document), release_document.decode(release.document)
        answer = {
            "number": release.number,
            "against": other.number,
            "changes": compare_masked(old, new),
            "bindings": recorded_bindings.compare(other.bindings, release.bindings),
        }
        return Response(ReleaseDiffOutput(answer).data)
