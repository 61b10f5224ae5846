"""Whether every tool of a release can run now, found out without asking any vendor.

A call may fail all the same. What is said here is what Pegboard knows before one is made.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from django.utils import timezone

from catalog.activities import kinds, reach
from catalog.activities.reach import Reached
from catalog.calls import checks
from catalog.credentials import circuit_breaker, status
from catalog.credentials.oauth import token_replies
from catalog.credentials.oauth.grant_status import CredentialStatus, State
from catalog.models import ActivityVersion, Credential, Endpoint, ToolVersion, UserGrant
from catalog.models.findings import FindingState
from catalog.models.tools import ToolStatus
from catalog.review import holds
from catalog.user_grants import context, end_users, vault
from core.outbound.errors import printable
from designer import agent_vendors, environments
from designer.agent_vendors import Allowed
from designer.environments import Subject
from designer.exports import document as release_document
from designer.exports.document import ReleasedTool
from designer.models import Agent, Place, Release
from designer.resolution import Resolution, Runs

# `stops`: a call is refused now. `asks`: it is made once the caller adds something. `warns`: it may fail.
Severity = Literal["stops", "asks", "warns"]
_ENDED = {State.REFUSED, State.NEEDS_SIGN_IN}


@dataclass(frozen=True, slots=True)
class Page:
    """Where an administrator removes an obstacle: the page by its name and key, and what is done there."""

    name: str
    of: int | UUID
    says: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`to_do` is the one thing that helps; `page` is where an administrator does it."""

    code: str
    severity: Severity
    message: str
    to_do: str
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class Readiness:
    """One tool. `agent` is the slug of the agent of the release that shows it, `activity` the name of what
    runs in place of a vendor."""

    agent: str
    name: str
    obstacles: tuple[Obstacle, ...]
    runs: Runs = "vendor"
    activity: str = ""

    @property
    def can_run(self) -> bool:
        return not any(each.severity == "stops" for each in self.obstacles)


@dataclass(frozen=True)
class _OfUsers:
    """`secrets` are names by endpoint, and `grants` by endpoint and provider what the user was asked for."""

    user: str
    secrets: dict[int, list[str]]
    grants: dict[tuple[int, str], UserGrant]


def of(release: Release, user: str = "", place: Place | None = None) -> list[Readiness]:
    """In a number of queries that does not grow with the release. Transfers always run.

    `user` is the agent's name for a user, for whom the tools would run, and `place` the environment in which.
    """
    document = release_document.decode(release.document)
    known = _versions(document.all_tools)
    subjects = [Subject.of(tool) for tool in document.all_tools]
    found_to_run = environments.resolve_all(place, subjects, agent=release.agent_id)
    wanted = {each.version for each in found_to_run.values() if each.version}
    rows = ActivityVersion.objects.select_related("activity")
    activities = rows.in_bulk(wanted) if wanted else {}
    of_activities = _of_activities(activities.values(), [node.slug for node in document.nodes])
    unlisted = [row.tool.stopped for row in known.values() if not row.label and row.tool.stopped]
    reviewed = holds.review_states([*known.values(), *unlisted])
    now = timezone.now()
    credentials = {row.tool.endpoint.credential for row in known.values()} - {None}
    states = {each.pk: status.status_of(each, now) for each in credentials if each}
    of_users = _of_users(release, user, {row.tool.endpoint for row in known.values()})
    found = []
    for node in document.nodes:
        slugs = {release.agent.slug, node.slug}
        for tool in node.tools:
            row = known.get((tool.id, tool.version.ordinal))
            runs = found_to_run[Subject.of(tool)]
            activity = activities.get(runs.version or 0)
            if row is None or row.digest != tool.version.digest:
                obstacles: Iterable[Obstacle] = [_DAMAGED]
            elif runs.runs == "vendor":
                obstacles = _obstacles(tool, row, reviewed, states, of_users)
            else:
                obstacles = _without_vendor(tool, row, runs, activity, slugs, of_activities)
            name = activity.activity.name if activity else ""
            found.append(Readiness(node.slug, tool.signature.name, tuple(obstacles), runs.runs, name))
    return found


