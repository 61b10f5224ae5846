"""What a vendor answered last before a run failed, kept to find out why.

Exchanges come with every secret struck out; see `core.outbound.exchange.Exchange`. They are shown to
administrators alone, because a vendor may answer with anything.
"""

from collections import deque
from collections.abc import Sequence

from catalog.models import LastReply, Run
from core.outbound.exchange import Exchange

KEPT = 10  # failed runs of one endpoint


def heard() -> deque[Exchange]:
    """For a session to write its exchanges into."""
    # Two, because an MCP session is ended with one more exchange, which says nothing.
    return deque(maxlen=2)


def keep(run: Run, exchanges: Sequence[Exchange]) -> None:
    """In the transaction that says why the run failed; those of older runs go."""
    last = next((each for each in reversed(exchanges) if each.method != "DELETE"), None)
    if last is None:
        return
    LastReply.objects.update_or_create(
        run=run,
        defaults={
            "method": last.method,
            "url": _storable(last.url),
            "status": last.status,
            "headers": {name: _storable(value) for name, value in last.reply_headers.items()},
            "body": _storable(last.reply),
        },
    )
    older = LastReply.objects.filter(run__endpoint=run.endpoint_id).order_by("-run_id")
    LastReply.objects.filter(pk__in=list(older.values_list("pk", flat=True)[KEPT:])).delete()


def _storable(text: str) -> str:
    # PostgreSQL holds no NUL; its picture stands for it.
    return text.replace("\0", "\N{SYMBOL FOR NULL}")
