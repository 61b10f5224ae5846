from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Vendor
from catalog.translations import languages
from core.errors import invalid
from core.serializers import Input, ModelOutput, valid_data
from designer.models import TranslationRun
from designer.rehearsals import judges
from designer.translations import runs
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class TranslationRunInput(Input):
    language = serializers.ChoiceField(choices=languages.CODES)
    vendor = serializers.SlugField(max_length=100)
    judge = serializers.UUIDField(help_text="The id of an evaluation model.")


class TranslationRunOutput(ModelOutput[TranslationRun]):
    vendor = serializers.SlugField(source="vendor.slug", read_only=True)
    refused = serializers.SerializerMethodField(
        help_text="The number of translations that were no plain text."
    )

    class Meta:
        model = TranslationRun
        fields = [
            *("id", "language", "vendor", "judge", "model", "status", "tool_count", "tools_done"),
            *("translated", "refused", "message", "created_at", "finished_at"),
        ]

    def get_refused(self, run: TranslationRun) -> int:
        return len(run.refused)


@extend_schema(tags=["translations"])
class TranslationRunList(ListAPIView[TranslationRun]):
    """Runs that translate a vendor's texts with a model, for people to confirm."""

    write_role = Role.DESIGNER
    serializer_class = TranslationRunOutput
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[TranslationRun]:
        return TranslationRun.objects.select_related("vendor")

    @extend_schema(request=TranslationRunInput, responses={202: TranslationRunOutput})
    def post(self, request: Request) -> Response:
        """Translate the texts of the vendor that have no translation yet, in the background."""
        values = valid_data(TranslationRunInput(data=request.data))
        vendor = Vendor.objects.filter(slug=values["vendor"], removed_at=None).first()
        if vendor is None:
            raise invalid(vendor="There is no such vendor.")
        judge = judges.find(values["judge"])
        run = runs.start_run(actor=person(request), language=values["language"], vendor=vendor, judge=judge)
        return Response(TranslationRunOutput(run).data, status=202)


@extend_schema(tags=["translations"])
class TranslationRunDetail(GenericAPIView[TranslationRun]):
    write_role = Role.DESIGNER
    serializer_class = TranslationRunOutput
    queryset = TranslationRun.objects.select_related("vendor")

    def get(self, request: Request, pk: int) -> Response:
        data: Any = TranslationRunOutput(get_object_or_404(self.get_queryset(), pk=pk)).data
        return Response(data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Cancel the run. What it has translated stays."""
        runs.cancel_run(get_object_or_404(TranslationRun, pk=pk), actor=person(request))
        return Response(status=204)