_DAMAGED = Obstacle(
    "release_damaged",
    "stops",
    "The catalog's version is not the one that was released.",
    "Restore the database, or publish another release.",
)


def _without_vendor(
    tool: ReleasedTool,
    row: ToolVersion,
    runs: Resolution,
    activity: ActivityVersion | None,
    slugs: Iterable[str],
    of_activities: "_OfActivities",
) -> Iterator[Obstacle]:
    if runs.fault:
        to_do = "Bind an activity to it in the environment."
        yield Obstacle(runs.fault.code, "stops", runs.fault.message, to_do)
    elif runs.runs == "latent":
        message = "Nothing runs for it here, so the model gives its output itself."
        yield Obstacle("latent", "asks", message, "Send the output with the call, or after it.")
    elif activity and kinds.get(activity.kind).acts:
        if why := of_activities.refusal(slugs, activity):
            to_do = "Bind another activity to it, or name the vendor for the agent."
            yield Obstacle(agent_vendors.CODE, "stops", why, to_do)
        effects, found = tool.signature.annotations, of_activities.reached[activity.pk]
        destroys = checks.why_confirm_reached(found, effects, of_activities.whys)
        yield from _of_effects(tool, row, is_destructive=bool(destroys))


@dataclass(frozen=True)
class _OfActivities:
    """What those that run would run themselves, and why some of the tools that they call are confirmed."""

    reached: dict[int, Reached]
    whys: dict[int, str]
    agents: dict[str, Agent]
    allowed: dict[int, Allowed]

    def refusal(self, slugs: Iterable[str], activity: ActivityVersion) -> str:
        """Why one of these agents may not run it; empty where they may."""
        which = [self.agents[slug] for slug in slugs if slug in self.agents]
        found = self.reached[activity.pk]
        return next(filter(None, (self.allowed[each.pk].refusal_of(each, found) for each in which)), "")


def _of_activities(versions: Collection[ActivityVersion], slugs: Iterable[str]) -> _OfActivities:
    found = reach.reached(versions)
    tools = {tool for each in found.values() for tool in each.tools}
    agents = {row.slug: row for row in Agent.objects.live().filter(slug__in=slugs)} if versions else {}
    allowed = agent_vendors.of_several(agents.values()) if agents else {}
    return _OfActivities(found, checks.whys_by_version(tools), agents, allowed)


def _of_effects(tool: ReleasedTool, row: ToolVersion, *, is_destructive: bool = False) -> Iterator[Obstacle]:
    if is_destructive or tool.signature.annotations.destructive or row.decoded().annotations.destructive:
        message = "It may destroy something, so each call has to be confirmed."
        yield Obstacle(
            "confirm_needed", "asks", message, "Let the runtime confirm it once a person has agreed."
        )


def _versions(tools: Iterable[ReleasedTool]) -> dict[tuple[int, int], ToolVersion]:
    wanted = {(tool.id, tool.version.ordinal) for tool in tools}
    rows = ToolVersion.objects.filter(tool__in={pk for pk, _ in wanted})
    rows = rows.filter(ordinal__in={ordinal for _, ordinal in wanted}).defer("raw")
    rows = rows.select_related(
        "tool__endpoint__vendor",
        "tool__endpoint__credential__grant",
        "tool__endpoint__circuit",
        "tool__circuit",
        "tool__stopped",
    )
    return {key: row for row in rows if (key := (row.tool_id, row.ordinal)) in wanted}


def _obstacles(
    tool: ReleasedTool,
    row: ToolVersion,
    reviewed: dict[int, FindingState],
    states: dict[UUID, CredentialStatus],
    of_users: _OfUsers,
) -> Iterator[Obstacle]:
    endpoint = row.tool.endpoint
    if endpoint.removed_at or endpoint.vendor.removed_at:
        message = "Its vendor was removed from Pegboard."
        yield Obstacle("endpoint_removed", "stops", message, "Pin another tool, and publish.")
        return
    yield from _of_review(row, reviewed)
    if note := endpoint.speak().why_not_run(row.decoded()):
        yield Obstacle(note.code, "stops", note.message, "Pin another tool, and publish.")
    if row.tool.status == ToolStatus.WITHDRAWN:
        message = "Its vendor does not list it any more, so calls may fail."
        yield Obstacle("tool_withdrawn", "warns", message, "Ask the vendor, or pin another tool.")
    yield from _of_the_way(row, endpoint, states)
    yield from _of_effects(tool, row)
    yield from _of_needs(row, endpoint, of_users)


