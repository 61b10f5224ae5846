"""Tools that were recorded a moment ago and are not in the index yet: found by plain words meanwhile.

The index follows a run by a second or so. Until then its tools are compared word by word; a few thousand
rows at most, so this costs milliseconds, and nothing at all when no run has just ended.
"""

from django.db import connection

from catalog.search import words
from catalog.search.candidates import Hit, Scope

MOST, MOST_WORDS, SHORTEST = 200, 12, 3
# About what a word in the name, and one in the description, are worth in the index.
IN_NAME, IN_TEXT = 5.0, 2.0

_STATEMENT = """
WITH waiting AS (
    SELECT t.id, t.name, lower(t.name || ' ' || t.title) AS named, lower(t.description) AS text
    FROM catalog_tool t
    JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL
    JOIN catalog_vendor v ON v.id = e.vendor_id AND v.removed_at IS NULL
    WHERE t.changed_at > now() - interval '5 minutes'
    AND (%(endpoints)s::bigint[] IS NULL OR t.endpoint_id = ANY(%(endpoints)s))
    AND (%(status)s::text IS NULL OR t.status = %(status)s)
    AND t.tags @> %(tags)s::text[]
    AND NOT EXISTS (SELECT FROM catalog_searchdocument d WHERE d.tool_id = t.id)
), scored AS (
    SELECT w.id, w.name, (
        SELECT sum(CASE WHEN position(word IN named) > 0 THEN %(in_name)s
            WHEN position(word IN text) > 0 THEN %(in_text)s ELSE 0 END)
        FROM unnest(%(words)s::text[]) word
    ) AS score FROM waiting w
)
SELECT id, name, score FROM scored WHERE score > 0 ORDER BY score DESC, id LIMIT %(most)s
"""


def hits(text: str, scope: Scope) -> list[Hit]:
    asked = {word for word in words.words(text) if len(word) >= SHORTEST and word not in words.ASKING}
    values = {
        "endpoints": scope.endpoints,
        "status": scope.status,
        "tags": list(scope.tags),
        "words": sorted(asked, key=len, reverse=True)[:MOST_WORDS],
        "in_name": IN_NAME,
        "in_text": IN_TEXT,
        "most": MOST,
    }
    key = words.name_key(text)
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, values)
        rows = cursor.fetchall()
    return [Hit(words.name_key(name) != key, True, False, -float(score), tool) for tool, name, score in rows]
