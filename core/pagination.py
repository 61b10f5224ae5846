"""Keyset pagination: a cursor names the row to continue after, so page 1000 costs as much as page 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from django.core import signing
from django.core.exceptions import ValidationError
from django.db.models import F, Field, Func, IntegerField, Model, Q, QuerySet, RowRange, Sum, Window
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Lead

from core.errors import DomainError

Row = TypeVar("Row", bound=Model)
# Rows with large texts: no row follows on a page after so many bytes of them.
MAX_PAGE_BYTES = 1024 * 1024


def octet_length(column: str) -> Func:
    """Return the bytes of a text column. PostgreSQL does not read the text for it."""
    return Func(F(column), function="octet_length", output_field=IntegerField())


def limit_bytes(
    queryset: QuerySet[Row], order: Sequence[str], row_bytes: Combinable, max_bytes: int = MAX_PAGE_BYTES
) -> QuerySet[Row]:
    """Return the rows until `row_bytes` of those before reach `max_bytes`, at least one row.

    Each row has `next_pk`, the key of the row that follows in this order, or None.
    """
    bytes_before = Window(Sum(row_bytes), order_by=order, frame=RowRange(end=-1))
    rows: Any = queryset.annotate(
        bytes_before=Coalesce(bytes_before, 0), next_pk=Window(Lead("pk"), order_by=order)
    )
    first_rows: QuerySet[Row] = rows.filter(bytes_before__lt=max_bytes).order_by(*order)
    return first_rows


@dataclass(frozen=True)
class Page(Generic[Row]):
    rows: list[Row]
    next: str | None
    previous: str | None


class Cursor(NamedTuple):
    """The row to continue from, as text. backwards: the page before that row is requested."""

    backwards: bool
    value: str
    pk: str


class Keyset(Generic[Row]):
    """An order by one field that is never NULL ("name", "-changed_at"); the primary key breaks ties.

    The field may be an annotation. row_bytes: the bytes of the large texts in a row, for `MAX_PAGE_BYTES`.
    """

    def __init__(self, queryset: QuerySet[Row], order: str, row_bytes: Combinable | None = None) -> None:
        self.queryset = queryset
        self.row_bytes = row_bytes
        self.field, self.descending = order.removeprefix("-"), order.startswith("-")
        # A cursor is valid for one list and one order.
        self.salt = f"cursor:{queryset.model._meta.label}:{order}"

    def page(self, cursor: str | None, limit: int) -> Page[Row]:
        start = None
        if cursor:
            try:
                start = Cursor(*signing.loads(cursor, salt=self.salt))
            except signing.BadSignature as error:
                raise _unknown_cursor() from error
        backwards = start is not None and start.backwards
        sign, beyond = ("-", "lt") if self.descending != backwards else ("", "gt")
        order = (f"{sign}{self.field}", f"{sign}pk")
        queryset = self.queryset.order_by(*order)
        if start is not None:
            value, pk = self._parse_value(self.field, start.value), self._parse_value("pk", start.pk)
            after = Q(**{f"{self.field}__{beyond}": value}) | Q(**{f"pk__{beyond}": pk})
            # Implied by `after`; it is the condition that an index can start from.
            queryset = queryset.filter(after, **{f"{self.field}__{beyond}e": value})
        if self.row_bytes is None:
            rows = list(queryset[: limit + 1])
            more, rows = len(rows) > limit, rows[:limit]
        else:
            rows = list(limit_bytes(queryset, order, self.row_bytes)[:limit])
            more = bool(rows) and getattr(rows[-1], "next_pk") is not None  # noqa: B009 - an annotation
        if backwards:
            rows.reverse()
        has_next, has_previous = (True, more) if backwards else (more, start is not None)
        return Page(
            rows,
            self._write_cursor(rows[-1], backwards=False) if rows and has_next else None,
            self._write_cursor(rows[0], backwards=True) if rows and has_previous else None,
        )

    def page_with(self, row: Row, limit: int) -> Page[Row]:
        """Return the first page if it contains the row, else the page that begins with it."""
        page = self.page(None, limit)
        if row not in page.rows:
            sign, before = ("", "gt") if self.descending else ("-", "lt")
            value = getattr(row, self.field)
            is_before = Q(**{f"{self.field}__{before}": value}) | Q(
                **{self.field: value, f"pk__{before}": row.pk}
            )
            order = (f"{sign}{self.field}", f"{sign}pk")
            previous_row = self.queryset.filter(is_before).order_by(*order).first()
            if previous_row is not None:
                page = self.page(self._write_cursor(previous_row, backwards=False), limit)
        return page

    def _parse_value(self, name: str, text: str) -> Any:
        try:
            return self._field_of_order(name).to_python(text)
        except ValidationError as error:
            raise _unknown_cursor() from error

    def _write_cursor(self, row: Row, *, backwards: bool) -> str:
        is_annotation = self.field in self.queryset.query.annotations
        value = (
            str(getattr(row, self.field))
            if is_annotation
            else self._field_of_order(self.field).value_to_string(row)
        )
        return signing.dumps(Cursor(backwards, value, str(row.pk)), salt=self.salt)

    def _field_of_order(self, name: str) -> "Field[Any, Any]":
        annotation, meta = self.queryset.query.annotations.get(name), self.queryset.model._meta
        if annotation is not None:
            return annotation.output_field
        field = meta.pk if name == "pk" else meta.get_field(name)
        assert isinstance(field, Field)  # noqa: S101 - a keyset names a column, never a reverse relation
        return field


def _unknown_cursor() -> DomainError:
    return DomainError("invalid_cursor", "This page does not exist any more. Start from the first page.")
