"""Tools that the index of this host does not contain as they are now: found by plain words.

The index follows a run or a tuning by a second or so, and a new index is filled in some minutes. Until then
what is missing in it is compared word by word; ten thousand tools at most, so this costs milliseconds, and
nothing when nothing has just changed.
"""

from django.db import connection

from catalog.search import changes, words
from catalog.search.candidates import Hit
from catalog.search.changes import NOT_INDEXED, IndexState
from catalog.search.scope import Scope
from catalog.search.stemming import STOP_WORDS

MAX_TOOLS, MAX_WORDS, MIN_WORD_LENGTH = 200, 12, 3
# About what a word in the name, and one in the description, are worth in the index.
IN_NAME, IN_TEXT = 5.0, 2.0
MAX_WAITING = 10_000

_CHANGED = f"""
(SELECT c.tool_id AS id FROM catalog_toolchange c WHERE {NOT_INDEXED} ORDER BY c.id DESC LIMIT {MAX_WAITING})
"""  # noqa: S608 - a constant
_UNFILLED = f"(SELECT id FROM catalog_tool WHERE id > %(filled_through)s ORDER BY id LIMIT {MAX_WAITING})"  # noqa: S608
_STATEMENT = """
WITH waiting AS MATERIALIZED (SELECT DISTINCT id FROM ({waiting}) missing), scored AS (
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


def hits(text: str, scope: Scope, state: IndexState | None) -> list[Hit]:
    """Return the tools that the index does not have yet. state: None if no index can be searched."""
    # Parts of words are found too, and "the" is a part of "weather".
    searched_words = {
        word for word in set(words.words(text)) - words.ASKING - STOP_WORDS if len(word) >= MIN_WORD_LENGTH
    }
    parts = [_CHANGED] if state else []
    if state is None or state.filled_through is not None:
        parts.append(_UNFILLED)
    values = {
        **scope.values(),
        **(changes.values_of(state) if state else {}),
        "filled_through": (state.filled_through if state else None) or 0,
        "words": sorted(searched_words, key=len, reverse=True)[:MAX_WORDS],
        "in_name": IN_NAME,
        "in_text": IN_TEXT,
        "most": MAX_TOOLS,
    }
    key = words.name_key(text)
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(waiting=" UNION ".join(parts), scope=scope.condition()), values)
        rows = cursor.fetchall()
    return [Hit(words.name_key(name) != key, True, False, -float(score), tool) for tool, name, score in rows]
