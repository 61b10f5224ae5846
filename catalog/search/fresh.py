"""Tools that were recorded or tuned a moment ago and are not in the index yet: found by plain words.

The index follows a run or a tuning by a second or so. Until then what was written is compared word by
word; a few thousand rows at most, so this costs milliseconds, and nothing when nothing has just changed.
"""

from django.db import connection

from catalog.search import words
from catalog.search.candidates import Hit
from catalog.search.scope import Scope

MAX_TOOLS, MAX_WORDS, MIN_WORD_LENGTH = 200, 12, 3
# About what a word in the name, and one in the description, are worth in the index.
IN_NAME, IN_TEXT = 5.0, 2.0

# New tools are indexed in the order of their ids, but for those of runs that ended side by side. Those, and
# tools with a new version, are known by when they changed. Usually none waits; OFFSET then keeps PostgreSQL
# from reading the tools before it finds that out.
_STATEMENT = """
WITH candidate AS (
    (SELECT id, current_id, worded_at FROM catalog_tool
    WHERE id > (SELECT coalesce(max(tool_id), 0) FROM catalog_searchdocument) ORDER BY id LIMIT 10000)
    UNION (SELECT id, current_id, worded_at FROM catalog_tool
    WHERE changed_at > now() - interval '1 minute' ORDER BY changed_at DESC, id DESC LIMIT 500)
    UNION (SELECT id, current_id, worded_at FROM catalog_tool
    WHERE worded_at > now() - interval '1 minute' ORDER BY worded_at DESC LIMIT 500)
), waiting AS MATERIALIZED (
    SELECT id FROM candidate WHERE NOT EXISTS (
        SELECT FROM catalog_searchdocument d WHERE d.tool_id = candidate.id AND d.version_id = current_id
            AND d.worded_at IS NOT DISTINCT FROM candidate.worded_at)
), scored AS (
    SELECT tool.id, tool.name, (
        SELECT sum(CASE WHEN position(word IN named) > 0 THEN %(in_name)s
            WHEN position(word IN text) > 0 THEN %(in_text)s ELSE 0 END)
        FROM unnest(%(words)s::text[]) word
    ) AS score
    FROM waiting CROSS JOIN LATERAL (
        SELECT t.id, t.name, lower(t.name || ' ' || t.title) AS named, lower(t.description) AS text
        FROM catalog_tool t WHERE t.id = waiting.id AND {scope} OFFSET 0
    ) tool
)
SELECT id, name, score FROM scored WHERE score > 0 ORDER BY score DESC, id LIMIT %(most)s
"""


def hits(text: str, scope: Scope) -> list[Hit]:
    asked = {word for word in words.words(text) if len(word) >= MIN_WORD_LENGTH and word not in words.ASKING}
    values = {
        **scope.values(),
        "words": sorted(asked, key=len, reverse=True)[:MAX_WORDS],
        "in_name": IN_NAME,
        "in_text": IN_TEXT,
        "most": MAX_TOOLS,
    }
    key = words.name_key(text)
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(scope=scope.condition()), values)
        rows = cursor.fetchall()
    return [Hit(words.name_key(name) != key, True, False, -float(score), tool) for tool, name, score in rows]
