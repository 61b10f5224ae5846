"""The last reply of a vendor before a run failed, stored to find the cause.

Secrets in exchanges are masked (`core.outbound.exchange.Exchange`). Only administrators may see them, because
a vendor may answer with anything.
"""

from collections import deque
from collections.abc import Sequence

from catalog.models import LastReply, Run
from core.outbound.exchange import Exchange

KEPT = 10  # failed runs of one endpoint


def new_exchange_log() -> deque[Exchange]:
    """Return a list to which a session appends its exchanges."""
    # Two, because an MCP session ends with one more exchange, which is irrelevant.
    return deque(maxlen=2)


def keep(run: Run, exchanges: Sequence[Exchange]) -> None:
    """Store the last exchange, in the transaction that stores the failure, and delete those of earlier
    runs."""
    last = next((exchange for exchange in reversed(exchanges) if exchange.method != "DELETE"), None)
    if last is None:
        return
    LastReply.objects.update_or_create(
        run=run,
        defaults={
            "method": last.method,
            "url": _storable_text(last.url),
            "status": last.status,
            "headers": {name: _storable_text(value) for name, value in last.reply_headers.items()},
            "body": _storable_text(last.reply),
        },
    )
    older = LastReply.objects.filter(run__endpoint=run.endpoint_id).order_by("-run_id")
    LastReply.objects.filter(pk__in=list(older.values_list("pk", flat=True)[KEPT:])).delete()


def _storable_text(text: str) -> str:
    # PostgreSQL cannot store NUL, so its symbol replaces it.
    return text.replace("\0", "\N{SYMBOL FOR NULL}")
