"""Users: adding them, changing their role, deactivating them."""

from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from core import display_names, unique_violations
from core.errors import DomainError
from people import api_keys, audit
from people.audit import edit_conflicts
from people.models import Role, User

CHANGEABLE = ("name", "role", "is_active")


def add_user(
    *,
    actor: User | None,
    username: str,
    password: str | None,
    name: str = "",
    role: str = Role.VIEWER,
    why: str = "",
) -> User:
    """Without a password, the user signs in through single sign-on. `why` is for the audit trail."""
    user = User(username=User.normalize_username(username.strip()), name=name.strip(), role=role)
    _check(user, password)
    user.set_password(password)  # with None, no password will ever fit
    after = {"username": user.username, **facts(user)}
    try:
        with transaction.atomic():
            user.save()
            audit.record(actor, "add person", user, after=after, why=why)
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        taken = "Another user already signs in with this name."
        raise DomainError("taken", taken, fields={"username": taken}, status=409) from error
    return user


def update_user(
    user: User, *, actor: User | None, expected: str = edit_conflicts.ANY_STATE, why: str = "", **changes: Any
) -> None:
    """Changes `name`, `role` or `is_active`. The last active administrator stays one.

    With another role, or deactivated, a user's sessions end. The API keys of a deactivated user are revoked
    for good; what the user made stays.
    """
    with transaction.atomic():
        # Locked first and always in this order: two administrators who demote one another wait here,
        # and the second finds itself the last.
        administrators = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("pk")
        others = [row for row in administrators.select_for_update(no_key=True) if row.pk != user.pk]
        user.refresh_from_db(from_queryset=User.objects.select_for_update(no_key=True))
        before, was_administrator = facts(user), user.can_administer
        for field in CHANGEABLE:
            setattr(user, field, changes.get(field, before[field]))
        _check(user)
        edit_conflicts.check(user, expected, now=before, wanted=facts(user))
        if was_administrator and not user.can_administer and not others:
            raise DomainError("last_administrator", "Pegboard needs at least one administrator.", status=409)
        if facts(user) == before:
            return
        if (before["role"], before["is_active"]) != (user.role, user.is_active):
            # Sessions carry this number; with another one they are no sessions any more.
            user.sessions_ended += 1
        user.save(update_fields=[*CHANGEABLE, "sessions_ended"])
        audit.record(actor, "change person", user, before=before, after=facts(user), why=why)
        if not user.is_active:
            # For good, so that a user who comes back has to decide again which programs may act.
            for key in user.api_keys.filter(revoked_at=None).order_by("pk"):
                api_keys.revoke(key, actor=actor, why=f"{user} was deactivated.")


def set_password(user: User, *, actor: User | None, password: str, why: str = "") -> None:
    """Ends that user's sessions. The audit trail says that a password was set, never which."""
    _check(user, password)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        audit.record(actor, "set password", user, why=why)


def facts(user: User) -> dict[str, Any]:
    return {field: getattr(user, field) for field in CHANGEABLE}


def _check(user: User, password: str | None = None) -> None:
    fields = {}
    try:
        user.full_clean(exclude=["password"])
    except ValidationError as error:
        fields = {name: " ".join(sentences) for name, sentences in error.message_dict.items()}
    # After Django's own checks, because this sentence is the clearer one.
    if user.name and (why := display_names.why_not(user.name, 150)):
        fields["name"] = why
    if password is not None:
        try:
            validate_password(password, user)
        except ValidationError as error:
            fields["password"] = " ".join(error.messages)
    if "__all__" in fields:  # the one constraint that a person can break is that on the username
        fields["username"] = fields.pop("__all__")
    if fields:
        raise DomainError("invalid", "Some of what was entered cannot be taken.", fields=fields)
