"""Create and change teams. Each function is one change by an administrator, with an audit entry."""

import secrets
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from core import display_names, slugs, unique_violations
from core.errors import DomainError
from people import audit
from people.audit import edit_conflicts
from people.models import MAX_TEAM_NAME_LENGTH, Membership, Team, User, everyone


@transaction.atomic
def create_team(*, actor: User, name: str, slug: str = "") -> Team:
    """Create a team. By default the slug derives from the name. Raises DomainError."""
    name = name.strip()
    _check_name(name)
    # A name without Latin letters gets a random slug.
    proposed_slug = slug.strip() or slugs.from_name(name) or f"team-{secrets.token_hex(4)}"
    team = Team(name=name, slug=slugs.parse_slug(proposed_slug))
    try:
        with transaction.atomic():
            team.save()
    except IntegrityError as error:
        if not unique_violations.is_taken(error):
            raise
        message = _("There is a team “{team}” already.").format(team=team.slug)
        raise DomainError("slug_taken", message, fields={"slug": message}, status=409) from error
    audit.record(actor, "create", team, after=facts(team))
    return team


@transaction.atomic
def rename_team(team: Team, *, actor: User, name: str, expected: str = edit_conflicts.ANY_STATE) -> Team:
    team = lock_team(team)
    before = facts(team)
    _check_name(name.strip())
    team.name = name.strip()
    edit_conflicts.check(team, expected, now=before, submitted=facts(team))
    if facts(team) != before:
        team.save(update_fields=["name"])
        audit.record(actor, "rename", team, before=before, after=facts(team))
    return team


@transaction.atomic
def remove_team(team: Team, *, actor: User) -> None:
    """Remove the team. The caller ensures that no agent belongs to it. The members stay users."""
    team = lock_team(team)
    if team.is_everyone:
        raise DomainError(
            "everyone_stays", _("“{team}” is the team of all users and stays.").format(team=team), status=409
        )
    team.removed_at = timezone.now()
    team.save(update_fields=["removed_at"])
    # Only the audit trail still lists the members.
    before = facts(team) | {"members": sorted(team.members.values_list("username", flat=True))}
    team.memberships.all().delete()
    audit.record(actor, "remove", team, before=before)


@transaction.atomic
def add_member(team: Team, user: User, *, actor: User) -> None:
    """Add `user` to the team, effective with the user's next request. A second call changes nothing."""
    team = lock_team(team)
    if team.is_everyone:
        raise DomainError(
            "everyone_is_in", _("All users are in “{team}” already.").format(team=team), status=409
        )
    _membership, is_new = Membership.objects.get_or_create(team=team, user=user)
    if is_new:
        audit.record(actor, "add member", team, after={"person": user.username})


@transaction.atomic
def remove_member(team: Team, user: User, *, actor: User) -> None:
    """Remove `user` from the team, effective with the next request. A second call changes nothing."""
    team = lock_team(team)
    if team.is_everyone:
        raise DomainError(
            "everyone_is_in", _("All users are in “{team}”, and stay in it.").format(team=team), status=409
        )
    deleted_count, _by_model = Membership.objects.filter(team=team, user=user).delete()
    if deleted_count:
        audit.record(actor, "remove member", team, before={"person": user.username})


def lock_team(team: Team) -> Team:
    """Return the current team, locked until the transaction ends. Raises DomainError if it was removed."""
    live_team = Team.objects.live().select_for_update(no_key=True).filter(pk=team.pk).first()
    if live_team is None:
        raise DomainError(
            "team_removed", _("The team “{team}” has been removed.").format(team=team), status=409
        )
    return live_team


def first_of(user: User) -> Team:
    """Return the team that the user joined first, or else the team of all users."""
    # The order is by date, so that joining another team does not change the default.
    membership = Membership.objects.filter(user=user).select_related("team").first()
    return membership.team if membership else everyone()


def facts(team: Team) -> dict[str, Any]:
    return {"name": team.name, "slug": team.slug}


def _check_name(name: str) -> None:
    if fault := display_names.name_problem(name, MAX_TEAM_NAME_LENGTH):
        raise DomainError("invalid", _("A team cannot have this name."), fields={"name": fault})
