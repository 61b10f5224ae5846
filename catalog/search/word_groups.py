"""The groups of everyday words of this organization: administrators edit them, and search uses them.

Each process caches the stored groups. Before it uses them, it compares the revisions of the rows.
"""

from collections.abc import Sequence
from functools import lru_cache

from django.db import connection, transaction
from django.utils.translation import gettext as _

from catalog.locking import lock_row
from catalog.models import CustomWordGroup
from catalog.search.job_words import (
    CHINESE,
    ENGLISH,
    JobWords,
    WordGroup,
    shipped_groups,
    shipped_job_words,
    split_words,
)
from catalog.search.words import fold, is_unspaced
from core.compiled_queries import CompiledQuery
from core.errors import DomainError, invalid
from people import audit
from people.audit import edit_conflicts
from people.models import User

MAX_GROUPS, MAX_WORDS, MAX_WORD_LENGTH = 200, 40, 80
# Changes of groups wait for each other, so that their number keeps its limit.
_LOCK = 7_402_881

Groups = tuple[tuple[str, ...], ...]
# The revisions of the rows by their ids, and the words of these rows.
_cached: tuple[tuple[tuple[int, int], ...], Groups] = ((), ())


def group_facts(group: CustomWordGroup) -> dict[str, list[str]]:
    return {"words": list(group.words)}


@transaction.atomic
def create_group(*, actor: User, words: Sequence[str]) -> CustomWordGroup:
    """Create a group. Raises DomainError for invalid words, or if there are too many groups."""
    group = CustomWordGroup(words=normalize_group(words))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    if CustomWordGroup.objects.count() >= MAX_GROUPS:
        message = _("There are {maximum} groups, which is the limit. Remove one first.").format(
            maximum=MAX_GROUPS
        )
        raise DomainError("too_many_groups", message, status=409)
    group.save()
    audit.record(actor, "create", group, after=group_facts(group))
    return group


@transaction.atomic
def update_group(
    group: CustomWordGroup,
    *,
    actor: User,
    words: Sequence[str],
    expected: str = edit_conflicts.ANY_STATE,
) -> CustomWordGroup:
    """`expected` is the state that the editor started from, as `edit_conflicts` names it."""
    group = lock_row(group, CustomWordGroup.objects.all())
    before = group_facts(group)
    group.words = normalize_group(words)
    after = group_facts(group)
    edit_conflicts.check(group, expected, now=before, submitted=after)
    if after != before:
        group.revision += 1
        group.save(update_fields=["words", "revision"])
        audit.record(actor, "edit", group, before=before, after=after)
    return group


@transaction.atomic
def remove_group(group: CustomWordGroup, *, actor: User) -> None:
    group = lock_row(group, CustomWordGroup.objects.all())
    audit.record(actor, "remove", group, before=group_facts(group))
    group.delete()


def normalize_group(terms: Sequence[str]) -> list[str]:
    """Return the words without repetitions and extra spaces. Raises DomainError."""
    distinct: dict[str, str] = {}
    for term in (" ".join(each.split()) for each in terms):
        if term:
            distinct.setdefault(fold(term).lower(), term)
    group = list(distinct.values())
    if problem := find_problem(group):
        raise invalid(words=problem)
    return group


def find_problem(group: Sequence[str]) -> str:
    """Return why these words make no group, "" if they do."""
    if len(group) < 2:
        return _("Enter at least two different words that mean the same.")
    if len(group) > MAX_WORDS:
        return _("A group has up to {maximum} words. This one has {word_count}.").format(
            maximum=MAX_WORDS, word_count=len(group)
        )
    for term in group:
        if len(term) > MAX_WORD_LENGTH:
            return _("“{word}…” has {length} characters. A word has up to {maximum}.").format(
                word=term[:20], length=len(term), maximum=MAX_WORD_LENGTH
            )
        if not term.isprintable() or "," in term or "|" in term:
            return _(
                "“{word}” contains a separator or a control character. Give each word by itself."
            ).format(word=term[:20])
        if not split_words(term):
            return _("“{word}” has no letter or digit, so no search can contain it.").format(word=term[:20])
    return ""


def find_shipped_groups(text: str) -> list[WordGroup]:
    """Return the shipped groups with a word that contains the text."""
    wanted = fold(text).lower().strip()
    return [
        group
        for group in shipped_groups()
        if any(wanted in fold(term).lower() for terms in group.terms.values() for term in terms)
    ]


def current_job_words() -> JobWords:
    """Return the shipped groups with those of this organization as they are now."""
    groups = current_groups()
    return job_words_with(groups) if groups else shipped_job_words()


def current_groups() -> Groups:
    """Return the words of each group of this organization as they are now.

    Costs one short query unless they changed.
    """
    global _cached
    revisions = tuple(_REVISIONS.rows())
    if _cached[0] != revisions:
        rows = list(CustomWordGroup.objects.order_by("pk").values_list("pk", "revision", "words"))
        # Another change may have come between the two queries: these are the revisions of the words.
        read = tuple((pk, revision) for pk, revision, _unused in rows)
        _cached = read, tuple(tuple(terms) for _unused, _unused, terms in rows)
    return _cached[1]


_REVISIONS: CompiledQuery[tuple[int, int]] = CompiledQuery(
    lambda: CustomWordGroup.objects.order_by("pk").values_list("pk", "revision")
)


@lru_cache(maxsize=1)
def job_words_with(groups: Groups) -> JobWords:
    """Return the shipped groups with these."""
    # Words of other languages with spaces are found as they are written.
    custom_groups = [
        WordGroup(
            {
                ENGLISH: tuple(term for term in terms if not is_unspaced(term)),
                CHINESE: tuple(term for term in terms if is_unspaced(term)),
            }
        )
        for terms in groups
    ]
    return JobWords(custom_groups, shipped_job_words())
