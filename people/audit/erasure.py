"""Erase the names of a user from the audit trail while its chain still verifies.

The digest of an entry stays as it is and no longer fits its content, so a row for each changed entry states
the digest of the remaining content. The erasure is an entry itself and names a digest over these rows, so
they are part of the chain. docs/decisions/0087-erased-users.md.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Q

from people import audit
from people.audit.hash_chain import ERASE, digest_of, digest_of_erasure
from people.models import KEY_KINDS, AuditEntry, ErasedEntry, User

# Members of an entry about a user that name this user.
NAMES_OF_USER = ("username", "name", "subject")
# Members of other entries with the username of a user, and with several of them.
MEMBERS_WITH_USERNAME, MEMBERS_WITH_USERNAMES = ("owner", "person"), ("members",)
# A shorter name may be any word of a text.
MIN_LENGTH_IN_TEXT = 3


@dataclass(frozen=True)
class Person:
    """A user who is erased.

    usernames: all names that this user has signed in with and no other user has. names: these, the names on
    pages and the subjects at identity providers.
    """

    user_id: int
    api_key_ids: frozenset[str]
    usernames: frozenset[str]
    names: frozenset[str]
    pseudonym: str

    def replace_names(self, text: str) -> str:
        """Return the text with the pseudonym in place of each name that appears in it as a word."""
        names = sorted(
            (name for name in self.names if len(name) >= MIN_LENGTH_IN_TEXT), key=len, reverse=True
        )
        if not names:
            return text
        pattern = "|".join(re.escape(name) for name in names)
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda _: self.pseudonym, text, flags=re.IGNORECASE)


def find_person(user: User, *, pseudonym: str, subjects: Collection[str]) -> Person:
    """Collect the names that the user has now and those that the audit trail contains."""
    about_user = AuditEntry.objects.filter(kind="user", object_id=str(user.pk))
    usernames, names = {user.username}, {user.name, *subjects}
    names.update(AuditEntry.objects.filter(actor=user).values_list("actor_name", flat=True).distinct())
    for entry in about_user.iterator():
        for facts in (entry.before or {}, entry.after or {}):
            usernames.add(facts.get("username") or "")
            names.update(facts.get(member) or "" for member in NAMES_OF_USER)
    others = User.objects.exclude(pk=user.pk)
    usernames -= {"", *others.filter(username__in=usernames).values_list("username", flat=True)}
    return Person(
        user_id=user.pk,
        api_key_ids=frozenset(str(pk) for pk in user.api_keys.values_list("pk", flat=True)),
        usernames=frozenset(usernames),
        names=frozenset((names | usernames) - {"", pseudonym}),
        pseudonym=pseudonym,
    )


def erase(person: Person, *, user: User, why: str) -> int:
    """Erase the names from all entries that contain them, and record it. Return the number of entries.

    Must be called inside `transaction.atomic()` by the owner of the tables, after `user` got its pseudonym.
    """
    covers_by_entry = dict(ErasedEntry.objects.order_by("erasure").values_list("entry", "covers_id"))
    erased_rows = []
    with connection.cursor() as cursor:
        # A trigger refuses every other change of an entry.
        cursor.execute("SELECT set_config('pegboard.erases', 'on', true)")
        # Select entries by the user, about the user or the user's keys, and those that contain a username.
        condition = Q(actor=person.user_id) | Q(kind="user", object_id=str(person.user_id))
        condition |= Q(kind__in=KEY_KINDS, object_id__in=person.api_key_ids)
        for side in ("before", "after"):
            for member in MEMBERS_WITH_USERNAME:
                condition |= Q(**{f"{side}__{member}__in": list(person.usernames)})
            for member in MEMBERS_WITH_USERNAMES:
                for username in person.usernames:
                    condition |= Q(**{f"{side}__{member}__contains": [username]})
        for entry in AuditEntry.objects.filter(condition).order_by("pk").iterator():
            columns = _columns_without_names(entry, person)
            if not columns:
                continue
            covers_id = covers_by_entry.get(entry.pk, entry.digest != digest_of(audit.content_of(entry)))
            columns["salt"] = ""
            AuditEntry.objects.filter(pk=entry.pk).update(**columns)
            for name, value in columns.items():
                setattr(entry, name, value)
            erased_rows.append((entry.pk, covers_id, digest_of(audit.content_of(entry))))
        cursor.execute("SELECT set_config('pegboard.erases', '', true)")
    after = {"entries": len(erased_rows), "digest": digest_of_erasure(erased_rows)}
    erasure = audit.record(None, ERASE, user, after=after, why=why)
    ErasedEntry.objects.bulk_create(
        (
            ErasedEntry(entry=pk, erasure=erasure.pk, digest=digest, covers_id=covers_id)
            for pk, covers_id, digest in erased_rows
        ),
        batch_size=1_000,
    )
    return len(erased_rows)


def _columns_without_names(entry: AuditEntry, person: Person) -> dict[str, Any]:
    """Return the columns of the entry that contain a name, each with its new value."""
    is_actor = entry.actor_id == person.user_id
    is_about_user = entry.kind == "user" and entry.object_id == str(person.user_id)
    is_about_key = entry.kind in KEY_KINDS and entry.object_id in person.api_key_ids
    # Members of `before` and `after` whose whole value names the person.
    personal_members: tuple[str, ...] = ()
    if is_about_user:
        personal_members = NAMES_OF_USER
    elif is_actor and entry.kind == "mailaddress":
        personal_members = ("address",)
    elif is_about_key:
        personal_members = ("name",)

    columns: dict[str, Any] = {}
    if is_actor:
        columns["actor_name"] = person.pseudonym
    if is_actor or is_about_user or is_about_key:
        columns["label"] = person.pseudonym if is_about_user else person.replace_names(entry.label)[:300]
        columns["why"] = person.replace_names(entry.why)
    for side in ("before", "after"):
        facts = getattr(entry, side)
        if facts is not None:
            columns[side] = {
                member: _without_names(member, value, personal_members, person)
                for member, value in facts.items()
            }
    return {name: value for name, value in columns.items() if value != getattr(entry, name)}


def _without_names(member: str, value: Any, personal_members: Collection[str], person: Person) -> Any:
    if member in personal_members and isinstance(value, str) and value:
        return person.pseudonym
    if member in MEMBERS_WITH_USERNAME and isinstance(value, str) and value in person.usernames:
        return person.pseudonym
    if member in MEMBERS_WITH_USERNAMES and isinstance(value, list):
        return [person.pseudonym if username in person.usernames else username for username in value]
    return value
