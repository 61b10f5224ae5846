"""The views of the API. Each takes what its own annotations declare, and refuses anything else by its name.

A caller believes that a member or a parameter that is ignored has had its effect: with a misspelt filter the
answer is everything, and a misspelt member of a PUT empties what it was meant to set.
"""

import inspect
from typing import Any, TypeVar

from django.db.models import Model
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import generics
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.views import APIView as AnyAPIView

from core.serializers import refusals

Row = TypeVar("Row", bound=Model)

# By view and method: the parameters of its address, and whether it takes a body. Settled by the code.
_declared: dict[tuple[type, str], tuple[list[str], bool]] = {}


class APIView(AnyAPIView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = "GET" if request.method == "HEAD" else request.method or ""
        may_hold_more = request.query_params or method in ("POST", "PUT", "PATCH", "DELETE")
        if not may_hold_more or not hasattr(self, method.lower()):  # without the method, the answer is 405
            return
        parameters, takes_a_body = declared(self, method)
        if faults := refusals(request.query_params, parameters, "parameter"):
            raise ValidationError(faults)
        # A body is judged by the serializer that reads it (`core.serializers.Input`), unless none does.
        has_a_body = request.META.get("CONTENT_LENGTH") not in (None, "", "0")
        if has_a_body and not takes_a_body and (faults := refusals(request.data, [], "member")):
            raise ValidationError(faults)


def declared(view: AnyAPIView, method: str) -> tuple[list[str], bool]:
    """What `/api/schema/` says of this call, asked of the same annotations."""
    known = _declared.get((type(view), method))
    if known is None:
        schema = schema_of(view, method)
        takes_a_body = method in ("POST", "PUT", "PATCH") and schema.get_request_serializer() is not None
        known = _declared[type(view), method] = _parameters(schema), takes_a_body
    return known


def schema_of(view: AnyAPIView, method: str) -> AutoSchema:
    # A new one for each caller: the one of the class is shared by all threads.
    of_the_method = getattr(getattr(view, method.lower()), "kwargs", {}).get("schema")
    of_the_class = inspect.getattr_static(view, "schema")
    usual: Any = api_settings.DEFAULT_SCHEMA_CLASS
    if isinstance(of_the_class, AutoSchema):
        usual = type(of_the_class)
    schema: AutoSchema = (of_the_method or usual)()
    schema.view, schema.method = view, method
    return schema


def _parameters(schema: AutoSchema) -> list[str]:
    names: list[str] = []
    for given in schema.get_override_parameters():
        if isinstance(given, OpenApiParameter):
            names += [given.name] if given.location == OpenApiParameter.QUERY else []
        else:
            names += (given() if inspect.isclass(given) else given).fields
    if schema.method == "GET" and isinstance(schema.view, generics.ListAPIView):
        paginator: Any = schema.view.paginator
        names += [row["name"] for row in paginator.get_schema_operation_parameters(schema.view)]
    return names


class GenericAPIView(APIView, generics.GenericAPIView[Row]):
    pass


class ListAPIView(APIView, generics.ListAPIView[Row]):
    pass
