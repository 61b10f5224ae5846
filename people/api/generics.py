"""Base classes of API views. A view accepts what its annotations declare and refuses anything else by name.

Ignoring an unknown name would mislead the caller: a misspelt filter would return everything, and a misspelt
member of a PUT would clear the value that it should set.
"""

import inspect
from typing import Any, TypeVar

from django.db.models import Model
from django.http import HttpResponse
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import generics
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.views import APIView as AnyAPIView

from core.errors import DomainError
from core.serializers import refusals
from people import idempotent_writes
from people.idempotent_writes import StoredResponse
from people.permissions import key_of, person

Row = TypeVar("Row", bound=Model)

# By view and method: the parameters of its address, and whether it takes a body. Settled by the code.
_declared: dict[tuple[type, str], tuple[list[str], bool]] = {}


class APIView(AnyAPIView):
    # A write is one transaction, so that it may be repeated with an Idempotency-Key. Views that send requests
    # to other servers before they answer are not.
    takes_idempotency_keys = True

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        is_write = request.method not in SAFE_METHODS
        # Calls of tools read the header themselves.
        if is_write and idempotent_writes.HEADER in request.headers and not getattr(self, "invokes", False):
            self._write_once(request)
        method = "GET" if request.method == "HEAD" else request.method or ""
        may_hold_more = request.query_params or method in ("POST", "PUT", "PATCH", "DELETE")
        if not may_hold_more or not hasattr(self, method.lower()):  # without the method, the answer is 405
            return
        parameters, takes_a_body = declared_inputs(self, method)
        if faults := refusals(request.query_params, parameters, "parameter"):
            raise ValidationError(faults)
        # A body is judged by the serializer that reads it (`core.serializers.Input`), unless none does.
        has_a_body = request.META.get("CONTENT_LENGTH") not in (None, "", "0")
        if has_a_body and not takes_a_body and (faults := refusals(request.data, [], "member")):
            raise ValidationError(faults)

    def _write_once(self, request: Request) -> None:
        """Replace the view's handler by one that runs it once for each key of this caller."""
        key = idempotent_writes.checked_key(request.headers[idempotent_writes.HEADER])
        if not takes_idempotency_key(self, request.method or ""):
            message = "This request is no single change, so it takes no Idempotency-Key. Send it without."
            raise DomainError("idempotency_key_unsupported", message)
        name = (request.method or "").lower()
        handler = getattr(self, name, self.http_method_not_allowed)
        request_bytes = f"{request.method} {request.get_full_path()}\n".encode() + request._request.body

        def answer(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            def write() -> StoredResponse:
                response = handler(request, *args, **kwargs)
                body = "" if response.data is None else JSONRenderer().render(response.data).decode()
                headers = {name: value for name, value in response.items() if name != "Content-Type"}
                return StoredResponse(response.status_code, headers, body)

            stored, is_repeated = idempotent_writes.write_once(
                key,
                user=person(request),
                api_key=key_of(request),
                request=request_bytes,
                write=write,
            )
            response = HttpResponse(
                stored.body,
                status=stored.status,
                headers={**stored.headers, "Content-Type": "application/json"},
            )
            if not stored.body:
                del response.headers["Content-Type"]
            if is_repeated:
                response.headers["Idempotency-Replayed"] = "true"
            return response

        setattr(self, name, answer)


def takes_idempotency_key(view: AnyAPIView, method: str) -> bool:
    """Return whether this method of the view is one change, which a client may repeat with a key."""
    runs_tools = getattr(view, "invokes", False)
    return method not in SAFE_METHODS and not runs_tools and getattr(view, "takes_idempotency_keys", False)


def declared_inputs(view: AnyAPIView, method: str) -> tuple[list[str], bool]:
    """Return the parameters and the body that `/api/schema/` declares for this call, from the same
    annotations."""
    cached = _declared.get((type(view), method))
    if cached is None:
        schema = schema_of(view, method)
        takes_a_body = method in ("POST", "PUT", "PATCH") and schema.get_request_serializer() is not None
        names: list[str] = []
        for override in schema.get_override_parameters():
            if isinstance(override, OpenApiParameter):
                names += [override.name] if override.location == OpenApiParameter.QUERY else []
            else:
                names += (override() if inspect.isclass(override) else override).fields
        if schema.method == "GET" and isinstance(schema.view, generics.ListAPIView):
            paginator: Any = schema.view.paginator
            names += [row["name"] for row in paginator.get_schema_operation_parameters(schema.view)]
        cached = _declared[type(view), method] = names, takes_a_body
    return cached


def schema_of(view: AnyAPIView, method: str) -> AutoSchema:
    # A new one for each caller: the one of the class is shared by all threads.
    # Of the class: a write with an Idempotency-Key has replaced the handler of this view.
    of_the_method = getattr(getattr(type(view), method.lower()), "kwargs", {}).get("schema")
    of_the_class = inspect.getattr_static(view, "schema")
    usual: Any = api_settings.DEFAULT_SCHEMA_CLASS
    if isinstance(of_the_class, AutoSchema):
        usual = type(of_the_class)
    schema: AutoSchema = (of_the_method or usual)()
    schema.view, schema.method = view, method
    return schema


class GenericAPIView(APIView, generics.GenericAPIView[Row]):
    pagination_class = None


class ListAPIView(APIView, generics.ListAPIView[Row]):
    pass
