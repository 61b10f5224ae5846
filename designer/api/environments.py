from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Activity, ActivityVersion
from catalog.rules import diff
from core.errors import DomainError, invalid
from core.serializers import Input, ModelChange, ModelInput, ModelOutput, input_field, valid_data
from designer.api.agents import chosen_agent
from designer.environments import activity_updates, bound_tools, environments, mocks
from designer.environments.activity_updates import ActivityUpdate
from designer.environments.bound_tools import BoundTool
from designer.models import Agent, Binding, Environment, Pin, Release
from designer.upgrades import binding_moves
from designer.upgrades.binding_moves import Acceptance
from execution.activities import operations
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person

NAME = OpenApiParameter("env", str, OpenApiParameter.PATH, description="Its name: `production`, `test`.")
TOOL = OpenApiParameter(
    "tool", str, OpenApiParameter.PATH, description="The name of the tool that a model sees."
)
AGENT = OpenApiParameter(
    "agent",
    str,
    description="The slug of the sub-agent that has the tool, where two agents of the tree have one of this "
    "name. Else the first one's, in the order of the tree.",
)


class AcceptanceInput(Input):
    accept = serializers.ListField(
        child=serializers.CharField(max_length=60),
        required=False,
        max_length=100,
        help_text="Codes of failed checks to accept. 409 `checks_failed` lists them.",
    )
    reason = input_field(
        Release._meta.get_field("reason"),
        help_text="The reason why failed checks are accepted; stored in the audit trail.",
    )


class EnvironmentInput(AcceptanceInput, ModelInput):
    name = serializers.RegexField(f"^{environments.NAME.pattern}$", max_length=30)

    class Meta:
        model = Environment
        fields = ("accept", "reason", "name", "is_default")


class EnvironmentChange(AcceptanceInput, ModelChange):
    class Meta:
        model = Environment
        fields = ("accept", "reason", "is_default", "is_protected")
        extra_kwargs = {
            "is_default": {
                "help_text": "Whether it is that of callers who name none. An agent has one such, or none."
            },
            "is_protected": {
                "help_text": "Whether only an administrator, or a designer who has not saved the version of "
                "the activity, changes what runs there. Only an administrator takes it back."
            },
        }


class EnvironmentOutput(ModelOutput[Environment]):
    class Meta:
        model = Environment
        fields = ["name", "is_default", "is_protected", "created_at"]


class EnvironmentListOutput(serializers.Serializer[Any]):
    results = EnvironmentOutput(many=True, help_text="The environments, the oldest first; at most 10.")


_ACTIVITY_HELP = "The id of an activity; null leaves the tool to the model."
_VERSION_HELP = (
    "The number of one of its versions. Absent: a binding to the same activity keeps its version, and a new "
    "one gets the newest."
)


class BindingChange(AcceptanceInput):
    activity = serializers.IntegerField(allow_null=True, min_value=1, help_text=_ACTIVITY_HELP)
    activity_version = serializers.IntegerField(required=False, min_value=1, help_text=_VERSION_HELP)


class BindingPatch(AcceptanceInput):
    activity = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text=f"{_ACTIVITY_HELP} Absent: the one that runs now.",
    )
    activity_version = serializers.IntegerField(required=False, min_value=1, help_text=_VERSION_HELP)


class BindingInput(BindingChange):
    tool = serializers.CharField(max_length=64, help_text="The name of the tool that a model sees.")
    agent = serializers.SlugField(
        max_length=60,
        required=False,
        help_text="The sub-agent of the tool; required if several have a tool of this name.",
    )


_UPDATE_MEMBERS = {
    "activity_version": serializers.IntegerField(help_text="The number of the newest version."),
    "class": serializers.ChoiceField(choices=diff.CLASSES),
    "changes": serializers.ListField(child=serializers.CharField(), help_text="Sentences for people."),
    "refusal": serializers.CharField(help_text="Why it cannot run for this tool. Else empty."),
}
# One of the members is a word of Python's, so no class can declare it.
BindingUpdateOutput = type("BindingUpdateOutput", (serializers.Serializer,), dict(_UPDATE_MEMBERS))


