"""Pages by keyset: a cursor says after which row to go on, so page 1000 costs what page 1 costs."""

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from django.core import signing
from django.core.exceptions import ValidationError
from django.db.models import Field, Model, Q, QuerySet

from core.errors import DomainError

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class Page(Generic[Row]):
    rows: list[Row]
    next: str | None
    previous: str | None


class Place(NamedTuple):
    """A row to go on from, as text; `backwards` when the page before it is wanted."""

    backwards: bool
    value: str
    pk: str


class Keyset(Generic[Row]):
    """An order by one field that is never NULL ("name", "-changed_at"); the primary key breaks ties.

    An annotation is as good as a field.
    """

    def __init__(self, queryset: QuerySet[Row], order: str) -> None:
        self.queryset = queryset
        self.field, self.descending = order.removeprefix("-"), order.startswith("-")
        # A cursor fits the list and the order it was made for, and no other.
        self.salt = f"cursor:{queryset.model._meta.label}:{order}"

    def page(self, cursor: str | None, limit: int) -> Page[Row]:
        place = None
        if cursor:
            try:
                place = Place(*signing.loads(cursor, salt=self.salt))
            except signing.BadSignature as error:
                raise _unknown_cursor() from error
        backwards = place is not None and place.backwards
        rows = list(self._beyond(place, backwards)[: limit + 1])
        more, rows = len(rows) > limit, rows[:limit]
        if backwards:
            rows.reverse()
        has_next, has_previous = (True, more) if backwards else (more, place is not None)
        return Page(
            rows,
            self._write(rows[-1], backwards=False) if rows and has_next else None,
            self._write(rows[0], backwards=True) if rows and has_previous else None,
        )

    def _beyond(self, place: Place | None, backwards: bool) -> QuerySet[Row]:
        sign, beyond = ("-", "lt") if self.descending != backwards else ("", "gt")
        queryset = self.queryset.order_by(f"{sign}{self.field}", f"{sign}pk")
        if place is None:
            return queryset
        value, pk = self._value(self.field, place.value), self._value("pk", place.pk)
        after = Q(**{f"{self.field}__{beyond}": value}) | Q(**{f"pk__{beyond}": pk})
        # Implied by `after`; it is the condition that an index can start from.
        return queryset.filter(after, **{f"{self.field}__{beyond}e": value})

    def _value(self, name: str, text: str) -> Any:
        try:
            return self._column(name).to_python(text)
        except ValidationError as error:
            raise _unknown_cursor() from error

    def _write(self, row: Row, *, backwards: bool) -> str:
        is_annotation = self.field in self.queryset.query.annotations
        value = (
            str(getattr(row, self.field)) if is_annotation else self._column(self.field).value_to_string(row)
        )
        return signing.dumps(Place(backwards, value, str(row.pk)), salt=self.salt)

    def _column(self, name: str) -> "Field[Any, Any]":
        annotation, meta = self.queryset.query.annotations.get(name), self.queryset.model._meta
        if annotation is not None:
            return annotation.output_field
        field = meta.pk if name == "pk" else meta.get_field(name)
        assert isinstance(field, Field)  # noqa: S101 - a keyset names a column, never a reverse relation
        return field


def _unknown_cursor() -> DomainError:
    return DomainError("invalid_cursor", "This page is not known any more. Start from the first page.")
