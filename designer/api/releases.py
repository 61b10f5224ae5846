from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelInput, ModelOutput, input_field, valid_data
from designer import exports
from designer.api.agents import chosen_agent
from designer.api.asked_releases import EXPECTED, NUMBER, find_listed_release, releases_at
from designer.exports import document as release_document
from designer.exports import transfers
from designer.models import Release, Retirement
from designer.releases import channels, publishing
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person

CODES = serializers.ListField(
    child=serializers.CharField(max_length=60),
    required=False,
    max_length=100,
    help_text="The codes of failed checks that are not to stop it, each as GET `draft/` names them.",
)


class ReleaseInput(ModelInput):
    channel = serializers.RegexField(
        f"^{channels.NAME.pattern}$",
        required=False,
        max_length=30,
        help_text="The channel that will point to the release, such as `live`. Without it, no channel moves.",
    )
    expected = EXPECTED
    accept = CODES
    seen = input_field(
        publishing.SEEN,
        help_text="The digest that GET `draft/` returned. If the draft has changed since, the answer is"
        " 409 `draft_changed`.",
    )

    class Meta:
        model = Release
        fields = ("expected", "accept", "note", "channel", "reason", "seen")
        extra_kwargs = {
            "reason": {
                "help_text": "Why failed checks are accepted. The audit trail and the release contain it."
            }
        }


class CheckOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=["ok", "warning", "error"])
    message = serializers.CharField()
    where = serializers.CharField(help_text="The path of the page for the repair; may be empty.")
    accepted_by = serializers.ChoiceField(
        choices=["", "designer", "admin"], help_text="The role that may accept an error by its code."
    )


class PublishRefusal(serializers.Serializer[Any]):
    """A refusal to publish.

    With the code `checks_failed` it contains all `checks`; errors among them stop publishing.
    """

    code = serializers.CharField()
    message = serializers.CharField()
    checks = CheckOutput(many=True, required=False)


class AcceptedOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class RetirementOutput(ModelOutput[Retirement]):
    retired_by = serializers.CharField(source="retired_by.username", read_only=True)
    sunset_at = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="The time after which API keys no longer get the release; null if they still do.",
    )

    class Meta:
        model = Retirement
        fields = ["reason", "sunset_at", "retired_by", "retired_at"]


class ReleaseOutput(ModelOutput[Release]):
    agent = serializers.SlugField(source="agent.slug", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True)
    tools = serializers.IntegerField(source="tool_count", read_only=True)
    accepted = AcceptedOutput(
        many=True, read_only=True, help_text="The failed checks that were accepted at publishing."
    )
    retirement = RetirementOutput(
        read_only=True, default=None, allow_null=True, help_text="The retirement; null for none."
    )

    class Meta:
        model = Release
        fields = [
            "agent",
            "number",
            "digest",
            "tools",
            "note",
            "accepted",
            "reason",
            "created_by",
            "created_at",
            "retirement",
        ]


class RemarkOutput(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=["blocks", "warns", "loses"])
    code = serializers.CharField()
    tool = serializers.CharField()
    message = serializers.CharField()


class WireOutput(serializers.Serializer[Any]):
    """`inputs` and `outputs` map our names to the vendor's if they differ. A transfer is not a vendor's tool
    and has its `kind`.
    """

    kind = serializers.ChoiceField(
        choices=[transfers.KIND],
        required=False,
        help_text="The kind. A transfer passes the conversation to `agent`.",
    )
    agent = serializers.SlugField(required=False, help_text="The sub-agent that takes over.")

    inputs = serializers.DictField(child=serializers.CharField(), required=False)
    outputs = serializers.DictField(child=serializers.CharField(), required=False)
    whole = serializers.CharField(
        required=False, help_text="The input whose value the vendor takes in place of an object of inputs."
    )
    whole_output = serializers.CharField(
        required=False, help_text="The output that holds what came back in place of an object of outputs."
    )
    null_is_absent = serializers.BooleanField(
        required=False, help_text="True if null means that an input is absent."
    )


class FormatOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    is_available = serializers.BooleanField(
        help_text=(
            "False if a remark blocks the export. With `partial=1` the export omits the tools in `left_out`."
        )
    )
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="The tools that this format cannot carry."
    )
    remarks = RemarkOutput(many=True)
    wire = serializers.DictField(
        child=WireOutput(),
        help_text=(
            "The vendor's name by the name of the format, for each tool whose names the format "
            "changes. A call with this `format` uses the names of the format."
        ),
    )


class ReleaseDetailOutput(ReleaseOutput):
    """`problems`: how the stored release differs from what was published; empty if it does not."""

    formats = serializers.SerializerMethodField()
    problems = serializers.SerializerMethodField()

    class Meta(ReleaseOutput.Meta):
        fields = [*ReleaseOutput.Meta.fields, "formats", "problems"]

    @extend_schema_field(FormatOutput(many=True))
    def get_formats(self, release: Release) -> Any:
        return FormatOutput(formats_of(release), many=True).data

    def get_problems(self, release: Release) -> list[str]:
        return publishing.verify(release)


def formats_of(release: Release) -> list[dict[str, Any]]:
    document = release_document.decode(release.document)
    tools = transfers.with_transfers_as_tools(document).tools
    return [
        {
            "name": format_.name,
            "label": format_.label,
            "is_available": carried_part.is_whole,
            "left_out": carried_part.left_out,
            "remarks": carried_part.remarks,
            "wire": {
                tool.signature.name: mapping
                for tool in tools
                if (mapping := transfers.reverse_mapping(tool.signature, format_.wire(tool.signature)))
            },
        }
        for format_, carried_part in exports.carried_by_format(document)
    ]


@extend_schema(tags=["releases"])
class ReleaseList(ListAPIView[Release]):
    write_role = Role.DESIGNER
    runtime = True
    serializer_class = ReleaseOutput
    ordering = ("-number", "-id")

    def get_queryset(self) -> QuerySet[Release]:
        return releases_at(self.request, self.kwargs["slug"])

    @extend_schema(request=ReleaseInput, responses={201: ReleaseOutput, 409: PublishRefusal})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(ReleaseInput(data=request.data))
        release = publishing.publish(agent, actor=person(request), **values)
        return Response(ReleaseOutput(release).data, status=201)


@extend_schema(tags=["releases"])
class ReleaseDetail(GenericAPIView[Release]):
    runtime = True
    serializer_class = ReleaseDetailOutput

    @extend_schema(parameters=[NUMBER])
    def get(self, request: Request, slug: str, number: str) -> Response:
        return Response(ReleaseDetailOutput(find_listed_release(request, slug, number)).data)
