"""Names that resemble names of other vendors' tools, and descriptions that mention these.

The functions yield alarms with the key of their version. `twins`: endpoints whose names are no other
vendor's.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from django.db import connection

from catalog.models import Endpoint, Tool
from catalog.models.tools import ItemKind
from catalog.review.inspected_versions import InspectedVersion
from catalog.rules import inspection
from catalog.rules.inspection import Alarm
from catalog.rules.inspection.letters import skeleton, spelling
from catalog.rules.inspection.mentions import find_mentions
from catalog.rules.inspection.neighbours import near
from core.translatable import mark

# An instruction that names another vendor's tool is more than a word that happens to be one.
STEERING = {"CONCEAL", "OVERRIDE", "PSEUDO_TAG", "ROLE", "TOOL_ORDER", "SHADOW", "CONTEXT_LEAK", "COERCE"}
# Functions that return the tools in use by agents. Higher layers register them.
USED_TOOLS: list[Callable[[], Iterable[int]]] = []


def _hash_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def store_names(listed_versions: dict[int, InspectedVersion]) -> list[int]:
    """Store the skeletons of names. Return the tools that are new or whose skeleton changed."""
    names = [row.signature.name for row in listed_versions.values()]
    keys = [[_hash_text(spelling(name)) for name in names], [_hash_text(skeleton(name)) for name in names]]
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_LIKENESS, [list(listed_versions), *keys])
        return [tool for (tool,) in cursor.fetchall()]


def look_alikes(
    endpoint: Endpoint, twins: list[int], listed_versions: dict[int, InspectedVersion]
) -> Iterator[tuple[int, Alarm]]:
    """Report names that people mistake for the name of another vendor's tool."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND_LIKENESS, [endpoint.vendor_id, twins, list(listed_versions)])
        rows = cursor.fetchall()
    for tool, other, vendor in rows:
        row = listed_versions[tool]
        is_plain = row.signature.name.isascii() and other.isascii()
        name, like = inspection.spell_out_hidden(row.signature.name), inspection.spell_out_hidden(other)
        yield (
            row.version,
            Alarm(
                "LOOK_ALIKE",
                "medium" if is_plain else "high",
                f"The name “{name}” looks like “{like}” of {vendor} and is spelled with other letters.",
            ),
        )


def collisions(
    endpoint: Endpoint, twins: list[int], versions_by_tool: dict[int, InspectedVersion]
) -> Iterator[tuple[int, Alarm]]:
    """Report names of tools of other vendors that agents use already."""
    used = _used_tool_ids() if versions_by_tool else []
    if not used:
        return
    with connection.cursor() as cursor:
        cursor.execute(_FIND_COLLISION, [list(versions_by_tool), used, endpoint.vendor_id, twins])
        rows = cursor.fetchall()
    copied: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for tool, other, vendor, other_endpoint, digest in rows:
        row = versions_by_tool[tool]
        name, like = inspection.spell_out_hidden(row.signature.name), inspection.spell_out_hidden(other)
        if name == like and row.digest == digest:
            copied[other_endpoint, vendor].append(row.version)
            continue
        # Aliases of pins distinguish equal names. A name that only looks equal was chosen to be confused.
        how = mark("is also") if name == like else mark("looks like")
        message = f"The name “{name}” {how} that of “{like}” of {vendor}, which agents use."
        yield row.version, Alarm("COLLISION", "low" if name == like else "high", message)
    for (_, vendor), versions in copied.items():
        message = (
            f"These are the same tools as those of {vendor}, at another address: {len(versions):,} of them."
        )
        yield min(versions), Alarm("SAME_TOOLS", "low", message)


def _used_tool_ids() -> list[int]:
    return [pk for source in USED_TOOLS for pk in source()]


