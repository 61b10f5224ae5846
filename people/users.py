"""Add, change and deactivate users."""

from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core import display_names, unique_violations
from core.errors import DomainError
from people import api_keys, audit
from people.audit import edit_conflicts
from people.models import Role, User

PASSWORD: "models.CharField[str, str]" = models.CharField(
    max_length=200, help_text=gettext_lazy("At least 10 characters, and not one of the common ones.")
)
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
    """Add a user. Without a password, the user signs in through single sign-on.

    `why` is the reason in the audit trail. Raises DomainError.
    """
    user = User(username=User.normalize_username(username.strip()), name=name.strip(), role=role)
    _check(user, password)
    user.set_password(password)  # None: no password matches
    after = {"username": user.username, **facts(user)}
    try:
        with transaction.atomic():
            user.save()
            audit.record(actor, "add person", user, after=after, why=why)
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        message = _("Another user already signs in with this name.")
        raise DomainError("taken", message, fields={"username": message}, status=409) from error
    return user


def update_user(
    user: User, *, actor: User | None, expected: str = edit_conflicts.ANY_STATE, why: str = "", **changes: Any
) -> None:
    """Change `name`, `role` or `is_active`. The last active administrator stays one.

    A new role or deactivation ends the user's sessions. Deactivation revokes the user's API keys for good;
    the agents and releases of the user stay. Raises DomainError.
    """
    with transaction.atomic():
        # Administrators are locked first and always in this order. If two of them demote each other, the
        # second one waits here and finds that it is the last.
        administrators = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("pk")
        others = [row for row in administrators.select_for_update(no_key=True) if row.pk != user.pk]
        user.refresh_from_db(from_queryset=User.objects.select_for_update(no_key=True))
        before, was_administrator = facts(user), user.can_administer
        for field in CHANGEABLE:
            setattr(user, field, changes.get(field, before[field]))
        _check(user)
        edit_conflicts.check(user, expected, now=before, submitted=facts(user))
        if was_administrator and not user.can_administer and not others:
            raise DomainError(
                "last_administrator", _("Pegboard needs at least one administrator."), status=409
            )
        if facts(user) == before:
            return
        if (before["role"], before["is_active"]) != (user.role, user.is_active):
            # Sessions contain this number; with another number they are not valid any more.
            user.sessions_ended += 1
        user.save(update_fields=[*CHANGEABLE, "sessions_ended"])
        audit.record(actor, "change person", user, before=before, after=facts(user), why=why)
        if not user.is_active:
            # For good, so that a user who returns decides again which programs may act.
            for key in user.api_keys.filter(revoked_at=None).order_by("pk"):
                api_keys.revoke(key, actor=actor, why=f"{user} was deactivated.")


def set_password(user: User, *, actor: User | None, password: str, why: str = "") -> None:
    """Set the password and end the user's sessions. Raises DomainError for a weak password."""
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
    # After Django's own checks, because this sentence is clearer.
    if user.name and (fault := display_names.name_problem(user.name, 150)):
        fields["name"] = fault
    if password is not None:
        try:
            validate_password(password, user)
        except ValidationError as error:
            fields["password"] = " ".join(error.messages)
    if "__all__" in fields:  # users can violate only the constraint on the username
        fields["username"] = fields.pop("__all__")
    if fields:
        raise DomainError("invalid", _("Some fields are not valid."), fields=fields)
