import re
from typing import Any

from django.db.models import Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from core.errors import DomainError
from core.pagination import Keyset, Page
from core.public_url import public_url

DEFAULT_LIMIT = 50
# A page is built in memory, and a caller that wants more follows `next`.
MAX_LIMIT = 200


class KeysetPagination(BasePagination):
    """A view's `ordering` is one field that is never NULL, then the key: ("name", "id"), ("-id",).

    A view of rows with large texts has `row_bytes` (core/pagination.py).
    """

    def paginate_queryset(  # type: ignore[override] # only query sets have an order in the database
        self, queryset: QuerySet[Any], request: Request, view: APIView | None = None
    ) -> list[Any]:
        order, row_bytes = getattr(view, "ordering", ("-id",))[0], getattr(view, "row_bytes", None)
        keyset: Keyset[Model] = Keyset(queryset, order, row_bytes)
        self.url = public_url(request.get_full_path(), request)
        cursor = request.query_params.get("cursor")
        if cursor == "":
            sentence = "Take the cursor from a link of another page, or leave it out."
            raise DomainError("invalid_cursor", sentence, fields={"cursor": sentence})
        limit = request.query_params.get("limit", str(DEFAULT_LIMIT))
        if not re.fullmatch(r"[0-9]{1,3}", limit, re.ASCII) or not 1 <= int(limit) <= MAX_LIMIT:
            sentence = f"Send a whole number from 1 to {MAX_LIMIT}."
            raise DomainError("invalid_limit", sentence, fields={"limit": sentence})
        self.page = keyset.page(cursor, int(limit))
        return self.page.rows

    def get_paginated_response(self, data: Any) -> Response:
        page: Page[Model] = self.page
        return Response(
            {"results": data, "next": self._link(page.next), "previous": self._link(page.previous)}
        )

    def _link(self, cursor: str | None) -> str | None:
        return replace_query_param(self.url, "cursor", cursor) if cursor else None

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": link, "previous": link},
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        return [
            {
                "name": "limit",
                "in": "query",
                "description": "Rows per page: 1 to 200. The default is 50.",
                "schema": limit,
            },
            {
                "name": "cursor",
                "in": "query",
                "description": "The cursor from a link of another page.",
                "schema": {"type": "string", "minLength": 1},
            },
        ]
