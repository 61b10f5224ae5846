"""Bodies of OpenAPI operations: their media types, and which of them can be sent."""

from collections.abc import Mapping, Sequence
from typing import Any

FORM = "application/x-www-form-urlencoded"


def contents(holder: Mapping[str, Any]) -> dict[str, Any]:
    content = holder.get("content")
    return content if isinstance(content, dict) else {}


def media_of(media_types: Sequence[str]) -> str | None:
    """Return the media type that a call uses: JSON, else a form, plain text, files, lines of JSON, or the
    first one; None without any.
    """
    for fits in (is_json, is_form, is_text, is_multipart, is_lines):
        if fitting := [media for media in media_types if fits(media)]:
            return fitting[0]
    return media_types[0] if media_types else None


def bare(media: str) -> str:
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return bare(media).endswith(("/json", "+json")) or bare(media) in ("*/*", "application/*")


def is_form(media: str) -> bool:
    return bare(media) == FORM


def is_text(media: str) -> bool:
    return bare(media) == "text/plain"


def is_multipart(media: str) -> bool:
    return bare(media) == "multipart/form-data"


def is_lines(media: str) -> bool:
    """Return whether the media type means one JSON value per line."""
    return bare(media) in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def can_be_sent(media: str) -> bool:
    return any(fits(media) for fits in (is_json, is_form, is_text, is_multipart, is_lines))