class BindingOutput(serializers.Serializer[Any]):
    """The activity that runs for one tool, with or without a binding."""

    tool = serializers.CharField(source="pin.name")
    agent = serializers.SlugField(
        source="pin.agent.slug", help_text="The agent of the tree that has the tool."
    )
    is_bound = serializers.BooleanField()
    runs = serializers.ChoiceField(
        source="resolution.runs",
        choices=["vendor", "activity", "latent", "nothing"],
        help_text="`latent`: the model answers itself. `nothing`: calls are refused; `message` has the "
        "reason.",
    )
    why = serializers.ChoiceField(
        source="resolution.why",
        choices=["bound", "explicit", "vendor", "same_name", "no_activity"],
        help_text="`bound` here; `explicit`: named by its definition; `same_name`: the activity of its name; "
        "`vendor`: it is a vendor's; `no_activity`: there is none of its name.",
    )
    activity = serializers.IntegerField(source="activity.pk", default=None, allow_null=True)
    activity_name = serializers.CharField(source="activity.name", default="")
    activity_version = serializers.IntegerField(
        source="version.number",
        default=None,
        allow_null=True,
        help_text="The version of the activity that runs.",
    )
    kind = serializers.CharField(source="version.kind", default="")
    update = serializers.SerializerMethodField(  # type: ignore[assignment]
        help_text="The newest version of the activity, if it is another one; else null."
    )
    digest = serializers.CharField(
        source="pin.version.digest",
        help_text="The digest of the tool's signature.",
    )
    code = serializers.CharField(source="resolution.fault.code", default="")
    message = serializers.CharField(source="resolution.fault.message", default="")

    @extend_schema_field(BindingUpdateOutput(allow_null=True))
    def get_update(self, bound: BoundTool) -> dict[str, Any] | None:
        update = activity_updates.update_of(bound)
        return None if update is None else update_row(update)


class BindingListOutput(serializers.Serializer[Any]):
    results = BindingOutput(many=True, help_text="The tools of the agent, then those of its sub-agents.")


def update_row(update: ActivityUpdate) -> dict[str, Any]:
    return {
        "activity_version": update.version.number,
        "class": update.change.class_,
        "changes": list(update.change.sentences),
        "refusal": update.refusal,
    }


def chosen_environment(request: Request, slug: str, env: str) -> Environment:
    rows = Environment.objects.select_related("agent")
    return get_object_or_404(rows, agent=chosen_agent(request, slug), name=env)


def chosen_tool(environment: Environment, name: str, agent: str = "") -> Pin | None:
    pins = bound_tools.pins_of(environment.agent)
    return next((pin for pin in pins if pin.name == name and agent in ("", pin.agent.slug)), None)


@extend_schema(tags=["environments"])
class EnvironmentList(GenericAPIView[Environment]):
    """The environments of an agent. Different activities may run for its tools in each; signatures and
    releases are the same.
    """

    write_role = Role.DESIGNER
    runtime = True
    serializer_class = EnvironmentListOutput
    queryset = Environment.objects.none()

    @extend_schema(operation_id="agents_environments_list", responses=EnvironmentListOutput)
    def get(self, request: Request, slug: str) -> Response:
        rows = chosen_agent(request, slug).environments.all()
        return Response(EnvironmentListOutput({"results": rows}).data)

    @extend_schema(
        operation_id="agents_environments_create",
        request=EnvironmentInput,
        responses={201: EnvironmentOutput},
    )
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = EnvironmentInput.parse(request.data)
        environment = binding_moves.create_environment(
            agent,
            actor=person(request),
            name=values["name"],
            is_default=values.get("is_default", False),
            acceptance=_read_acceptance(values),
        )
        return Response(EnvironmentOutput(environment).data, status=201)


@extend_schema(tags=["environments"])
class EnvironmentDetail(GenericAPIView[Environment]):
    """Removing an environment removes its bindings. Keys and callers that name it are refused from then on:
    nothing runs at a vendor in its place."""

    write_role = Role.DESIGNER
    runtime = True
    serializer_class = EnvironmentOutput
    queryset = Environment.objects.none()

    @extend_schema(parameters=[NAME])
    def get(self, request: Request, slug: str, env: str) -> Response:
        return Response(EnvironmentOutput(chosen_environment(request, slug, env)).data)

    @extend_schema(parameters=[NAME], request=EnvironmentChange)
    def patch(self, request: Request, slug: str, env: str) -> Response:
        row = chosen_environment(request, slug, env)
        values = valid_data(EnvironmentChange(data=request.data))
        with transaction.atomic():
            if "is_default" in values:
                is_default = values["is_default"]
                row = binding_moves.make_default(
                    row,
                    actor=person(request),
                    is_default=is_default,
                    acceptance=_read_acceptance(values),
                )
            if "is_protected" in values:
                is_protected = values["is_protected"]
                row = environments.protect(row, actor=person(request), is_protected=is_protected)
        return Response(EnvironmentOutput(row).data)

    @extend_schema(parameters=[NAME], responses={204: None})
    def delete(self, request: Request, slug: str, env: str) -> Response:
        environments.remove(chosen_environment(request, slug, env), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["bindings"])
