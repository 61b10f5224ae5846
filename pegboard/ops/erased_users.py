"""Erase a user: a pseudonym takes the place of everything that names the person.

docs/operations.md, "Personal data", lists what names a person and where.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction

from catalog.models import Call, Configuration, Example, SignIn, Thread
from catalog.notifications.models import Mail, MailAddress, Notice, Subscription, Webhook
from core.errors import DomainError
from designer.models import Follow, ProcedureDraft
from people import users
from people.audit import erasure
from people.audit.erasure import Person
from people.models import FailedSignIn, IdempotentWrite, Identity, Membership, User

# Rows that belong to the user alone, by the field that names the user.
OWN_ROWS = (
    (Identity, "user"),
    (Membership, "user"),
    (Subscription, "user"),
    (MailAddress, "user"),
    (Mail, "user"),
    (SignIn, "user"),
    (Follow, "user"),
    (ProcedureDraft, "user"),
    (LogEntry, "user"),
)
# Copies of the user's name: the field with the copy and the one with the user.
COPIED_NAMES = (
    (Call, "requested_name", "requested_by"),
    (Thread, "requested_name", "requested_by"),
    (Example, "created_name", "created_by"),
    (Configuration, "created_name", "created_by"),
)
# Members of the facts of a notification that contain a username.
MEMBERS_WITH_USERNAME = ("owner", "published_by", "moved_by")


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """The result of an erasure. pseudonym: the new username; entries: the number of changed audit entries."""

    pseudonym: str
    entries: int


def erase_user(user: User, *, why: str) -> ErasureResult:
    """Deactivate the user, end sessions and API keys, and erase the names of the person.

    Things that the user made stay, under the pseudonym. Texts that users wrote are not searched. Must run as
    the owner of the tables. Safe to run again, which erases names that a request wrote meanwhile.
    Raises DomainError for the last administrator.
    """
    pseudonym = pseudonym_for(user)
    users.update_user(user, actor=None, is_active=False, why=why)
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=user.pk)
        subjects = list(Identity.objects.filter(user=user).values_list("subject", flat=True))
        person = erasure.find_person(user, pseudonym=pseudonym, subjects=subjects)
        user.username, user.name, user.last_login = pseudonym, "", None
        user.set_unusable_password()
        user.sessions_ended += 1
        user.save(update_fields=["username", "name", "last_login", "password", "sessions_ended"])
        for model, field in OWN_ROWS:
            model._default_manager.filter(**{field: user}).delete()
        Notice.readers.through._default_manager.filter(user=user).delete()
        LogEntry.objects.filter(content_type__model="user", object_id=str(user.pk)).delete()
        FailedSignIn.objects.filter(username__in=[name.casefold() for name in person.usernames]).delete()
        callers = [f"user:{user.pk}", *(f"key:{pk}" for pk in person.api_key_ids)]
        IdempotentWrite.objects.filter(caller__in=callers).delete()
        session_keys = [
            session.pk
            for session in Session.objects.iterator()
            if session.get_decoded().get(SESSION_KEY) == str(user.pk)
        ]
        Session.objects.filter(pk__in=session_keys).delete()
        _replace_copied_names(user, person)
        entries = erasure.erase(person, user=user, why=why)
    return ErasureResult(pseudonym, entries)


def pseudonym_for(user: User) -> str:
    """Return a username that does not identify the user. Raises DomainError if another user has it."""
    pseudonym = f"erased-{user.pk}"
    if User.objects.exclude(pk=user.pk).filter(username__iexact=pseudonym).exists():
        raise DomainError("taken", f"Another user is called {pseudonym}. Rename that user first.", status=409)
    return pseudonym


def _replace_copied_names(user: User, person: Person) -> None:
    for model, copy, owner in COPIED_NAMES:
        model._default_manager.filter(**{owner: user}).update(**{copy: person.pseudonym})
    for key in user.api_keys.all():
        _update_changed(key, name=person.replace_names(key.name)[:100])
    for webhook in Webhook.objects.exclude(paused_why=""):
        _update_changed(webhook, paused_why=person.replace_names(webhook.paused_why))
    for notice in Notice.objects.iterator():
        _update_changed(
            notice,
            title=person.replace_names(notice.title),
            says=person.replace_names(notice.says),
            facts=_replace_usernames(notice.facts, person),
        )


def _update_changed(row: Any, **values: Any) -> None:
    changed = {name: value for name, value in values.items() if value != getattr(row, name)}
    if changed:
        type(row)._default_manager.filter(pk=row.pk).update(**changed)


def _replace_usernames(value: Any, person: Person, member: str = "") -> Any:
    """Return the facts of a notification with the pseudonym in the members that contain a username."""
    if isinstance(value, dict):
        return {name: _replace_usernames(below, person, name) for name, below in value.items()}
    if isinstance(value, list):
        return [_replace_usernames(below, person, member) for below in value]
    if member in MEMBERS_WITH_USERNAME and value in person.usernames:
        return person.pseudonym
    return value
