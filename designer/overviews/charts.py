"""Charts of agents and tools: tokens and runtimes by release, versions with their pins, calls of a release.

Each function runs one query with a bounded number of rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db import connection
from django.db.models import Count
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from catalog.models import Tool, ToolVersion
from catalog.review.holds import ReviewState
from catalog.templatetags.display import grouped
from core import charts
from core.charts import Chart
from core.invisible_characters import HIDDEN
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Pin, Receipt, Release
from people.models import User

RELEASES = 24
CALLS_READ = 5_000
TOOLS = 20
KEYS_NAMED = 5
LEAST_POINTS = 2
_TONES = {ReviewState.HELD: "warn", ReviewState.BLOCKED: "bad"}

_CALLS = """
SELECT tool_id, count(*), count(*) FILTER (WHERE outcome = 'refused'),
    count(*) FILTER (WHERE outcome IN ('tool_error', 'unavailable', 'unknown'))
FROM (
    SELECT tool_id, outcome FROM catalog_call WHERE agent = %s AND release = %s ORDER BY id DESC LIMIT %s
) newest GROUP BY tool_id ORDER BY 2 DESC, 1
"""


def tokens_by_release(agent: Agent, limit: int | None) -> Chart:
    """Return the recorded tokens of the newest releases against the limit that the agent has now."""
    newest = agent.releases.order_by("-number").values_list("number", "tokens")[:RELEASES]
    rows = list(reversed(newest))
    recorded = [(number, tokens) for number, tokens in rows if tokens is not None]
    title = _("Tokens by release")
    if len(recorded) < LEAST_POINTS:
        return Chart(title=title, summary=_("Shown once two releases have recorded their tokens."))
    labels = [
        _("Release {number}: {tokens} tokens").format(number=number, tokens=_format_count(tokens))
        for number, tokens in rows
    ]
    columns = [
        [] if tokens is None else [(tokens, "warn" if limit and tokens > limit else "")]
        for _number, tokens in rows
    ]
    marks, height = charts.bars(columns, labels, limit=limit)
    number, tokens = recorded[-1]
    summary = (
        _("Release {number} takes ~{tokens} tokens of the {limit} that the agent may take.")
        if limit
        else _("Release {number} takes ~{tokens} tokens; the agent has no limit.")
    )
    return Chart(
        title=title,
        summary=summary.format(number=number, tokens=grouped(tokens), limit=_format_count(limit)),
        marks=marks,
        limit=height,
        first=_("Release {number}").format(number=rows[0][0]),
        last=_("Release {number}").format(number=rows[-1][0]),
        columns=(_("Release"), _("Tokens"), _("Limit")),
        rows=[
            (str(number), _format_count(tokens), _format_count(limit)) for number, tokens in reversed(rows)
        ],
    )


def runtimes_by_release(receipts: Iterable[Receipt], live: int) -> Chart:
    """Return how many API keys read each release. receipts: the last one of each key and channel."""
    keys: defaultdict[int, set[str]] = defaultdict(set)
    for receipt in receipts:
        keys[receipt.release.number].add(receipt.key.name)
    title = _("Runtimes by release")
    if not keys:
        return Chart(title=title, summary=_("No API key reads a release."))
    numbers = sorted({*keys, live} - {0})[-RELEASES:]
    counts = [len(keys[number]) for number in numbers]
    labels = [
        _("Release {number}, API keys: {count}").format(number=number, count=count)
        for number, count in zip(numbers, counts, strict=True)
    ]
    marks = charts.bars(
        [[(count, "warn" if number < live else "")] for number, count in zip(numbers, counts, strict=True)],
        labels,
    )[0]
    reader_count = sum(map(len, keys.values()))
    behind = sum(len(names) for number, names in keys.items() if number < live)
    return Chart(
        title=title,
        summary=_("API keys on a release before {number}, which is live: {behind} of {count}.").format(
            number=live, behind=behind, count=reader_count
        )
        if live
        else _("Nothing is live. API keys on a release: {count}.").format(count=reader_count),
        marks=marks,
        first=_("Release {number}").format(number=numbers[0]),
        last=_("Release {number}").format(number=numbers[-1]),
        columns=(_("Release"), _("API keys"), _("Names")),
        rows=[
            (
                _("{number} (live)").format(number=number) if number == live else str(number),
                str(len(keys[number])),
                ", ".join(sorted(keys[number])[:KEYS_NAMED]) or "—",
            )
            for number in reversed(numbers)
        ],
    )


def versions_with_pins(tool: Tool, versions: Sequence[tuple[ToolVersion, str, str]], user: User) -> Chart:
    """Return the versions on a line of time. A mark is higher the more agents that the user sees pin it.

    versions: the newest first, with their `review_state`.
    """
    title = _("Versions and pins")
    if len(versions) < LEAST_POINTS:
        return Chart(title=title, summary=_("Shown from the second version on."))
    pins = Pin.objects.live().visible_to(user).filter(tool=tool).order_by().values_list("version")
    pin_counts = dict(pins.annotate(count=Count("pk")))
    rows = [(version, HIDDEN.sub("", word)) for version, word, _address in reversed(versions)]
    counts = [pin_counts.get(version.pk, 0) for version, _word in rows]
    pinned = sum(1 for count in counts if count)
    return Chart(
        title=title,
        summary=_("Pinned: {count} of {total} versions. Pins: {pin_count}.").format(
            count=pinned, total=len(rows), pin_count=sum(counts)
        ),
        marks=charts.timeline(
            [version.first_seen_at.timestamp() for version, _word in rows],
            counts,
            [_TONES.get(getattr(version, "review_state"), "") for version, _word in rows],  # noqa: B009
            [
                _("{version}, pins: {count}").format(version=word, count=count)
                for (_version, word), count in zip(rows, counts, strict=True)
            ],
        ),
        first=date_format(rows[0][0].first_seen_at, "DATE_FORMAT"),
        last=date_format(rows[-1][0].first_seen_at, "DATE_FORMAT"),
        columns=(_("Version"), _("First seen"), _("Pins")),
        rows=[
            (word, date_format(version.first_seen_at, "DATE_FORMAT"), str(count))
            for (version, word), count in zip(reversed(rows), reversed(counts), strict=True)
        ],
    )


def calls_of_release(release: Release, document: ReleaseDocument) -> Chart:
    """Return the calls and refusals of each tool in the release, of the newest stored calls."""
    with connection.cursor() as cursor:
        cursor.execute(_CALLS, [release.agent_id, release.number, CALLS_READ])
        rows = cursor.fetchall()
    title = _("Calls since this release")
    if not rows:
        return Chart(title=title, summary=_("No runtime has called a tool of this release."))
    calls, refusals = sum(row[1] for row in rows), sum(row[2] for row in rows)
    names = {tool.id: HIDDEN.sub("", tool.signature.name) for tool in document.all_tools}
    bars = [
        (names.get(tool, _("Tool {number}").format(number=tool)), *numbers) for tool, *numbers in rows[:TOOLS]
    ]
    marks = charts.bars(
        [[(calls - refused, ""), (refused, "bad")] for _name, calls, refused, _failed in bars],
        [
            _("{name}: {calls} calls, {refused} refused").format(
                name=name, calls=grouped(calls), refused=grouped(refused)
            )
            for name, calls, refused, _failed in bars
        ],
    )[0]
    summary = (
        _("{refusals} of the newest {calls} calls were refused.")
        if calls >= CALLS_READ
        else _("{refusals} of the {calls} calls were refused.")
    )
    return Chart(
        title=title,
        summary=summary.format(refusals=grouped(refusals), calls=grouped(calls)),
        marks=marks,
        first=bars[0][0],
        last=bars[-1][0] if len(bars) > 1 else "",
        columns=(_("Tool"), _("Calls"), _("Refused"), _("Failed")),
        rows=[(name, *(grouped(number) for number in numbers)) for name, *numbers in bars],
        is_open=True,
    )


def _format_count(number: int | None) -> str:
    return "—" if number is None else grouped(number)