class BindingList(GenericAPIView[Binding]):
    """The activity that runs for each tool in one environment."""

    write_role = Role.DESIGNER
    serializer_class = BindingListOutput
    queryset = Binding.objects.none()

    @extend_schema(operation_id="agents_environments_bindings_list", parameters=[NAME])
    def get(self, request: Request, slug: str, env: str) -> Response:
        rows = bound_tools.tools_bound_in(chosen_environment(request, slug, env))
        return Response(BindingListOutput({"results": rows}).data)

    @extend_schema(
        operation_id="agents_environments_bindings_create",
        parameters=[NAME],
        request=BindingInput,
        responses={200: BindingOutput},
    )
    def post(self, request: Request, slug: str, env: str) -> Response:
        """Bind an activity to a tool. It replaces an earlier binding."""
        environment = chosen_environment(request, slug, env)
        values = BindingInput.parse(request.data)
        pin = chosen_tool(environment, values["tool"], values.get("agent", ""))
        if pin is None:
            raise invalid(tool=f"“{environment.agent}” has no tool of this name.")
        return _bind_activity(request, environment, pin, values)


@extend_schema(tags=["bindings"])
class BindingDetail(GenericAPIView[Binding]):
    """The activity that runs for one tool in one environment. Without a binding, the activity that a
    definition names runs for it, else the activity of the same name, else none (it is latent). A vendor's
    tool runs at its vendor.
    """

    write_role = Role.DESIGNER
    serializer_class = BindingOutput
    queryset = Binding.objects.none()

    @extend_schema(parameters=[NAME, TOOL, AGENT])
    def get(self, request: Request, slug: str, env: str, tool: str) -> Response:
        environment, pin = self._find_environment_and_pin(request, slug, env, tool)
        return _binding_response(environment, pin)

    @extend_schema(parameters=[NAME, TOOL, AGENT], request=BindingChange)
    def put(self, request: Request, slug: str, env: str, tool: str) -> Response:
        environment, pin = self._find_environment_and_pin(request, slug, env, tool)
        return _bind_activity(request, environment, pin, BindingChange.parse(request.data))

    @extend_schema(
        operation_id="agents_environments_bindings_move",
        parameters=[NAME, TOOL, AGENT],
        request=BindingChange,
        responses=BindingOutput,
    )
    def post(self, request: Request, slug: str, env: str, tool: str) -> Response:
        """The same as PUT."""
        return self.put(request, slug, env, tool)

    @extend_schema(parameters=[NAME, TOOL, AGENT], request=BindingPatch)
    def patch(self, request: Request, slug: str, env: str, tool: str) -> Response:
        """Move the binding to another version of its activity, or bind another activity."""
        environment, pin = self._find_environment_and_pin(request, slug, env, tool)
        values = BindingPatch.parse(request.data)
        if "activity" not in values:
            activity = bound_tools.tools_bound_in(environment, [pin])[0].activity
            if activity is None:
                raise invalid(activity="No activity runs for this tool here. Name one.")
            values = {**values, "activity": activity.pk}
        return _bind_activity(request, environment, pin, values)

    @extend_schema(parameters=[NAME, TOOL, AGENT, AcceptanceInput], responses={204: None})
    def delete(self, request: Request, slug: str, env: str, tool: str) -> Response:
        environment, pin = self._find_environment_and_pin(request, slug, env, tool)
        values = AcceptanceInput.parse(
            {
                "accept": request.query_params.getlist("accept"),
                "reason": request.query_params.get("reason", ""),
            }
        )
        binding_moves.unbind(
            environment, pin.tool, actor=person(request), acceptance=_read_acceptance(values)
        )
        return Response(status=204)

    def _find_environment_and_pin(
        self, request: Request, slug: str, env: str, tool: str
    ) -> tuple[Environment, Pin]:
        environment = chosen_environment(request, slug, env)
        pin = chosen_tool(environment, tool, request.query_params.get("agent", ""))
        if pin is None:
            raise DomainError("not_found", f"“{environment.agent}” has no tool of this name.", status=404)
        return environment, pin


