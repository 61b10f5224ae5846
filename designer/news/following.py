"""The followers of agents and tools. Designers follow the agents and tools that they edit; each user may
follow others.
"""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from catalog.models import Tool
from core.prepared_statements import run_prepared
from designer.models import Agent, Follow
from people import audit
from people.models import TEAMS_OF, Role, User

# A user edits an agent by creating, pinning, tuning or publishing in it.
_EDITED = """
    SELECT id AS agent_id, created_by_id AS user_id FROM designer_agent
    UNION ALL SELECT agent_id, created_by_id FROM designer_pin
    UNION ALL SELECT pin.agent_id, tuning.updated_by_id
        FROM designer_tuning tuning JOIN designer_pin pin ON pin.id = tuning.pin_id
    UNION ALL SELECT written.agent_id, version.created_by_id
        FROM designer_procedureversion version JOIN designer_procedure written
        ON written.id = version.procedure_id
    UNION ALL SELECT agent_id, created_by_id FROM designer_release
"""
_FOLLOWED = f"""
    SELECT agent_id, user_id FROM ({_EDITED}) edited WHERE NOT EXISTS (
        SELECT FROM designer_follow chosen WHERE chosen.user_id = edited.user_id
            AND chosen.agent_id = edited.agent_id AND NOT chosen.is_following)
    UNION ALL SELECT agent_id, user_id FROM designer_follow WHERE is_following AND agent_id IS NOT NULL
"""  # noqa: S608 - constant texts
FOLLOWERS = f"""
    SELECT follower.id FROM ({_FOLLOWED}) followed
    JOIN designer_agent agent ON agent.id = followed.agent_id AND agent.removed_at IS NULL
    JOIN people_user follower ON follower.id = followed.user_id
    WHERE followed.agent_id = ANY(%s)
        AND (follower.role = '{Role.ADMIN}' OR agent.team_id IN ({TEAMS_OF.replace("%s", "follower.id")}))
"""  # noqa: S608 - constant texts
_OF_USER = f"SELECT agent_id FROM ({_FOLLOWED}) followed WHERE user_id = %s"  # noqa: S608 - constant texts

_IS_FOLLOWED = f"""
    SELECT FROM designer_agent agent WHERE agent.slug = %s AND agent.removed_at IS NULL
        AND agent.id IN ({_OF_USER})
"""


def followers(agents: Collection[int]) -> QuerySet[User]:
    """Return the users who follow one of these agents and may see it."""
    user_ids = RawSQL(FOLLOWERS, [list(agents)])  # noqa: S611 - constant text
    return User.objects.filter(pk__in=user_ids)


def followed_agents(user: User) -> QuerySet[Agent]:
    """Return the active agents that the user follows and may see."""
    agent_ids = RawSQL(_OF_USER, [user.pk])  # noqa: S611 - constant text
    return Agent.objects.active().visible_to(user).filter(pk__in=agent_ids)


def is_followed(user: User, slug: str) -> bool:
    """Return whether the user follows the agent. Every page of the agent reads it."""
    return bool(run_prepared(_IS_FOLLOWED, [slug, user.pk]))


def followed_tools(user: User) -> QuerySet[Tool]:
    choices = Follow.objects.filter(user=user, is_following=True).exclude(tool=None)
    return Tool.objects.filter(pk__in=choices.values("tool"))


@transaction.atomic
def follow(user: User, followed_object: Agent | Tool, *, is_following: bool) -> None:
    """Set whether the user follows the agent or tool."""
    target: dict[str, Any] = {"agent" if isinstance(followed_object, Agent) else "tool": followed_object}
    # Two clicks on one button wait for each other here.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if follows(user, followed_object) == is_following:
        return
    row, _ = Follow.objects.update_or_create(user=user, **target, defaults={"is_following": is_following})
    agent = followed_object.pk if isinstance(followed_object, Agent) else None
    audit.record(user, "follow" if is_following else "unfollow", row, agent=agent)


def follows(user: User, followed_object: Agent | Tool) -> bool:
    if isinstance(followed_object, Agent):
        return followed_agents(user).filter(pk=followed_object.pk).exists()
    return followed_tools(user).filter(pk=followed_object.pk).exists()
