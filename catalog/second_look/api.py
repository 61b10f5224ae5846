from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Endpoint, SecondLook
from catalog.models.second_looks import LookResult
from catalog.second_look import runs
from core.serializers import Input, ModelOutput, valid_data
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person


class SecondLookOutput(ModelOutput[SecondLook]):
    """`says` is the result of the last one, or the reason why it failed. `due_at` is null while it is off."""

    result = serializers.ChoiceField(choices=LookResult.choices, allow_blank=True, read_only=True)
    is_under_way = serializers.BooleanField(read_only=True)
    due_at = serializers.DateTimeField(source="planned_at", read_only=True, allow_null=True)

    class Meta:
        model = SecondLook
        fields = ["endpoint", "result", "says", "looked_at", "is_under_way", "is_on", "other_name", "due_at"]


class SecondLookChange(Input):
    is_on = serializers.BooleanField(
        required=False, help_text="True to read the list a second time each week. Off by default."
    )
    other_name = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="The User-Agent of a second look. Empty: Pegboard's own, without the credential. With a "
        "name, the list is read under it without the credential and with it.",
    )


@extend_schema(tags=["second-looks"])
class EndpointSecondLook(GenericAPIView[SecondLook]):
    """This endpoint's list as another client sees it: without our credential, or under another name.

    It is off until an administrator turns it on.
    """

    write_role = Role.ADMIN
    serializer_class = SecondLookOutput

    def get(self, request: Request, pk: int) -> Response:
        return Response(SecondLookOutput(runs.look_of_endpoint(_find_endpoint(pk))).data)

    @extend_schema(request=None, responses={202: SecondLookOutput})
    def post(self, request: Request, pk: int) -> Response:
        """Read the list now, if the second look is on. If a look is running, it is returned."""
        look = runs.request(_find_endpoint(pk), actor=person(request))
        return Response(SecondLookOutput(look).data, status=202)

    @extend_schema(request=SecondLookChange, responses={200: SecondLookOutput})
    def patch(self, request: Request, pk: int) -> Response:
        """Turn it on or off, and name the other client."""
        values = valid_data(SecondLookChange(data=request.data))
        look = runs.switch(_find_endpoint(pk), actor=person(request), **values)
        return Response(SecondLookOutput(look).data)


def _find_endpoint(pk: int) -> Endpoint:
    return get_object_or_404(Endpoint.objects.live().select_related("vendor"), pk=pk)
