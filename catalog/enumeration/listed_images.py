"""Store the addresses of the images that a vendor lists for its tools. A worker fetches them later.

No statement here runs per tool.
"""

from collections.abc import Mapping

from django.db import connection
from django.db.backends.utils import CursorWrapper


def write_staged(cursor: CursorWrapper) -> None:
    """Store the images of the staged tools, which are in the catalog by now."""
    for statement in (REMOVE, WRITE):
        cursor.execute(statement.format(source=STAGED))


def write(images: Mapping[int, str]) -> None:
    """Store the addresses by tool; "" for a tool without an image."""
    if images:
        with connection.cursor() as cursor:
            for statement in (REMOVE, WRITE):
                cursor.execute(statement.format(source=LISTED), [list(images), list(images.values())])


STAGED = "SELECT coalesce(tool_pk, new_pk) AS tool, image FROM staged_tool"
LISTED = "SELECT tool, image FROM unnest(%s::bigint[], %s::text[]) AS listed (tool, image)"
REMOVE = """
DELETE FROM catalog_toolpicture p USING ({source}) s WHERE p.tool_id = s.tool AND s.image = ''
"""
# A picture belongs to its address. One address of a vendor becomes due each second, so that the images of
# other vendors get their turn.
WRITE = """
INSERT INTO catalog_toolpicture (tool_id, address, next_at, failures, error_code, error_message)
SELECT tool, image, now() + (dense_rank() OVER (ORDER BY image) - 1) * interval '1 second', 0, '', ''
FROM ({source}) s WHERE image <> ''
ON CONFLICT (tool_id) DO UPDATE
SET address = excluded.address, picture_id = NULL, next_at = excluded.next_at, failures = 0, error_code = '',
    error_message = ''
WHERE catalog_toolpicture.address <> excluded.address
"""
