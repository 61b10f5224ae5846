"""Records which API key read which release, in which form, first and last.

Runtimes read all day, so a receipt is written at most once a minute. The gateway answers out of its cache
(serving/gateway) only while there is a receipt of that minute.
"""

import logging
from collections import defaultdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.utils import timezone

from core import replica_reads
from core.compiled_queries import PreparedQuery, named_value
from core.db_errors import outage
from core.prepared_statements import run_prepared
from designer.models import Agent, Channel, Receipt, Release
from designer.releases import channels
from people.models import ApiKey, User

logger = logging.getLogger(__name__)

WRITE_INTERVAL = timedelta(minutes=1)
# The statement only reads while there is a receipt of this minute, and returns when that was written.
_WRITE = """
WITH lately AS (
    SELECT last_at FROM designer_receipt WHERE key_id = %(key)s AND release_id = %(release)s
        AND surface = %(surface)s AND channel = %(channel)s AND last_at > %(lately)s
), written AS (
    INSERT INTO designer_receipt (key_id, release_id, surface, channel, first_at, last_at)
    SELECT %(key)s, %(release)s, %(surface)s, %(channel)s, %(now)s, %(now)s
    WHERE NOT EXISTS (SELECT FROM lately)
    ON CONFLICT (key_id, release_id, surface, channel) DO UPDATE SET last_at = excluded.last_at
    RETURNING last_at
)
SELECT last_at FROM lately UNION ALL SELECT last_at FROM written
"""
MAX_CACHED = 10_000
# Cached in this process, so that a call within the same minute needs no query: when each was written.
_written_at: dict[tuple[int, int, str, str], datetime] = {}


def channel_in(name: str) -> str:
    """Return the channel in an address of a release; "" for a number or a digest."""
    return name if channels.NAME.fullmatch(name) else ""


@replica_reads.on_primary()
def record_read(key: ApiKey | None, release: Release, *, surface: str, name: str) -> None:
    """Record a read. `name`: how the release was requested. Reads in a browser session are not recorded."""
    if key is None:
        return
    current_time, channel = timezone.now(), channel_in(name)
    cache_key = key.pk, release.pk, surface, channel
    # One access, because another thread may clear the cache at any moment.
    last_write = _written_at.get(cache_key)
    if last_write and current_time - WRITE_INTERVAL < last_write <= current_time:
        return
    facts = {"key": key.pk, "release": release.pk, "surface": surface, "channel": channel}
    ((written_at,),) = run_prepared(
        _WRITE, {**facts, "now": current_time, "lately": current_time - WRITE_INTERVAL}
    )
    if len(_written_at) >= MAX_CACHED:
        _written_at.clear()
    _written_at[cache_key] = written_at


def record_served(key: ApiKey | None, release: Release, *, surface: str, name: str) -> None:
    """Record a read whose answer exists already: an unavailable database loses only the receipt."""
    try:
        record_read(key, release, surface=surface, name=name)
    except DatabaseError as error:
        # A tool may have run, and a client that gets no answer would run it again.
        if outage(error) is None:
            raise
        logger.warning("a receipt is not written: %s", error)


def recent_receipts(release: Release) -> QuerySet[Receipt]:
    """Return the receipts of the last PEGBOARD_RELEASE_IN_USE_DAYS days, which show that the release is in
    use.
    """
    since = timezone.now() - timedelta(days=settings.RELEASE_IN_USE_DAYS)
    return receipts_of_agent(release.agent).filter(release=release, last_at__gt=since)


def readers(agent: Agent) -> dict[str, list[Receipt]]:
    """Return, by channel ("" for a number or a digest), the last receipt of each working API key within the
    days after which a release counts as unused. The newest first.
    """
    since = timezone.now() - timedelta(days=settings.RELEASE_IN_USE_DAYS)
    rows = _READERS.rows(agent=agent.pk, since=since)
    receipts_by_channel: defaultdict[str, list[Receipt]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.last_at, reverse=True):
        receipts_by_channel[row.channel].append(row)
    return receipts_by_channel


# One row per key and channel, though a key may read several forms.
_READERS: PreparedQuery[Receipt] = PreparedQuery(
    lambda: (
        receipts_of_agent(named_value("agent"))
        .filter(last_at__gt=named_value("since"), key__revoked_at=None)
        .order_by("channel", "key_id", "-last_at", "-id")
        .distinct("channel", "key_id")
    )
)


def receipts_of_agent(agent: Agent | RawSQL) -> QuerySet[Receipt]:
    """Return the agent's receipts, the newest first."""
    rows = Receipt.objects.filter(release__agent=agent).select_related("key__user", "release")
    return rows.defer("release__document").order_by("-last_at", "-id")


def receipts_of_keys(
    reader: User, *, agent: str = "", key: int | None = None, is_behind: bool = False, is_past: bool = False
) -> QuerySet[Receipt]:
    """Return which release each API key reads now, by surface and channel, of the agents that `reader` may
    see.

    is_past: include earlier reads and revoked keys. is_behind: only rows whose agent's `live` points to a
        newer release.
    Each row has that release's number as `live`, None for none.
    """
    live = Channel.objects.filter(agent=OuterRef("release__agent"), name=channels.LIVE)
    rows = Receipt.objects.filter(
        release__agent__in=Agent.objects.live().visible_to(reader).values("pk")
    ).annotate(live=Subquery(live.values("release__number")[:1]))
    if not is_past:
        later = Receipt.objects.filter(
            key=OuterRef("key"),
            surface=OuterRef("surface"),
            channel=OuterRef("channel"),
            release__agent=OuterRef("release__agent"),
        ).filter(Q(last_at__gt=OuterRef("last_at")) | Q(last_at=OuterRef("last_at"), pk__gt=OuterRef("pk")))
        rows = rows.filter(~Exists(later), key__revoked_at=None)
    if agent:
        rows = rows.filter(release__agent__slug=agent)
    if key is not None:
        rows = rows.filter(key=key)
    if is_behind:
        rows = rows.filter(live__gt=F("release__number"))
    return rows.select_related("key__user", "release__agent").defer("release__document")


def releases_behind(receipt: Receipt) -> int:
    """Return by how many releases `live` is ahead. The receipt comes from `receipts_of_keys`."""
    live: int | None = getattr(receipt, "live")  # noqa: B009 - set by the annotation
    return max(0, live - receipt.release.number) if live else 0
