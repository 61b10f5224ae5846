"""Note in the background which texts each tool has, and which language they are in."""

import math
import time

from django.db import connection, transaction

from catalog.models import ToolTexts
from catalog.translations import tool_texts
from catalog.translations.detection import detect_language
from catalog.translations.stored import lock_translations, log_translated
from protocols.signature import from_json

BATCH = 500

_PENDING = """
    SELECT tool.id, tool.current_id, version.signature FROM catalog_tool tool
    JOIN catalog_toolversion version ON version.id = tool.current_id
    LEFT JOIN catalog_tooltexts texts ON texts.tool_id = tool.id
    WHERE tool.id > %s AND texts.version_id IS DISTINCT FROM tool.current_id
    ORDER BY tool.id LIMIT %s
"""


def scan_pending(*, ends: float = math.inf) -> int:
    """Scan the texts of tools with a new current version, in batches. Return the number of tools.

    ends: the time.monotonic() after which no batch starts. The next call continues. May run twice.
    """
    count, last = 0, 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_PENDING, [last, BATCH])
            scanned = []
            for tool, version, signature in cursor.fetchall():
                texts = tool_texts.texts_of(from_json(signature))
                keys = sorted({tool_texts.key_of(text.digest) for text in texts})
                language = detect_language(tool_texts.prose_of(texts))
                scanned.append(ToolTexts(tool_id=tool, version_id=version, keys=keys, language=language))
        if not scanned:
            return count
        with transaction.atomic():
            # A translation that is written at this moment waits, and then finds these tools by their texts.
            lock_translations()
            ToolTexts.objects.bulk_create(
                scanned,
                update_conflicts=True,
                unique_fields=["tool"],
                update_fields=["version", "keys", "language"],
            )
            log_translated([row.tool_id for row in scanned])
        count, last = count + len(scanned), scanned[-1].tool_id
        if time.monotonic() > ends:
            return count
