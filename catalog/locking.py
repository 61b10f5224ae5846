"""The first steps of every change by a user: lock the current row, and validate a name."""

from typing import TypeVar

from django.db.models import QuerySet

from catalog.models import Activity, Credential, CustomWordGroup, Endpoint, Vendor
from core import display_names
from core.errors import DomainError, invalid
from core.outbound import policy
from core.outbound.errors import RefusedError

Row = TypeVar("Row", Activity, Vendor, Endpoint, Credential, CustomWordGroup)


def check_name(name: str, longest: int) -> None:
    if reason := display_names.name_problem(name, longest):
        raise invalid(name=reason)


def lock_row(row: Row, live: QuerySet[Row]) -> Row:
    """Return the current row, locked until the transaction ends. Other rows may still refer to it."""
    locked_row = live.select_for_update(of=("self",), no_key=True).filter(pk=row.pk).first()
    if locked_row is None:
        raise DomainError(f"{row._meta.model_name}_removed", f"“{row}” has been removed.", status=409)
    return locked_row


def origin_of(url: str, stated_in: str = "url") -> str:
    try:
        return policy.origin_of(url, may_ask=True)
    except RefusedError as exc:
        raise invalid(**{stated_in: exc.message}) from exc
