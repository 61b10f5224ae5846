"""Find the user of an identity, and the user's role. Issuer and subject identify a user, never an address.

An e-mail address can pass to another person, and some providers let people enter any address; a subject does
not change. So only its owner links an existing account, signed in and with the password, or the command does.
"""

import logging
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from core import unique_violations
from core.errors import DomainError
from people import audit, users
from people.models import Identity, Role, User
from people.sso.errors import SignInError
from people.sso.provider import Provider

logger = logging.getLogger(__name__)
MAX_NAME_LENGTH = 150
NOT_IN_A_USERNAME = re.compile(r"[^\w.@+-]")
REASON = "single sign-on"


def account_of(claims: Mapping[str, Any], provider: Provider) -> User:
    """Return the user of these claims, with the role that the provider assigns now.

    Add the user at the first visit. Raises SignInError for a user who may not sign in.
    """
    role = role_of(claims, provider)
    identities = Identity.objects.select_related("user")
    identity = identities.filter(issuer=claims["iss"], subject=claims["sub"]).first()
    user = identity.user if identity else None
    if user is not None and not user.is_active:
        raise SignInError(
            "inactive", _("This account has been deactivated. Ask an administrator."), status=403
        )
    _check_domain(claims, provider)
    if role is None:
        name = provider.name[:1].upper() + provider.name[1:]
        message = _("{name} gives you no role here. Ask an administrator.").format(name=name)
        raise SignInError("no_role", message, status=403)
    if user is None:
        return _add(claims, role, provider)
    if provider.roles_claim and user.role != role:
        # The last administrator keeps that role; the audit trail and the log record it.
        try:
            users.update_user(user, actor=None, role=role, why=REASON)
        except DomainError as error:
            if error.code != "last_administrator":
                raise
            user.refresh_from_db()
            logger.warning(
                "%s is the last administrator and stays one, against single sign-on", user.username
            )
            with transaction.atomic():
                reason = f"{REASON} says {role.value}, but there is no other administrator"
                audit.record(None, "keep role", user, why=reason)
    return user


def role_of(claims: Mapping[str, Any], provider: Provider) -> Role | None:
    """Return the highest role of the user's groups, or the default role. None: the user may not sign in."""
    value = claims.get(provider.roles_claim) if provider.roles_claim else None
    groups = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    roles = {provider.roles[group] for group in groups if isinstance(group, str) and group in provider.roles}
    return max(roles, key=list(Role).index) if roles else provider.default_role


@transaction.atomic
def link(user: User, *, actor: User | None, issuer: str, subject: str) -> Identity:
    """Link the user to an identity. Raises DomainError if the identity belongs to another user."""
    try:
        with transaction.atomic():
            identity, is_new = Identity.objects.get_or_create(
                issuer=issuer, subject=subject, defaults={"user": user}
            )
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        raise _linked_already() from error
    if identity.user_id != user.pk:
        raise _linked_already()
    if is_new:
        audit.record(actor, "link identity", user, after={"issuer": issuer, "subject": subject}, why=REASON)
    return identity


@transaction.atomic
def unlink(user: User, *, actor: User | None, issuer: str, subject: str) -> bool:
    """Remove the link and end the user's sessions. Return whether there was such a link."""
    removed, _by_model = Identity.objects.filter(user=user, issuer=issuer, subject=subject).delete()
    if removed:
        User.objects.filter(pk=user.pk).update(sessions_ended=F("sessions_ended") + 1)
        audit.record(
            actor, "unlink identity", user, before={"issuer": issuer, "subject": subject}, why=REASON
        )
    return bool(removed)


def _linked_already() -> DomainError:
    return DomainError("linked_already", _("Another user signs in with this identity."), status=409)


def _check_domain(claims: Mapping[str, Any], provider: Provider) -> None:
    if not provider.domains:
        return
    email = claims.get("email")
    name, _at, domain = email.rpartition("@") if isinstance(email, str) else ("", "", "")
    if not name or claims.get("email_verified") is not True or domain.casefold() not in provider.domains:
        message = _("Your e-mail address is not of a domain that may sign in here. Ask an administrator.")
        raise SignInError("domain", message, status=403)


def _add(claims: Mapping[str, Any], role: Role, provider: Provider) -> User:
    # People read this name; the identity is what identifies the user.
    stated = (claims.get(claim) for claim in ("preferred_username", "email", "sub"))
    normal = (unicodedata.normalize("NFKC", value) for value in stated if isinstance(value, str))
    names = (NOT_IN_A_USERNAME.sub("", name)[:MAX_NAME_LENGTH] for name in normal)
    username = next((name for name in names if name), "")
    if not username:
        message = _("The identity provider gives you no name that can be used here.")
        raise SignInError("no_name", message, status=403)
    if User.objects.filter(username__iexact=username).exists():
        message = _(
            "There is an account “{username}” already. Sign in with its password, and "
            "link it on the page of your password; or ask an administrator to."
        ).format(username=username)
        raise SignInError("not_linked", message, status=403)
    with transaction.atomic():
        # Pages show the name beside the user's changes, so characters that it may not contain drop it.
        value = claims.get("name")
        is_plain = isinstance(value, str) and value.isprintable() and len(value) <= MAX_NAME_LENGTH
        user = users.add_user(
            actor=None,
            username=username,
            password=None,
            name=str(value).strip() if is_plain else "",
            role=role,
            why=REASON,
        )
        link(user, actor=None, issuer=claims["iss"], subject=claims["sub"])
    logger.info("%s signed in at %s for the first time", username, provider.issuer)
    return user
