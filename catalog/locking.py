"""What every change by a person begins with: the row as it is now, and what was typed, looked at."""

from typing import TypeVar

from django.db.models import QuerySet

from catalog.models import Activity, Credential, Endpoint, Vendor
from core import display_names
from core.errors import DomainError, invalid
from core.outbound import policy
from core.outbound.errors import RefusedError

Row = TypeVar("Row", Activity, Vendor, Endpoint, Credential)


def check_name(name: str, longest: int) -> None:
    if why := display_names.name_problem(name, longest):
        raise invalid(name=why)


def locked(row: Row, live: QuerySet[Row]) -> Row:
    """The row as it is now, and ours until the transaction ends; workers may go on pointing at it."""
    found = live.select_for_update(of=("self",), no_key=True).filter(pk=row.pk).first()
    if found is None:
        raise DomainError(f"{row._meta.model_name}_removed", f"“{row}” has been removed.", status=409)
    return found


def origin_of(url: str, stated_in: str = "url") -> str:
    try:
        return policy.origin_of(url, may_ask=True)
    except RefusedError as exc:
        raise invalid(**{stated_in: exc.message}) from exc
