"""Tools that were recorded a moment ago and are not in the index yet: found by plain words meanwhile.

The index follows a run by a second or so. Until then its tools are compared word by word; a few thousand
rows at most, so this costs milliseconds, and nothing when no run has just ended.
"""

from django.db import connection

from catalog.search import words
from catalog.search.candidates import Hit
from catalog.search.scope import Scope

MOST, MOST_WORDS, SHORTEST = 200, 12, 3
# About what a word in the name, and one in the description, are worth in the index.
IN_NAME, IN_TEXT = 5.0, 2.0

# Tools are indexed in the order of their ids, but for those of runs that ended side by side. Usually none
# waits; OFFSET then keeps PostgreSQL from reading the tools before it finds that out.
_STATEMENT = """
WITH recent AS (
    SELECT endpoint_id FROM (SELECT * FROM catalog_run ORDER BY id DESC LIMIT 100) run
    WHERE added > 0 AND finished_at > now() - interval '2 minutes'
), candidate AS (
    (SELECT id FROM catalog_tool WHERE id > (SELECT coalesce(max(tool_id), 0) FROM catalog_searchdocument)
    ORDER BY id LIMIT 10000)
    UNION SELECT id FROM catalog_tool
    WHERE endpoint_id IN (SELECT endpoint_id FROM recent) AND first_seen_at > now() - interval '3 minutes'
), waiting AS MATERIALIZED (
    SELECT id FROM candidate
    WHERE NOT EXISTS (SELECT FROM catalog_searchdocument d WHERE d.tool_id = candidate.id)
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
    asked = {word for word in words.words(text) if len(word) >= SHORTEST and word not in words.ASKING}
    values = {
        **scope.values(),
        "words": sorted(asked, key=len, reverse=True)[:MOST_WORDS],
        "in_name": IN_NAME,
        "in_text": IN_TEXT,
        "most": MOST,
    }
    key = words.name_key(text)
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(scope=scope.condition()), values)
        rows = cursor.fetchall()
    return [Hit(words.name_key(name) != key, True, False, -float(score), tool) for tool, name, score in rows]
