"""A tool version with all facts that decide whether and how it may be called, in one query.

Its signature never changes, and is cached in the memory of this process; all else is queried each time.
"""

from functools import cache

from django.db.models import BigIntegerField
from django.db.models.expressions import RawSQL

from catalog.models import ToolVersion
from catalog.review import holds
from core.compiled_queries import PreparedQuery, named_value
from execution.calls.requesting import NEXT_CALL
from protocols.signature import Signature

MAX_KEPT = 2_000
_signatures: dict[int, Signature] = {}
# Columns that no call needs, and that may be long.
_UNUSED = (
    *(
        "signature",
        "raw",
        "alarms",
        "tool__stopped__signature",
        "tool__stopped__raw",
        "tool__stopped__alarms",
    ),
    *("tool__title", "tool__description", "tool__tags"),
    *("tool__endpoint__policy", "tool__endpoint__retry", "tool__endpoint__error_message"),
)


def find(tool: int, ordinal: int) -> ToolVersion | None:
    rows = _query().rows(tool=tool, ordinal=ordinal)
    if not rows:
        return None
    (version,) = rows
    if version.pk not in _signatures:
        if len(_signatures) >= MAX_KEPT:
            _signatures.clear()
        _signatures[version.pk] = version.decoded()
    version.known = _signatures.get(version.pk)
    version.read_stopping = vars(version).pop("stopping")
    version.next_call = vars(version).pop("reserved")
    return version


@cache
def _query() -> PreparedQuery[ToolVersion]:
    rows = ToolVersion.objects.filter(tool=named_value("tool"), ordinal=named_value("ordinal")).order_by()
    endpoint = "tool__endpoint"
    joined = (f"{endpoint}__vendor", f"{endpoint}__credential", f"{endpoint}__circuit")
    rows = rows.select_related(*joined, "tool__circuit", "tool__stopped").defer(*_UNUSED)
    # A call begins with this query, so the call's id is reserved in it.
    reserved = RawSQL(NEXT_CALL, [], output_field=BigIntegerField())  # noqa: S611 - a constant text
    rows = rows.annotate(stopping=holds.stopping_of_tool(), reserved=reserved)
    return PreparedQuery(rows)
