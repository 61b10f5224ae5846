from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.endpoints import ErrorOutput, NoteOutput, RunStarted
from catalog.api.progress import ProgressOutput
from catalog.enumeration import runs as enumeration_runs
from catalog.models import LastReply, Rejection, Run
from catalog.models.runs import RunState
from catalog.tools.progress import progress_of
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person

REJECTIONS_IN_A_LIST = 20


class RejectionOutput(serializers.ModelSerializer[Rejection]):
    class Meta:
        model = Rejection
        fields = ["tool", "code", "reason"]
        read_only_fields = fields


class RunOutput(serializers.ModelSerializer[Run]):
    """`rejections` holds at most 1,000 rows; `rejected` counts them all."""

    error = serializers.SerializerMethodField()
    state = serializers.ChoiceField(
        choices=RunState.choices, read_only=True, help_text="`status`, or that a person decides about it."
    )
    notes = NoteOutput(many=True, read_only=True)
    reached = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Private addresses that were dialled, each with the deployment's entry that opens it.",
    )
    rejections = RejectionOutput(many=True, read_only=True)

    class Meta:
        model = Run
        fields = [
            "id",
            "endpoint",
            "status",
            "state",
            "trigger",
            "pages",
            "seen",
            "added",
            "changed",
            "unchanged",
            "withdrawn",
            "returned",
            "rejected",
            "would_withdraw",
            "error",
            "notes",
            "reached",
            "rejections",
            "attempt",
            "queued_at",
            "started_at",
            "finished_at",
        ]
        read_only_fields = fields

    @extend_schema_field(ErrorOutput(allow_null=True))
    def get_error(self, run: Run) -> dict[str, str] | None:
        return run.error


class RunDetailOutput(RunOutput):
    """`progress` is that of the run's endpoint as it is now."""

    progress = serializers.SerializerMethodField()

    class Meta(RunOutput.Meta):
        fields = [*RunOutput.Meta.fields, "progress"]
        read_only_fields = fields

    @extend_schema_field(ProgressOutput)
    def get_progress(self, run: Run) -> Any:
        return ProgressOutput(progress_of([run.endpoint_id])).data


class RunRow(RunOutput):
    """A run in a list, with the first 20 of its `rejections`."""

    rejections = RejectionOutput(source="first_rejections", many=True, read_only=True)


class RunFilter(serializers.Serializer[Any]):
    endpoint = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    with_changes = serializers.BooleanField(
        required=False, help_text="Only those that added, changed, withdrew or brought back a tool."
    )


class RunList(ListAPIView[Run]):
    serializer_class = RunRow
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Run]:
        given = RunFilter(data=self.request.query_params.dict())
        given.is_valid(raise_exception=True)
        first = Prefetch(
            "rejections", Rejection.objects.order_by("id")[:REJECTIONS_IN_A_LIST], to_attr="first_rejections"
        )
        asked = dict(given.validated_data)
        is_narrowed = asked.pop("with_changes", False)
        rows = Run.objects.filter(**asked).select_related("endpoint").prefetch_related(first)
        return rows.with_changes() if is_narrowed else rows

    @extend_schema(parameters=[RunFilter])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class RunDetail(GenericAPIView[Run]):
    serializer_class = RunDetailOutput
    pagination_class = None

    def get(self, request: Request, pk: int) -> Response:
        run = get_object_or_404(Run.objects.select_related("endpoint").prefetch_related("rejections"), pk=pk)
        return Response(RunDetailOutput(run).data)


class LastReplyOutput(serializers.ModelSerializer[LastReply]):
    """Secrets are struck out. `status` is 0 when no reply came; `body` is the first 64 KB of it, as text."""

    headers = serializers.DictField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = LastReply
        fields = ["method", "url", "status", "headers", "body"]
        read_only_fields = fields


class RunReply(GenericAPIView[LastReply]):
    """What the vendor answered last before this run failed; the last ten such of an endpoint are kept."""

    read_role = Role.ADMIN
    serializer_class = LastReplyOutput
    pagination_class = None

    def get(self, request: Request, pk: int) -> Response:
        return Response(LastReplyOutput(get_object_or_404(LastReply, run=pk)).data)


class RunConfirm(GenericAPIView[Run]):
    """Confirm that the tools a held run missed are gone: reads again and withdraws up to as many."""

    write_role = Role.ADMIN
    serializer_class = RunStarted
    pagination_class = None

    @extend_schema(request=None, responses={202: RunStarted})
    def post(self, request: Request, pk: int) -> Response:
        run = get_object_or_404(Run.objects.select_related("endpoint__vendor"), pk=pk)
        return Response({"run": enumeration_runs.confirm_held(run, actor=person(request)).pk}, status=202)
