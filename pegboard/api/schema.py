"""The OpenAPI document of `/api/schema/`: the errors of each call, and the ways to sign in."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, AllowAny

from core.serializers import Input
from people import idempotent_writes
from people.api.generics import takes_idempotency_key
from people.permissions import needed_role

MAX_ID = 2**63 - 1
ERRORS = {
    "400": "A value of the request is invalid, or this call has no such member or parameter.",
    "401": "The request has no API key or session, or one that is not valid.",
    "403": "The role or the API key's scope does not cover this call.",
    "404": "There is nothing at this address.",
    "406": "The call replies in JSON only.",
    "409": "The request conflicts with what is stored.",
    "413": "The body is larger than this call accepts: 1 MB, or 12 MB for a document.",
    "414": "The address is longer than 8,000 bytes.",
    "415": "The body must be application/json.",
    "422": "The Idempotency-Key was sent with another request.",
    "429": "Too many calls in this minute (throttled), too many tools run at once (too_many_calls), or "
    "too many calls wait for a worker (calls_wait). Nothing was done. Retry after Retry-After seconds.",
    "503": "The database is unavailable, busy or full (disk_full). Nothing was changed, unless the "
    "message states that this is not known. Then repeat a write with the same Idempotency-Key.",
}
IDEMPOTENCY_KEY = (
    "A key of your own for this change, such as a UUID. A request with the same key within 24 hours changes "
    "nothing again and receives the first answer, with the header Idempotency-Replayed."
)
RETRY_AFTER = {"description": "In seconds.", "schema": {"type": "integer", "minimum": 1, "maximum": 60}}
ONLY_WITH_BODY = {"413", "415"}


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="The stable code, for programs.")
    message = serializers.CharField(help_text="A sentence for people.")
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), required=False, help_text="A sentence for each field at fault."
    )


class DifferenceSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="The member, such as name or policy.breaking.")
    before = serializers.JSONField(help_text="The value that you started from; null if unknown.")
    theirs = serializers.JSONField(help_text="The current value.")
    yours = serializers.JSONField(help_text="The value that you sent.")


class ConflictSerializer(ErrorSerializer):
    changes = DifferenceSerializer(
        many=True, required=False, help_text="The differences, with the code changed_meanwhile."
    )


class Schema(AutoSchema):
    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        codes = set(ERRORS)
        if AllowAny in self.view.permission_classes:
            codes -= {"401", "403"}
        if self.method in SAFE_METHODS:
            codes -= {"409", *ONLY_WITH_BODY}
        if not takes_idempotency_key(self.view, self.method):
            codes -= {"422"}
        if "{" not in self.path:
            codes -= {"404"}
        for code in sorted(codes):
            body = ConflictSerializer if code == "409" else ErrorSerializer
            schema = self.resolve_serializer(body, direction).ref
            content = {"application/json": {"schema": schema}}
            reply: dict[str, Any] = {"description": ERRORS[code], "content": content}
            if code in ("429", "503"):
                reply["headers"] = {"Retry-After": RETRY_AFTER}
            bodies.setdefault(code, reply)
        return bodies

    def _get_serializer_field_meta(self, field: Any, direction: Any) -> dict[str, Any]:
        meta: dict[str, Any] = super()._get_serializer_field_meta(field, direction)  # type: ignore[no-untyped-call]
        parent = getattr(field, "parent", None)
        if parent is None or isinstance(parent, serializers.ModelSerializer):
            # The label of a field of the model is for pages.
            meta.pop("title", None)
        return meta

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        # As in `Input`. Replies stay open, because a new member breaks no program.
        serializer_class = serializer if isinstance(serializer, type) else type(serializer)
        if direction == "request" and issubclass(serializer_class, Input):
            schema["additionalProperties"] = False
        return schema

    def get_extensions(self) -> dict[str, Any]:
        if AllowAny in self.view.permission_classes:
            return {"x-role": "public"}
        role = needed_role(self.view, self.method)
        opened = {f"x-{name}": True for name in ("runtime", "invokes") if getattr(self.view, name, False)}
        return {"x-role": role.value, **opened} if role else {}

    def _resolve_path_parameters(self, variables: Any) -> list[Any]:
        parameters: list[Any] = super()._resolve_path_parameters(variables)  # type: ignore[no-untyped-call]
        for parameter in parameters:
            if parameter["schema"].get("type") == "integer":
                parameter["schema"] = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
        return parameters

    def get_override_parameters(self) -> list[Any]:
        parameters: list[Any] = [*super().get_override_parameters()]
        if takes_idempotency_key(self.view, self.method):
            parameters.append(
                OpenApiParameter(
                    idempotent_writes.HEADER,
                    OpenApiTypes.STR,
                    OpenApiParameter.HEADER,
                    description=IDEMPOTENCY_KEY,
                )
            )
        return parameters


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "designer.api.authentication.ReleaseAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "pgb_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "people.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
