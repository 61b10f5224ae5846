"""The language in which a person reads the texts of tools."""

from typing import Any

from django.http import HttpRequest

from catalog.models import Translation
from catalog.translations import languages, tool_texts
from protocols.signature import Signature

SESSION_KEY, PARAMETER, ORIGINAL = "tool_language", "language", "original"


def chosen_language(request: HttpRequest) -> str:
    """Return the code of the language, "" for the vendor's texts; a choice in the address is remembered."""
    language = request.GET.get(PARAMETER, "")
    if language in languages.BY_CODE or language == ORIGINAL:
        request.session[SESSION_KEY] = language
    code: str = request.session.get(SESSION_KEY, ORIGINAL)
    return code if code in languages.BY_CODE else ""


def translation_context(
    request: HttpRequest, signature: Signature | None, detected_language: str
) -> dict[str, Any]:
    """Return the template context that shows the texts of a tool in the chosen language.

    detected_language: the code of the language of the vendor's texts, "" if it is not known.
    `reading_languages` of the context: the languages into which any of the texts is translated.
    """
    language = chosen_language(request)
    digests = [text.digest for text in tool_texts.texts_of(signature)] if signature else []
    rows = Translation.objects.filter(digest__in=digests)
    codes = set(rows.values_list("language", flat=True).distinct()) if digests else set()
    translations = rows.filter(language=language).select_related("author") if language in codes else ()
    return {
        "reading_languages": [entry for entry in languages.LANGUAGES if entry.code in codes],
        "reading_language": language if language in codes else "",
        "proposed_language": language or ("de" if detected_language in ("", "en") else "en"),
        "translations": {row.digest: row for row in translations},
    }