def _of_users(release: Release, user: str, endpoints: Iterable[Endpoint]) -> _OfUsers:
    about = [each for each in endpoints if each.speak().takes_context]
    found: dict[tuple[int, str], UserGrant] = {}
    if user and about:
        rows = UserGrant.objects.filter(
            end_user__agent=release.agent_id,
            end_user__digest=end_users.digest_of(release.agent_id, user),
            endpoint__in=about,
        )
        found = {(row.endpoint_id, row.provider): row for row in rows}
    return _OfUsers(user, vault.names_by_endpoint(about), found)


def _of_needs(row: ToolVersion, endpoint: Endpoint, of_users: _OfUsers) -> Iterator[Obstacle]:
    needs = endpoint.speak().needs(row.decoded())
    for name in context.missing_secrets(needs, of_users.secrets.get(endpoint.pk, ())):
        message = f"It needs the secret “{printable(name, 100)}”, which is not in the vault of its vendor."
        page = Page("endpoint-secrets", endpoint.pk, "Enter the secret")
        yield Obstacle("secret_missing", "stops", message, "Ask an administrator to enter it there.", page)
    if needs.user and not of_users.user:
        message = "It has to know who its user is."
        yield Obstacle("user_needed", "asks", message, "Let the runtime say in each call who the user is.")
    for provider, scopes in needs.providers.items():
        grant = of_users.grants.get((endpoint.pk, provider))
        if grant and grant.covers(scopes):
            continue
        whom = "The user has" if of_users.user else "Each user has"
        message = f"{whom} to authorize it at “{printable(provider, 100)}” first."
        lacking = [scope for scope in scopes if grant and scope in grant.refused_scopes]
        if lacking:
            message = (
                f"The user did not grant {token_replies.named(lacking)} at “{printable(provider, 100)}”."
            )
        elif grant and grant.held_scopes:
            message = f"The user has to authorize more at “{printable(provider, 100)}” than before."
        elif grant:
            message = f"The user was asked to authorize it at “{printable(provider, 100)}”, and has not yet."
        to_do = "Call it: the answer says where the user does that."
        yield Obstacle("grant_missing", "asks", message, to_do)


def _of_review(row: ToolVersion, reviewed: dict[int, FindingState]) -> Iterator[Obstacle]:
    # A vendor without versions runs what it lists, whichever was released.
    ran = [row.pk, *([row.tool.stopped_id] if row.tool.stopped_id and not row.label else [])]
    states = {reviewed[pk] for pk in ran if pk in reviewed}
    if FindingState.BLOCKED in states:
        message = "An administrator blocked it in review."
        yield Obstacle("version_blocked", "stops", message, "Pin another version, and publish.")
    elif FindingState.OPEN in states:
        message = "It waits for review in Pegboard."
        page = Page("tool-findings", row.tool_id, "Decide on it")
        to_do = "Ask an administrator to decide under Review."
        yield Obstacle("waits_for_review", "stops", message, to_do, page)


def _of_the_way(
    row: ToolVersion, endpoint: Endpoint, states: dict[UUID, CredentialStatus]
) -> Iterator[Obstacle]:
    credential: Credential | None = endpoint.credential
    if credential and (state := states[credential.pk].state) in _ENDED:
        ended = "needs a sign-in" if state == State.NEEDS_SIGN_IN else "is refused by the vendor"
        message = f"The credential for its vendor {ended}."
        page = Page("credential", credential.pk, "Renew the credential")
        to_do = "Ask an administrator to renew the credential."
        yield Obstacle("credential_ended", "stops", message, to_do, page)
    waits = [circuit_breaker.unavailable_until(each) for each in (endpoint, row.tool)]
    if until := max((each for each in waits if each), default=None):
        message = (
            f"Its vendor did not answer, or asked us to wait: nothing is sent until {until:%H:%M:%S} UTC."
        )
        yield Obstacle("unavailable", "stops", message, "Wait until then; it is tried again by itself.")