def near_misses(
    endpoint: Endpoint, twins: list[int], tool_versions: list[InspectedVersion]
) -> Iterator[tuple[int, Alarm]]:
    """Report names one letter away from that of another vendor's tool that agents use."""
    others = Tool.objects.filter(pk__in=_used_tool_ids(), kind=ItemKind.TOOL)
    others = others.exclude(endpoint__vendor=endpoint.vendor_id).exclude(endpoint__in=twins)
    vendors_by_name = (
        dict(others.order_by("-pk").values_list("name", "endpoint__vendor__name")) if tool_versions else {}
    )
    close = dict(near({row.signature.name for row in tool_versions}, vendors_by_name))
    for row in tool_versions:
        other = close.get(row.signature.name)
        if other is not None and skeleton(other) != skeleton(row.signature.name):  # or it is a collision
            name, like = inspection.spell_out_hidden(row.signature.name), inspection.spell_out_hidden(other)
            message = (
                f"The name “{name}” is one letter away from “{like}” of {vendors_by_name[other]}, "
                "which agents use."
            )
            yield row.version, Alarm("NEAR_MISS", "low", message)


_FIND_COLLISION = """
SELECT DISTINCT ON (mine.tool_id) mine.tool_id, t.name, vendor.name, e.id, current.digest
FROM catalog_likeness mine
JOIN catalog_likeness other ON other.skeleton = mine.skeleton
JOIN catalog_tool t ON t.id = other.tool_id
LEFT JOIN catalog_toolversion current ON current.id = t.current_id
JOIN catalog_endpoint e ON e.id = t.endpoint_id
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id
WHERE mine.tool_id = ANY(%s) AND other.tool_id = ANY(%s) AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
ORDER BY mine.tool_id, t.id
"""
_KEEP_LIKENESS = """
INSERT INTO catalog_likeness (tool_id, spelling, skeleton)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) ORDER BY 1
ON CONFLICT (tool_id) DO UPDATE SET spelling = excluded.spelling, skeleton = excluded.skeleton
WHERE catalog_likeness.skeleton <> excluded.skeleton OR catalog_likeness.spelling <> excluded.spelling
RETURNING tool_id
"""
_FIND_LIKENESS = """
SELECT DISTINCT ON (mine.tool_id) mine.tool_id, t.name, vendor.name
FROM catalog_likeness mine
JOIN catalog_likeness other ON other.skeleton = mine.skeleton AND other.spelling <> mine.spelling
JOIN catalog_tool t ON t.id = other.tool_id AND t.status = 'active'
JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
WHERE mine.tool_id = ANY(%s)
ORDER BY mine.tool_id, t.id
"""


def mentions(
    endpoint: Endpoint, twins: list[int], rows: list[InspectedVersion]
) -> Iterator[tuple[int, Alarm]]:
    """Report names of other vendors' tools in a description; a name that this vendor uses too is its own."""
    words = [(row.version, word) for row in rows for word in find_mentions(row.signature)]
    if not words:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _FIND_MENTIONED,
            [*map(list, zip(*words, strict=True)), endpoint.vendor_id, twins, endpoint.vendor_id],
        )
        mentions = cursor.fetchall()
    by_version = {row.version: row for row in rows}
    for version, word, vendor in mentions:
        is_steering = any(alarm.code in STEERING for alarm in by_version[version].alarms)
        yield (
            version,
            Alarm(
                "OTHER_TOOL",
                "high" if is_steering else "medium",
                f"A description speaks of “{word}”, which is a tool of {vendor}.",
            ),
        )


_FIND_MENTIONED = """
SELECT DISTINCT ON (said.version) said.version, said.word, vendor.name
FROM unnest(%s::bigint[], %s::text[]) said (version, word)
JOIN catalog_tool t
    ON lower("left"(t.name, 100)) = lower(said.word) AND t.name = said.word AND t.status = 'active'
    AND t.kind = 'tool'
JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
WHERE NOT EXISTS (
    SELECT FROM catalog_tool own JOIN catalog_endpoint home ON home.id = own.endpoint_id
    WHERE lower("left"(own.name, 100)) = lower(said.word) AND own.name = said.word AND home.vendor_id = %s)
ORDER BY said.version, said.word, t.id
"""
