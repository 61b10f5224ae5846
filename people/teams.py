"""Teams: which users work on which agents. Each function is one change by one administrator, audited."""

import secrets
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from core import display_names, slugs, unique_violations
from core.errors import DomainError
from people import audit
from people.audit import edit_conflicts
from people.models import Membership, Team, User, everyone

MAX_NAME_LENGTH = 120


@transaction.atomic
def create_team(*, actor: User, name: str, slug: str = "") -> Team:
    """Without a slug, one is made from the name."""
    name = name.strip()
    _check_name(name)
    # A name without any Latin letter gets a slug that says nothing rather than being refused.
    wanted = slug.strip() or slugs.from_name(name) or f"team-{secrets.token_hex(4)}"
    team = Team(name=name, slug=slugs.checked(wanted))
    try:
        with transaction.atomic():
            team.save()
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        message = f"There is a team “{team.slug}” already."
        raise DomainError("slug_taken", message, fields={"slug": message}, status=409) from error
    audit.record(actor, "create", team, after=facts(team))
    return team


@transaction.atomic
def rename_team(team: Team, *, actor: User, name: str, expected: str = edit_conflicts.ANY_STATE) -> Team:
    team = locked(team)
    before = facts(team)
    _check_name(name.strip())
    team.name = name.strip()
    edit_conflicts.check(team, expected, now=before, wanted=facts(team))
    if facts(team) != before:
        team.save(update_fields=["name"])
        audit.record(actor, "rename", team, before=before, after=facts(team))
    return team


@transaction.atomic
def remove_team(team: Team, *, actor: User) -> None:
    """The caller has made sure that no agent belongs to it any more; its members stay users."""
    team = locked(team)
    if team.is_everyone:
        raise DomainError("everyone_stays", f"“{team}” is the team of all users and stays.", status=409)
    team.removed_at = timezone.now()
    team.save(update_fields=["removed_at"])
    # The trail is all that still tells who was in it.
    before = facts(team) | {"members": sorted(team.members.values_list("username", flat=True))}
    team.memberships.all().delete()
    audit.record(actor, "remove", team, before=before)


@transaction.atomic
def add_member(team: Team, user: User, *, actor: User) -> None:
    """Safe to call twice; takes effect with that user's next request."""
    team = locked(team)
    if team.is_everyone:
        raise DomainError("everyone_is_in", f"All users are in “{team}” already.", status=409)
    _, is_new = Membership.objects.get_or_create(team=team, user=user)
    if is_new:
        audit.record(actor, "add member", team, after={"person": user.username})


@transaction.atomic
def remove_member(team: Team, user: User, *, actor: User) -> None:
    """Safe to call twice; takes effect with that user's next request."""
    team = locked(team)
    if team.is_everyone:
        raise DomainError("everyone_is_in", f"All users are in “{team}”, and stay in it.", status=409)
    gone, _ = Membership.objects.filter(team=team, user=user).delete()
    if gone:
        audit.record(actor, "remove member", team, before={"person": user.username})


def locked(team: Team) -> Team:
    """The team as it is now, locked until the transaction ends."""
    found = Team.objects.live().select_for_update(no_key=True).filter(pk=team.pk).first()
    if found is None:
        raise DomainError("team_removed", f"The team “{team}” has been removed.", status=409)
    return found


def first_of(user: User) -> Team:
    """The team that the user joined first, or else the team of all users."""
    # Ordered by when the user joined, so that a new team changes no default.
    own = Membership.objects.filter(user=user).select_related("team").first()
    return own.team if own else everyone()


def facts(team: Team) -> dict[str, Any]:
    return {"name": team.name, "slug": team.slug}


def _check_name(name: str) -> None:
    if why := display_names.why_not(name, MAX_NAME_LENGTH):
        raise DomainError("invalid", "A team cannot be called so.", fields={"name": why})
