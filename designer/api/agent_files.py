from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core import slugs
from core.serializers import Input, valid_data
from designer.api.agents import TeamOfUser, chosen_agent
from designer.files import agent_files
from designer.models import Agent
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person


class FiledPinOutput(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The name of the tool that a model sees.")
    vendor = serializers.CharField(help_text="The slug of the vendor.")
    endpoint = serializers.CharField(
        allow_blank=True, help_text="The address of the endpoint; empty for a defined tool."
    )
    protocol = serializers.CharField()
    tool_id = serializers.CharField(help_text="The vendor's id of the tool.")
    version = serializers.CharField(allow_blank=True, help_text="The vendor's name of the version.")
    digest = serializers.CharField(help_text="The digest of the vendor's text of the version.")
    tuning = serializers.JSONField(
        required=False, help_text="The tuning, in the form of `pins/{id}/tuning/`."
    )
    definition = serializers.JSONField(
        required=False, help_text="The whole form of a tool that is defined here; left out for a vendor's."
    )


class FiledProcedureOutput(serializers.Serializer[Any]):
    title = serializers.CharField()
    slug = serializers.CharField()
    body = serializers.CharField(help_text="The text, which names tools as a model sees them.")


class FiledTransferOutput(serializers.Serializer[Any]):
    name = serializers.CharField(allow_blank=True)
    description = serializers.CharField(allow_blank=True)


class FiledLimitOutput(serializers.Serializer[Any]):
    tokens = serializers.IntegerField(
        help_text="The maximum tokens of its tools and procedures in each request."
    )
    stops = serializers.BooleanField(help_text="True if exceeding the limit fails a check of publishing.")


class FiledGateOutput(serializers.Serializer[Any]):
    gate = serializers.ChoiceField(["off", "warn", "refuse"])
    at_least = serializers.IntegerField(allow_null=True, required=False)
    on_flips = serializers.BooleanField(required=False)


class FiledVendorOutput(serializers.Serializer[Any]):
    vendor = serializers.CharField(help_text="The slug of the vendor.")
    endpoints = serializers.ListField(
        child=serializers.CharField(), help_text="The addresses of its endpoints."
    )


class FiledAgentOutput(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    parent = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="The slug of an agent before it in the file; null for the first."
    )
    transfer = FiledTransferOutput(
        help_text="The text for the transfer from its parent; empty for the default."
    )
    token_limit = FiledLimitOutput(
        allow_null=True, required=False, help_text="The token limit; null for none."
    )
    rehearsal_gate = FiledGateOutput(
        required=False, help_text="The effect of its rehearsals on publishing; left out for a warning."
    )
    vendors = FiledVendorOutput(
        many=True,
        allow_null=True,
        required=False,
        help_text="The vendors that the agent may use; null for all.",
    )
    pins = FiledPinOutput(many=True)
    procedures = FiledProcedureOutput(many=True)


class AgentFileOutput(serializers.Serializer[Any]):
    """An agent with its sub-agents, to be taken by POST `agents/import/` of another installation."""

    schema = serializers.ChoiceField(choices=[agent_files.SCHEMA])
    agents = FiledAgentOutput(many=True)


class ImportInput(TeamOfUser, Input):
    file = serializers.JSONField(help_text="The file that GET `agents/{slug}/file/` returned.")
    team = serializers.SlugField(
        max_length=slugs.MAX_LENGTH, required=False, help_text="The slug of one of your teams."
    )
    dry_run = serializers.BooleanField(
        required=False, help_text="True to report what would be created, and create nothing."
    )
    accept_missing = serializers.BooleanField(
        required=False,
        help_text=(
            "True imports without missing tools, and with other versions for missing ones. "
            "Otherwise the answer is 409 `import_incomplete`, and nothing is created."
        ),
    )


class MissingOutput(serializers.Serializer[Any]):
    code = serializers.ChoiceField(choices=agent_files.CODES)
    agent = serializers.CharField(help_text="The slug of the agent in the file.")
    name = serializers.CharField(help_text="The name of the tool in the file.")
    message = serializers.CharField()


class ImportOutput(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    agents = serializers.ListField(
        child=serializers.CharField(), help_text="The slugs of the new agents, the topmost first."
    )
    pins = serializers.IntegerField()
    procedures = serializers.IntegerField()
    missing = MissingOutput(many=True)


@extend_schema(tags=["agents"])
class AgentFileDetail(GenericAPIView[Agent]):
    """The agent with its sub-agents as a file: tools by the addresses and ids of their vendors, and tuned
    texts.
    """

    serializer_class = AgentFileOutput
    queryset = Agent.objects.none()

    @extend_schema(operation_id="agents_file_retrieve")
    def get(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        disposition = f'attachment; filename="{agent.slug}.agent.json"'
        return Response(agent_files.write_file(agent), headers={"Content-Disposition": disposition})


@extend_schema(tags=["agents"])
class AgentImport(GenericAPIView[Agent]):
    """Create the agents of a file, all or none."""

    write_role = Role.DESIGNER
    serializer_class = ImportOutput
    queryset = Agent.objects.none()

    @extend_schema(
        operation_id="agents_import", request=ImportInput, responses={200: ImportOutput, 201: ImportOutput}
    )
    def post(self, request: Request) -> Response:
        values = valid_data(ImportInput(data=request.data, context={"user": person(request)}))
        is_dry_run = values.get("dry_run", False)
        done = agent_files.import_file(
            agent_files.parse_file(values["file"]),
            actor=person(request),
            team=values.get("team"),
            is_dry_run=is_dry_run,
            accept_missing=values.get("accept_missing", False),
        )
        slugs = [agent.slug for agent in done.agents.values()]
        answer = {"dry_run": is_dry_run, "agents": slugs, "pins": done.pins, "procedures": done.procedures}
        status = 200 if is_dry_run else 201
        return Response(ImportOutput(answer | {"missing": done.missing}).data, status=status)
