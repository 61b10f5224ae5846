from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from core.outbound.addresses import MAX_URL_LENGTH
from core.serializers import ModelChange, ModelOutput, input_field, valid_data
from designer.models import RehearsalJudge
from designer.rehearsals import judges
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class RehearsalJudgeChange(ModelChange):
    key = input_field(
        judges.KEY,
        help_text=(
            "The secret, which is sent only to the origin of `url` and never shown. If it is "
            "omitted, the stored one stays, or is deleted if the origin has changed."
        ),
    )

    class Meta:
        model = RehearsalJudge
        fields: tuple[str, ...] = ("name", "url", "model", "key", "tries", "seconds")
        extra_kwargs: dict[str, Any] = {"url": {"max_length": MAX_URL_LENGTH}}


class RehearsalJudgeInput(RehearsalJudgeChange):
    class Meta(RehearsalJudgeChange.Meta):
        extra_kwargs = {
            "name": {"required": True},
            "url": {"max_length": MAX_URL_LENGTH, "required": True},
            "model": {"required": True},
        }


class RehearsalJudgeOutput(ModelOutput[RehearsalJudge]):
    class Meta:
        model = RehearsalJudge
        fields = ["id", "name", "url", "origin", "model", "tries", "seconds", "fingerprint"]


@extend_schema(tags=["rehearsals"])
class JudgeList(ListAPIView[RehearsalJudge]):
    """Evaluation models that run the tests of agents over the network."""

    read_role, write_role = Role.DESIGNER, Role.ADMIN
    serializer_class = RehearsalJudgeOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[RehearsalJudge]:
        return judges.live()

    @extend_schema(request=RehearsalJudgeInput, responses={201: RehearsalJudgeOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(RehearsalJudgeInput(data=request.data))
        judge = judges.create(actor=person(request), **values)
        return Response(RehearsalJudgeOutput(judge).data, status=201)


@extend_schema(tags=["rehearsals"])
class JudgeDetail(GenericAPIView[RehearsalJudge]):
    read_role, write_role = Role.DESIGNER, Role.ADMIN
    serializer_class = RehearsalJudgeOutput
    queryset = RehearsalJudge.objects.none()

    def get(self, request: Request, pk: Any) -> Response:
        return Response(RehearsalJudgeOutput(_find_judge(pk)).data)

    @extend_schema(request=RehearsalJudgeChange)
    def patch(self, request: Request, pk: Any) -> Response:
        values = valid_data(RehearsalJudgeChange(data=request.data))
        row = judges.change(_find_judge(pk), actor=person(request), **values)
        return Response(RehearsalJudgeOutput(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        judges.remove(_find_judge(pk), actor=person(request))
        return Response(status=204)


def _find_judge(pk: Any) -> RehearsalJudge:
    return get_object_or_404(judges.live(), pk=pk)
