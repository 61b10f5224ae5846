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
from catalog.search.progress import progress_of
from core.serializers import ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person

REJECTIONS_IN_A_LIST = 20


class RejectionOutput(ModelOutput[Rejection]):
    class Meta:
        model = Rejection
        fields = ["tool", "code", "reason"]


class RunOutput(ModelOutput[Run]):
    """A run. `rejections` contains at most 1,000 rows, and `rejected` counts all."""

    error = serializers.SerializerMethodField()
    state = serializers.ChoiceField(
        choices=RunState.choices,
        read_only=True,
        help_text="The `status`, or the state of a run that waits for a decision.",
    )
    notes = NoteOutput(many=True, read_only=True)
    reached = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text=(
            "The private addresses that were connected to, each with the entry of the allow list "
            "that permits it."
        ),
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

    @extend_schema_field(ErrorOutput(allow_null=True))
    def get_error(self, run: Run) -> dict[str, str] | None:
        return run.error


class RunDetailOutput(RunOutput):
    """`progress` is that of the run's endpoint as it is now."""

    progress = serializers.SerializerMethodField()

    class Meta(RunOutput.Meta):
        fields = [*RunOutput.Meta.fields, "progress"]

    @extend_schema_field(ProgressOutput)
    def get_progress(self, run: Run) -> Any:
        return ProgressOutput(progress_of([run.endpoint_id])).data


class RunRow(RunOutput):
    """A run in a list, with the first 20 of its `rejections`."""

    rejections = RejectionOutput(source="first_rejections", many=True, read_only=True)


class RunFilter(serializers.Serializer[Any]):
    endpoint = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    with_changes = serializers.BooleanField(
        required=False, help_text="True selects the runs that added, changed, withdrew or restored a tool."
    )


class RunList(ListAPIView[Run]):
    serializer_class = RunRow
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Run]:
        values = valid_data(RunFilter(data=self.request.query_params.dict()))
        first = Prefetch(
            "rejections", Rejection.objects.order_by("id")[:REJECTIONS_IN_A_LIST], to_attr="first_rejections"
        )
        filters = dict(values)
        is_narrowed = filters.pop("with_changes", False)
        rows = Run.objects.filter(**filters).select_related("endpoint").prefetch_related(first)
        return rows.with_changes() if is_narrowed else rows

    @extend_schema(parameters=[RunFilter])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class RunDetail(GenericAPIView[Run]):
    serializer_class = RunDetailOutput

    def get(self, request: Request, pk: int) -> Response:
        run = get_object_or_404(Run.objects.select_related("endpoint").prefetch_related("rejections"), pk=pk)
        return Response(RunDetailOutput(run).data)


class LastReplyOutput(ModelOutput[LastReply]):
    """A reply with masked secrets. `status`: 0 without a reply. `body`: its first 64 KB as text."""

    headers = serializers.DictField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = LastReply
        fields = ["method", "url", "status", "headers", "body"]


class RunReply(GenericAPIView[LastReply]):
    """The vendor's last reply before this run failed. The last ten of an endpoint are stored."""

    read_role = Role.ADMIN
    serializer_class = LastReplyOutput

    def get(self, request: Request, pk: int) -> Response:
        return Response(LastReplyOutput(get_object_or_404(LastReply, run=pk)).data)


class RunConfirm(GenericAPIView[Run]):
    """Confirm that the missing tools of a held run are to be withdrawn: starts a run that may withdraw as
    many."""

    write_role = Role.ADMIN
    serializer_class = RunStarted

    @extend_schema(request=None, responses={202: RunStarted})
    def post(self, request: Request, pk: int) -> Response:
        run = get_object_or_404(Run.objects.select_related("endpoint__vendor"), pk=pk)
        return Response({"run": enumeration_runs.confirm_held(run, actor=person(request)).pk}, status=202)
