"""Which API key fetched which release, first and last, in which form.

Runtimes ask all day, so a receipt is written at most once a minute. The layer that answers 304 before the
views (designer/middleware.py) answers only while there is a receipt of that minute.
"""

import logging
from collections import defaultdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from core.db_errors import outage
from core.prepared_statements import run_prepared
from designer.models import Agent, Channel, Receipt, Release
from designer.releases import channels
from people.models import ApiKey, User

logger = logging.getLogger(__name__)

WRITE_EVERY = timedelta(minutes=1)
# One statement, which only reads while there is a receipt of this minute, and says when that was written.
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
MAX_KNOWN = 10_000
# What this process knows of, so that a call within the same minute asks nothing: when each was written.
_known: dict[tuple[int, int, str, str], datetime] = {}


def channel_in(name: str) -> str:
    """The channel that names a release in an address; "" for a number or a digest."""
    return name if channels.NAME.fullmatch(name) else ""


def note(key: ApiKey | None, release: Release, *, surface: str, name: str) -> None:
    """`name` is how the release was asked for. What a browser's session reads is not noted."""
    if key is None:
        return
    now, channel = timezone.now(), channel_in(name)
    known = key.pk, release.pk, surface, channel
    # One look: another thread may empty it at any moment.
    last = _known.get(known)
    if last and now - WRITE_EVERY < last <= now:
        return
    facts = {"key": key.pk, "release": release.pk, "surface": surface, "channel": channel}
    ((written,),) = run_prepared(_WRITE, {**facts, "now": now, "lately": now - WRITE_EVERY})
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    _known[known] = written


def note_served(key: ApiKey | None, release: Release, *, surface: str, name: str) -> None:
    """As `note`, for an answer that is there already: a database that is away costs the receipt alone."""
    try:
        note(key, release, surface=surface, name=name)
    except DatabaseError as error:
        # A tool may have run, and a client that does not hear of it would run it again.
        if outage(error) is None:
            raise
        logger.warning("a receipt is not written: %s", error)


def lately(release: Release) -> QuerySet[Receipt]:
    """Those that say the release is in use: of the last days, as many as PEGBOARD_RELEASE_IN_USE_DAYS."""
    since = timezone.now() - timedelta(days=settings.RELEASE_IN_USE_DAYS)
    return of_agent(release.agent).filter(release=release, last_at__gt=since)


def readers(agent: Agent) -> dict[str, list[Receipt]]:
    """By channel, "" for a number or a digest: the last receipt of each API key that still works, of the days
    after which a release counts as unused. The newest first.
    """
    since = timezone.now() - timedelta(days=settings.RELEASE_IN_USE_DAYS)
    rows = of_agent(agent).filter(last_at__gt=since, key__revoked_at=None)
    # One row for each key and channel, though a key reads one in several forms.
    rows = rows.order_by("channel", "key_id", "-last_at", "-id").distinct("channel", "key_id")
    found: defaultdict[str, list[Receipt]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.last_at, reverse=True):
        found[row.channel].append(row)
    return found


def of_agent(agent: Agent) -> QuerySet[Receipt]:
    """The newest first."""
    rows = Receipt.objects.filter(release__agent=agent).select_related("key__user", "release")
    return rows.defer("release__document").order_by("-last_at", "-id")


def of_keys(
    reader: User, *, agent: str = "", key: int | None = None, is_behind: bool = False, is_past: bool = False
) -> QuerySet[Receipt]:
    """Which release each API key reads now, by each way: of the agents that `reader` may see.

    `is_past` adds what a key has read before that, and keys that work no more. `is_behind` leaves those whose
    agent's `live` leads to a newer release. Each row has the number of that as `live`, None for none.
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


def behind(receipt: Receipt) -> int:
    """By how many releases `live` is ahead, of a receipt out of `of_keys`."""
    live: int | None = getattr(receipt, "live")  # noqa: B009 - put there by the annotation
    return max(0, live - receipt.release.number) if live else 0