class NamedActivityChange(AcceptanceInput):
    activity_version = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of the version; the newest if omitted."
    )


@extend_schema(tags=["bindings"])
class NamedActivityDetail(GenericAPIView[Binding]):
    """The activity that runs for a tool because it has the same name and nothing is bound to the tool."""

    write_role = Role.DESIGNER
    serializer_class = BindingOutput
    queryset = Binding.objects.none()

    @extend_schema(operation_id="agents_named_activities_retrieve", parameters=[TOOL, AGENT])
    def get(self, request: Request, slug: str, tool: str) -> Response:
        return self._respond(*self._find_pin(request, slug, tool))

    @extend_schema(
        operation_id="agents_named_activities_move",
        parameters=[TOOL, AGENT],
        request=NamedActivityChange,
    )
    def patch(self, request: Request, slug: str, tool: str) -> Response:
        """Move the tool to a version of the activity that has the name now."""
        agent, pin = self._find_pin(request, slug, tool)
        values = NamedActivityChange.parse(request.data)
        activity = environments.find_named_activity(pin)
        if activity is None:
            raise invalid(activity="No activity has the name by which one runs for this tool.")
        number: int | None = values.get("activity_version")
        version = operations.current(activity) if number is None else _find_version(activity, number)
        binding_moves.move_named(
            agent,
            pin.tool,
            actor=person(request),
            activity=activity,
            version=version,
            acceptance=_read_acceptance(values),
        )
        return self._respond(agent, pin)

    def _find_pin(self, request: Request, slug: str, tool: str) -> tuple[Agent, Pin]:
        agent = chosen_agent(request, slug)
        owner = request.query_params.get("agent", "")
        for pin in bound_tools.pins_of(agent):
            if pin.name == tool and owner in ("", pin.agent.slug):
                return agent, pin
        raise DomainError("not_found", f"“{agent}” has no tool of this name.", status=404)

    def _respond(self, agent: Agent, pin: Pin) -> Response:
        (bound,) = bound_tools.unbound_in(agent, [pin])
        return Response(BindingOutput(bound).data)


@extend_schema(tags=["environments"])
class EnvironmentMocks(GenericAPIView[Binding]):
    """Bind mocks to all tools in this environment. Existing mocks are used.

    If a tool cannot have a mock, nothing is bound: 409 `mocks_unmet` names such tools.
    """

    write_role = Role.DESIGNER
    serializer_class = BindingListOutput
    queryset = Binding.objects.none()

    @extend_schema(operation_id="agents_environments_mocks", parameters=[NAME], request=None)
    def post(self, request: Request, slug: str, env: str) -> Response:
        environment = chosen_environment(request, slug, env)
        mocks.bind_all(environment, actor=person(request))
        return Response(BindingListOutput({"results": bound_tools.tools_bound_in(environment)}).data)


def _read_acceptance(values: Mapping[str, Any]) -> Acceptance:
    return Acceptance(values.get("accept", ()), values.get("reason", ""))


def _find_version(activity: Activity, number: int) -> ActivityVersion:
    version = activity.versions.select_related("interface").filter(number=number).first()
    if version is None:
        raise invalid(activity_version=f"“{activity}” has no version {number}.")
    return version


def _bind_activity(
    request: Request, environment: Environment, pin: Pin, values: Mapping[str, Any]
) -> Response:
    activity = version = None
    pk, number = values["activity"], values.get("activity_version")
    if pk is None and number is not None:
        raise invalid(activity_version="Name the activity too: a latent tool has no version.")
    if pk is not None:
        activity = Activity.objects.live().select_related("current__interface").filter(pk=pk).first()
        if activity is None:
            raise invalid(activity="There is no such activity.")
        version = None if number is None else _find_version(activity, number)
    binding_moves.bind(
        environment,
        pin.tool,
        actor=person(request),
        activity=activity,
        version=version,
        acceptance=_read_acceptance(values),
    )
    return _binding_response(environment, pin)


def _binding_response(environment: Environment, pin: Pin) -> Response:
    bound: BoundTool = next(iter(bound_tools.tools_bound_in(environment, [pin])))
    return Response(BindingOutput(bound).data)
