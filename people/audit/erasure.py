"""Erase the names of a user from the audit trail while its chain still verifies.

The digest of an entry stays as it is and no longer fits its content, so a row for each changed entry states
the digest of what is left. The erasure is an entry itself and names a digest over these rows, so they are
part of the chain. docs/decisions/0087-erased-users.md.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

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

    def erased(self, text: str) -> str:
        """Return the text with the pseudonym in place of each name that stands in it as a word."""
        names = sorted(
            (name for name in self.names if len(name) >= MIN_LENGTH_IN_TEXT), key=len, reverse=True
        )
        if not names:
            return text
        pattern = "|".join(re.escape(name) for name in names)
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda _: self.pseudonym, text, flags=re.IGNORECASE)


def find_person(user: User, *, pseudonym: str, subjects: Collection[str]) -> Person:
    """Collect the names that the user has now and those of which the trail knows."""
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
    earlier = dict(ErasedEntry.objects.order_by("erasure").values_list("entry", "covers_id"))
    lines = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('pegboard.erases', 'on', true)")
        for entry in _entries(person).order_by("pk").iterator():
            changes = _changes(entry, person)
            if not changes:
                continue
            covers_id = earlier.get(entry.pk, entry.digest != digest_of(audit.content_of(entry)))
            changes["salt"] = ""
            AuditEntry.objects.filter(pk=entry.pk).update(**changes)
            for name, value in changes.items():
                setattr(entry, name, value)
            lines.append((entry.pk, covers_id, digest_of(audit.content_of(entry))))
        cursor.execute("SELECT set_config('pegboard.erases', '', true)")
    after = {"entries": len(lines), "digest": digest_of_erasure(lines)}
    recorded = audit.record(None, ERASE, user, after=after, why=why)
    rows = (
        ErasedEntry(entry=pk, erasure=recorded.pk, digest=digest, covers_id=covers_id)
        for pk, covers_id, digest in lines
    )
    ErasedEntry.objects.bulk_create(rows, batch_size=1_000)
    return len(lines)


def _entries(person: Person) -> QuerySet[AuditEntry]:
    """All entries by the user, about the user and about the user's keys, and those that name the user."""
    wanted = Q(actor=person.user_id) | Q(kind="user", object_id=str(person.user_id))
    wanted |= Q(kind__in=KEY_KINDS, object_id__in=person.api_key_ids)
    for side in ("before", "after"):
        for member in MEMBERS_WITH_USERNAME:
            wanted |= Q(**{f"{side}__{member}__in": list(person.usernames)})
        for member in MEMBERS_WITH_USERNAMES:
            for username in person.usernames:
                wanted |= Q(**{f"{side}__{member}__contains": [username]})
    return AuditEntry.objects.filter(wanted)


def _changes(entry: AuditEntry, person: Person) -> dict[str, Any]:
    """Return the columns of the entry that contain a name, each with what is left of it."""
    is_actor = entry.actor_id == person.user_id
    is_about_user = entry.kind == "user" and entry.object_id == str(person.user_id)
    is_about_key = entry.kind in KEY_KINDS and entry.object_id in person.api_key_ids
    erased: dict[str, Any] = {}
    if is_actor:
        erased["actor_name"] = person.pseudonym
    if is_actor or is_about_user or is_about_key:
        erased["label"] = person.pseudonym if is_about_user else person.erased(entry.label)[:300]
        erased["why"] = person.erased(entry.why)
    names: tuple[str, ...] = ()
    if is_about_user:
        names = NAMES_OF_USER
    elif is_actor and entry.kind == "mailaddress":
        names = ("address",)
    elif is_about_key:
        names = ("name",)
    for side in ("before", "after"):
        facts = getattr(entry, side)
        if facts is not None:
            erased[side] = {name: _erased_fact(name, value, names, person) for name, value in facts.items()}
    return {name: value for name, value in erased.items() if value != getattr(entry, name)}


def _erased_fact(name: str, value: Any, names: Collection[str], person: Person) -> Any:
    """Return what is left of a member of an entry. `names`: those of its members that name the person."""
    if name in names and isinstance(value, str) and value:
        return person.pseudonym
    if name in MEMBERS_WITH_USERNAME and isinstance(value, str) and value in person.usernames:
        return person.pseudonym
    if name in MEMBERS_WITH_USERNAMES and isinstance(value, list):
        return [person.pseudonym if username in person.usernames else username for username in value]
    return value
