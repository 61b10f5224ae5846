"""Find, write and remove translations.

All changes of translations wait for each other, so each one compares with the stored text and replaces it in
one transaction. Many translations are written in portions, between which other changes have their turn. Tools
with a changed translation are logged for the search index.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.models import Tool, Translation
from catalog.models.translations import TranslationOrigin
from catalog.translations import tool_texts
from catalog.translations.languages import find_language
from catalog.translations.tool_texts import ToolText
from core.errors import DomainError
from people import audit
from people.audit import edit_conflicts
from people.audit.edit_conflicts import Difference, LateEditError
from people.models import User

# Changes of translations wait for each other, and for the scan of texts.
_LOCK = 7_402_882
PORTION = 1_000  # translations in one transaction
# Earlier versions of a tool that are searched for a translation of a text that has changed since.
MAX_EARLIER_VERSIONS = 20


@dataclass(frozen=True)
class TranslatedText:
    """A text of a tool with its translation, if there is one.

    former: the translation of an earlier text in the same position, if the current text has none.
    """

    text: ToolText
    translation: Translation | None = None
    former: Translation | None = None

    @property
    def is_stale(self) -> bool:
        return self.former is not None


class WriteCounts(NamedTuple):
    added: int
    replaced: int
    unchanged: int


def translation_facts(translation: Translation | None) -> dict[str, str]:
    """Return the stored state that an edit starts from."""
    return {"text": translation.text if translation else ""}


def lock_translations() -> None:
    """Wait for other changes of translations. The lock lasts until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def translations_of(digests: Collection[str], language: str) -> dict[str, Translation]:
    rows = Translation.objects.filter(digest__in=digests, language=language).select_related("author")
    return {row.digest: row for row in rows}


def translate_tool(tool: Tool, language: str) -> list[TranslatedText]:
    """Return the texts of the tool's current version with their translations, and those that became stale.

    Raises DomainError for an unknown language.
    """
    find_language(language)
    texts = tool_texts.texts_of(tool.current.decoded()) if tool.current else []
    translations = translations_of([text.digest for text in texts], language)
    # The digests of earlier texts in the position of each text without a translation, the newest first.
    earlier: dict[tuple[str, str], list[str]] = {
        (text.member, text.name): [] for text in texts if text.digest not in translations
    }
    if earlier:
        for version in tool.versions.exclude(current_of=tool).order_by("-ordinal")[:MAX_EARLIER_VERSIONS]:
            for text in tool_texts.texts_of(version.decoded()):
                if (text.member, text.name) in earlier:
                    earlier[text.member, text.name].append(text.digest)
    former = translations_of({digest for digests in earlier.values() for digest in digests}, language)
    rows = []
    for text in texts:
        digests = earlier.get((text.member, text.name), [])
        newest = next((former[digest] for digest in digests if digest in former), None)
        rows.append(TranslatedText(text, translations.get(text.digest), newest))
    return rows


def find_text(tool: Tool, digest: str) -> ToolText:
    """Return the text of the tool's current version. Raises DomainError if it has none with this digest."""
    texts = tool_texts.texts_of(tool.current.decoded()) if tool.current else []
    text = next((text for text in texts if text.digest == digest), None)
    if text is None:
        message = _("The current version of this tool has no such text. Open the tool again for its texts.")
        raise DomainError("unknown_text", message, status=404)
    return text


@transaction.atomic
def write_translation(
    *,
    actor: User,
    language: str,
    digest: str,
    text: str,
    expected: str = edit_conflicts.ANY_STATE,
) -> Translation:
    """Store a user's translation; an unchanged text of a model is confirmed by it.

    expected: the state that the editor started from. Raises DomainError for a text that is not valid, and
    LateEditError if another user changed the translation since.
    """
    find_language(language)
    text = tool_texts.normalize_translation(text)
    lock_translations()
    before = translations_of([digest], language).get(digest)
    check_state(before, expected, text)
    row = before or Translation(digest=digest, language=language)
    if before and before.text == text and before.is_confirmed:
        return row
    former_facts = _audit_facts(row) if before else None
    if row.text != text:
        row.text, row.origin, row.model = text, TranslationOrigin.PERSON, ""
    row.is_confirmed, row.author = True, actor
    row.changed_at = timezone.now()
    row.save()
    audit.record(actor, "edit" if before else "add", row, before=former_facts, after=_audit_facts(row))
    log_texts([digest])
    return row


def check_state(translation: Translation | None, expected: str, submitted_state: str) -> None:
    """Raise LateEditError unless `expected` names the state of the translation."""
    facts = translation_facts(translation)
    state = edit_conflicts.etag(facts)
    if expected not in (edit_conflicts.ANY_STATE, state):
        raise LateEditError(
            state,
            [Difference("text", None, facts["text"], submitted_state)],
            editor_name=translation.author_name if translation else _("Another user"),
            edited_at=translation.changed_at if translation else None,
            knows_before=False,
        )


