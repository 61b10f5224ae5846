from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import CustomWordGroup
from catalog.search import word_groups
from core.serializers import Input, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person


class WordGroupInput(Input):
    words = serializers.ListField(
        child=serializers.CharField(max_length=word_groups.MAX_WORD_LENGTH),
        min_length=2,
        max_length=word_groups.MAX_WORDS,
        help_text="The words, or terms of several words, that mean the same.",
    )


class WordGroupOutput(ModelOutput[CustomWordGroup]):
    words = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = CustomWordGroup
        fields = ["id", "words"]


@extend_schema(tags=["tools"])
class WordGroupList(ListAPIView[CustomWordGroup]):
    """Groups of words that mean the same in this organization. Search uses them beside the shipped groups."""

    write_role = Role.ADMIN
    serializer_class = WordGroupOutput
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[CustomWordGroup]:
        return CustomWordGroup.objects.all()

    @extend_schema(request=WordGroupInput, responses={201: WordGroupOutput})
    def post(self, request: Request) -> Response:
        """Add a group. Questions use it at once; tools are indexed again in the background."""
        values = valid_data(WordGroupInput(data=request.data))
        group = word_groups.create_group(actor=person(request), **values)
        return Response(
            WordGroupOutput(group).data, status=201, headers=etag_of(word_groups.group_facts(group))
        )


@extend_schema(tags=["tools"])
class WordGroupDetail(GenericAPIView[CustomWordGroup]):
    write_role = Role.ADMIN
    serializer_class = WordGroupOutput
    queryset = CustomWordGroup.objects.all()

    def get(self, request: Request, pk: int) -> Response:
        return _respond(get_object_or_404(CustomWordGroup, pk=pk))

    @extend_schema(parameters=[IF_MATCH], request=WordGroupInput, responses=WordGroupOutput)
    def put(self, request: Request, pk: int) -> Response:
        """Replace the words of the group."""
        values = valid_data(WordGroupInput(data=request.data))
        group = word_groups.update_group(
            get_object_or_404(CustomWordGroup, pk=pk),
            actor=person(request),
            expected=expected_state(request),
            **values,
        )
        return _respond(group)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        word_groups.remove_group(get_object_or_404(CustomWordGroup, pk=pk), actor=person(request))
        return Response(status=204)


def _respond(group: CustomWordGroup) -> Response:
    data: Any = WordGroupOutput(group).data
    return Response(data, headers=etag_of(word_groups.group_facts(group)))