@transaction.atomic
def remove_translation(
    *, actor: User, language: str, digest: str, expected: str = edit_conflicts.ANY_STATE
) -> None:
    """Remove a translation. Raises DomainError if there is none, LateEditError if it has changed since."""
    lock_translations()
    row = translations_of([digest], language).get(digest)
    if row is None:
        raise DomainError("not_found", _("This text has no translation."), status=404)
    check_state(row, expected, "")
    audit.record(actor, "remove", row, before=_audit_facts(row))
    row.delete()
    log_texts([digest])


def write_translations(
    texts: Mapping[str, str],
    *,
    language: str,
    origin: TranslationOrigin,
    actor: User | None,
    model: str = "",
    why: str = "",
    replaces: bool = True,
) -> WriteCounts:
    """Store translations by the digest of their source, normalized before.

    Each portion is a transaction of its own. Equal texts change nothing, so an import that was interrupted is
    repeated as a whole. Without `replaces`, stored translations stay.
    """
    find_language(language)
    rows = [
        Translation(
            digest=digest,
            language=language,
            text=text,
            origin=origin,
            is_confirmed=origin != TranslationOrigin.MODEL,
            author=actor,
            model=model,
        )
        for digest, text in texts.items()
    ]
    added = replaced = 0
    for start in range(0, len(rows), PORTION):
        portion_added, portion_replaced = _write_portion(
            rows[start : start + PORTION], language, actor, why=why, replaces=replaces
        )
        added, replaced = added + portion_added, replaced + portion_replaced
    return WriteCounts(added, replaced, len(rows) - added - replaced)


@transaction.atomic
def _write_portion(
    rows: Sequence[Translation], language: str, actor: User | None, *, why: str, replaces: bool
) -> tuple[int, int]:
    """Store the rows that differ from the stored ones. Return the numbers of added and replaced rows."""
    lock_translations()
    stored = translations_of([row.digest for row in rows], language)
    changed = []
    for row in rows:
        former = stored.get(row.digest)
        if former is None or (
            replaces and (former.text != row.text or (row.is_confirmed and not former.is_confirmed))
        ):
            changed.append(row)
    Translation.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["digest", "language"],
        update_fields=["text", "origin", "is_confirmed", "author", "model", "changed_at"],
    )
    facts = {digest: _audit_facts(row) for digest, row in stored.items()}
    changes = (
        audit.ObjectChange(
            "edit" if row.digest in stored else "add", row, facts.get(row.digest), _audit_facts(row)
        )
        for row in changed
    )
    audit.record_many(actor, changes, why=why)
    log_texts(row.digest for row in changed)
    replaced = sum(row.digest in stored for row in changed)
    return len(changed) - replaced, replaced


def _audit_facts(translation: Translation) -> dict[str, Any]:
    return {
        "language": translation.language,
        "source_digest": translation.digest,
        "text": translation.text,
        "origin": str(translation.origin),
        "is_confirmed": translation.is_confirmed,
    }


_LOG = """
    INSERT INTO catalog_toolchange (tool_id, is_new_version, transaction)
    SELECT texts.tool_id, false, pg_current_xact_id()::text::bigint FROM catalog_tooltexts texts
    WHERE {condition} ORDER BY texts.tool_id
"""
# The keys are those of `tool_texts.key_of`.
_IS_TRANSLATED = """
    texts.tool_id = ANY(%s) AND EXISTS (
        SELECT FROM unnest(texts.keys) AS key JOIN catalog_translation translation
        ON left(translation.digest, 16) = lpad(to_hex(key), 16, '0'))
"""


def log_texts(digests: Iterable[str]) -> None:
    """Log the tools that have a text with one of these digests as changed for the search index."""
    keys = [tool_texts.key_of(digest) for digest in digests]
    with connection.cursor() as cursor:
        cursor.execute(_LOG.format(condition="texts.keys && %s::bigint[]"), [keys])


def log_translated(tools: Collection[int]) -> None:
    """Log those of the tools that have a translation as changed for the search index."""
    if not Translation.objects.exists():
        return
    with connection.cursor() as cursor:
        cursor.execute(_LOG.format(condition=_IS_TRANSLATED), [list(tools)])


def searched_translations(
    signatures: Mapping[int, str], decode: Callable[[str], tool_texts.TextsOwner]
) -> dict[int, str]:
    """Return the translations of each tool's texts in all languages as one text, by the key of the tool.

    decode: reads a signature. Without any translation none is read.
    """
    if not signatures or not Translation.objects.exists():
        return {}
    digests = {
        tool: [text.digest for text in tool_texts.texts_of(decode(signature))]
        for tool, signature in signatures.items()
    }
    every_digest = {digest for tool_digests in digests.values() for digest in tool_digests}
    translations: dict[str, list[str]] = {}
    rows = Translation.objects.filter(digest__in=every_digest).order_by("language")
    for digest, text in rows.values_list("digest", "text"):
        translations.setdefault(digest, []).append(text)
    joined = {
        tool: "\n".join(text for digest in tool_digests for text in translations.get(digest, ()))
        for tool, tool_digests in digests.items()
    }
    return {tool: text for tool, text in joined.items() if text}
