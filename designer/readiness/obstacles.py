"""Collects the facts about the tools of an agent in its environments, without a request to any vendor.

What Pegboard knows before a call is sent; the call may fail all the same. `judgement.py` draws the
conclusion.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.credentials import circuit_breaker, status
from catalog.credentials.oauth import token_replies
from catalog.credentials.oauth.grant_status import CredentialStatus, SignInState
from catalog.models import ActivityVersion, Credential, Endpoint, ToolVersion, UserGrant
from catalog.models.findings import FindingState
from catalog.models.tools import ToolStatus
from catalog.review import holds
from core.compiled_queries import PreparedQuery, is_any_of
from core.outbound.errors import printable
from designer.agents import agent_vendors
from designer.agents.agent_vendors import AllowedVendors
from designer.environments import bound_tools
from designer.environments.bound_tools import Subject
from designer.environments.resolution import Resolution, Runs
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Agent, CallEnvironment, Environment, Pin
from designer.readiness import evidence
from designer.readiness.judgement import BreakingUpdate, LastCall, Obstacle, RepairPage, ToolFacts, judge_tool
from designer.readiness.judgement import State as ToolState
from execution.activities import kinds, reach
from execution.activities.reach import ActivityReach
from execution.calls import checks
from execution.user_grants import context, end_users, vault
from protocols.base import Protocol
from protocols.signature import Annotations

_ENDED = {SignInState.REFUSED, SignInState.NEEDS_SIGN_IN}


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool of an agent.

    agent: slug of the agent of the tree that has it.
    digest: of the version of the tool.
    effects: those that a model sees.
    update: the newer version of the tool, if it breaks lines of procedures.
    """

    agent: str
    name: str
    subject: Subject
    digest: str
    effects: Annotations
    update: BreakingUpdate | None = None

    @classmethod
    def of_released(cls, agent: str, tool: ReleasedTool) -> "AgentTool":
        signature = tool.signature
        return cls(
            agent, signature.name, Subject.of_released(tool), tool.version.digest, signature.annotations
        )

    @classmethod
    def of_pin(cls, pin: Pin, update: BreakingUpdate | None = None) -> "AgentTool":
        effects = pin.version.decoded().annotations
        return cls(pin.agent.slug, pin.name, Subject.of_pin(pin), pin.version.digest, effects, update)


@dataclass(frozen=True, slots=True)
class Readiness:
    """One tool in one environment.

    activity: the name of the activity that runs in place of a vendor, else empty.
    states: the states of the tool, the most serious first.
    """

    agent: str
    name: str
    obstacles: tuple[Obstacle, ...]
    runs: Runs
    activity: str
    states: tuple[ToolState, ...]

    @property
    def can_run(self) -> bool:
        return not any(obstacle.severity == "stops" for obstacle in self.obstacles)

    @property
    def state(self) -> ToolState:
        return self.states[0]


@dataclass(frozen=True)
class _UserAccess:
    """The access of a release's users to the credentials that its tools require. secrets: names in the vault
    by endpoint.
    grants: the requests to the user, by endpoint and provider.
    """

    user: str
    secrets: dict[int, list[str]]
    grants: dict[tuple[int, str], UserGrant]

    @classmethod
    def read(cls, agent: Agent, user: str, endpoints: Iterable[Endpoint]) -> "_UserAccess":
        with_context = [endpoint for endpoint in endpoints if endpoint.build_protocol().takes_context]
        grants: dict[tuple[int, str], UserGrant] = {}
        if user and with_context:
            rows = UserGrant.objects.filter(
                end_user__agent=agent.pk,
                end_user__digest=end_users.digest_of(agent.pk, user),
                endpoint__in=with_context,
            )
            grants = {(row.endpoint_id, row.provider): row for row in rows}
        return cls(user, vault.names_by_endpoint(with_context), grants)


def of_document(
    agent: Agent, document: ReleaseDocument, *, user: str = "", place: CallEnvironment | None = None
) -> list[Readiness]:
    """Return the readiness of all tools of a release or draft of the agent. Transfers always run.

    user: the agent's name for a user, for whom the tools would run.
    place: the environment in which they would; None outside of all.
    """
    tools = [AgentTool.of_released(node.slug, tool) for node in document.nodes for tool in node.tools]
    return of_tools(agent, tools, user=user, places=[place])[place.pk if place else 0]


def in_default_environment(agent: Agent, document: ReleaseDocument) -> list[Readiness]:
    """Return the readiness of a release or draft in the agent's default environment, else outside of all."""
    return of_document(agent, document, place=bound_tools.default_place(agent.pk))


def of_tools(
    agent: Agent,
    tools: Sequence[AgentTool],
    *,
    user: str = "",
    places: Sequence[CallEnvironment | Environment | None],
) -> dict[int, list[Readiness]]:
    """Return, by the primary key of the environment (0 outside of all), the readiness of each tool.

    `agent` is the one at the top of the tree. The number of queries grows neither with the tools nor with the
    environments.
    """
    keys = [place.pk if place else 0 for place in places]
    if not tools:
        return {key: [] for key in keys}
    resolutions = bound_tools.resolve_in_environments(
        keys, list(dict.fromkeys(tool.subject for tool in tools)), agent=agent.pk
    )
    catalog, now = _Catalog.read(agent, tools, resolutions, user), timezone.now()
    return {key: [catalog.judge(tool, resolutions[key, tool.subject], now) for tool in tools] for key in keys}


@dataclass(frozen=True, kw_only=True)
class _Catalog:
    """The stored facts about these tools and their implementations.

    root: slug of the agent at the top of the tree. versions: by tool and ordinal. protocols: by endpoint.
    """

    root: str
    versions: dict[tuple[int, int], ToolVersion]
    activities: Mapping[int, ActivityVersion]
    activity_reach: "_ActivityReach"
    protocols: Mapping[int, Protocol]
    reviewed: dict[int, FindingState]
    credentials: dict[UUID, CredentialStatus]
    user_access: "_UserAccess"
    calls: Mapping[evidence.Ran, LastCall]

    @classmethod
    def read(
        cls,
        agent: Agent,
        tools: Sequence[AgentTool],
        resolutions: Mapping[tuple[int, Subject], Resolution],
        user: str,
    ) -> "_Catalog":
        keys = {(tool.subject.tool, tool.subject.ordinal) for tool in tools}
        version_rows = _VERSIONS.rows(
            tools=list({pk for pk, _ in keys}), ordinals=list({ordinal for _, ordinal in keys})
        )
        versions = {key: row for row in version_rows if (key := (row.tool_id, row.ordinal)) in keys}
        keys_of_activities = {resolution.version for resolution in resolutions.values() if resolution.version}
        rows = ActivityVersion.objects.select_related("activity")
        activities = rows.in_bulk(keys_of_activities) if keys_of_activities else {}
        activity_reach = _ActivityReach.read(
            activities.values(), agent, {tool.agent for tool in tools} - {agent.slug}
        )
        unlisted = [row.tool.stopped for row in versions.values() if not row.label and row.tool.stopped]
        endpoints = {row.tool.endpoint for row in versions.values()}
        now = timezone.now()
        ran = {
            (subject.tool, version.pk, resolution.version or 0)
            for (_, subject), resolution in resolutions.items()
            if (version := versions.get((subject.tool, subject.ordinal)))
        }
        return cls(
            root=agent.slug,
            versions=versions,
            activities=activities,
            activity_reach=activity_reach,
            protocols={endpoint.pk: endpoint.build_protocol() for endpoint in endpoints},
            reviewed=holds.review_states([*versions.values(), *unlisted]),
            credentials={
                row.pk: status.status_of(row, now)
                for row in {endpoint.credential for endpoint in endpoints}
                if row
            },
            user_access=_UserAccess.read(agent, user, endpoints),
            calls=evidence.last_calls(ran, [agent.pk, *(row.pk for row in activity_reach.agents.values())]),
        )

    def judge(self, tool: AgentTool, resolution: Resolution, now: datetime) -> Readiness:
        facts = self.facts_of(tool, resolution)
        activity = facts.runner if resolution.activity else ""
        return Readiness(
            tool.agent, tool.name, facts.obstacles, resolution.runs, activity, judge_tool(facts, now)
        )

    def facts_of(self, tool: AgentTool, resolution: Resolution) -> ToolFacts:
        row = self.versions.get((tool.subject.tool, tool.subject.ordinal))
        activity = self.activities.get(resolution.version or 0)
        if row is None or row.digest != tool.digest:
            return ToolFacts(resolution=resolution, obstacles=(_DAMAGED,))
        if resolution.runs == "vendor":
            obstacles = self.vendor_obstacles(tool, row)
        else:
            slugs = {self.root, tool.agent}
            obstacles = self.activity_obstacles(tool, row, resolution, activity, slugs)
        return ToolFacts(
            resolution=resolution,
            obstacles=tuple(obstacles),
            runner=activity.activity.name if activity else row.tool.endpoint.vendor.name,
            invents=bool(activity and not kinds.get(activity.kind).acts),
            last_call=self.calls.get((row.tool_id, row.pk, activity.pk if activity else 0)),
            update=tool.update,
        )

    def activity_obstacles(
        self,
        tool: AgentTool,
        row: ToolVersion,
        resolution: Resolution,
        activity: ActivityVersion | None,
        slugs: Iterable[str],
    ) -> Iterator[Obstacle]:
        """Yield the obstacles of a tool that an activity implements, or the model itself.

        slugs: the agents whose lists of allowed vendors apply.
        """
        if resolution.fault:
            to_do = _("Choose an implementation in the environment.")
            yield Obstacle(
                resolution.fault.code, "stops", resolution.fault.message, to_do, stops_publishing=True
            )
        elif resolution.runs == "latent":
            message = _("Nothing runs this tool here, so the model writes its output.")
            yield Obstacle("latent", "asks", message, _("Send the output with the call, or after it."))
        elif activity and kinds.get(activity.kind).acts:
            if reason := self.activity_reach.refusal(slugs, activity):
                to_do = _("Choose another implementation, or allow the vendor for the agent.")
                yield Obstacle(agent_vendors.CODE, "stops", reason, to_do, stops_publishing=True)
            reached = self.activity_reach.reached[activity.pk]
            destroys = checks.why_confirm_reached(reached, tool.effects, self.activity_reach.whys)
            yield from _effect_obstacles(tool, row, is_destructive=bool(destroys))

    def vendor_obstacles(self, tool: AgentTool, row: ToolVersion) -> Iterator[Obstacle]:
        endpoint = row.tool.endpoint
        if endpoint.removed_at or endpoint.vendor.removed_at:
            message = _("Its vendor was removed from Pegboard.")
            to_do = _("Pin another tool, and publish.")
            yield Obstacle("endpoint_removed", "stops", message, to_do, checked_by="tool_withdrawn")
            return
        yield from self.review_obstacles(row)
        if note := self.protocols[endpoint.pk].why_not_run(row.decoded()):
            yield Obstacle(note.code, "stops", note.message, _("Pin another tool, and publish."))
        if row.tool.status == ToolStatus.WITHDRAWN:
            message = _("Its vendor does not list it any more, so calls may fail.")
            to_do = _("Ask the vendor, or pin another tool.")
            yield Obstacle("tool_withdrawn", "warns", message, to_do, checked_by="tool_withdrawn")
        yield from self.connection_obstacles(row, endpoint)
        yield from _effect_obstacles(tool, row)
        yield from self.need_obstacles(row, endpoint)

    def need_obstacles(self, row: ToolVersion, endpoint: Endpoint) -> Iterator[Obstacle]:
        needs = self.protocols[endpoint.pk].needs(row.decoded())
        for name in context.missing_secrets(needs, self.user_access.secrets.get(endpoint.pk, ())):
            message = _("It needs the secret “{secret}”, which is not in the vault of its vendor.").format(
                secret=printable(name, 100)
            )
            page = RepairPage("endpoint-secrets", endpoint.pk, _("Enter the secret"))
            yield Obstacle(
                "secret_missing", "stops", message, _("Ask an administrator to enter it there."), page
            )
        if needs.user and not self.user_access.user:
            message = _("It needs to know its user.")
            yield Obstacle("user_needed", "asks", message, _("Let the runtime name the user in each call."))
        for provider, scopes in needs.providers.items():
            grant = self.user_access.grants.get((endpoint.pk, provider))
            if grant and grant.covers(scopes):
                continue
            message = (
                _("The user has to authorize it at “{provider}” first.")
                if self.user_access.user
                else _("Each user has to authorize it at “{provider}” first.")
            ).format(provider=printable(provider, 100))
            lacking = [scope for scope in scopes if grant and scope in grant.refused_scopes]
            if lacking:
                message = _("The user did not grant {scopes} at “{provider}”.").format(
                    scopes=token_replies.scope_names(lacking), provider=printable(provider, 100)
                )
            elif grant and grant.held_scopes:
                message = _("The user has to authorize more at “{provider}” than before.").format(
                    provider=printable(provider, 100)
                )
            elif grant:
                message = _("The user was asked to authorize it at “{provider}”, and has not yet.").format(
                    provider=printable(provider, 100)
                )
            to_do = _("Call the tool: the reply has the address where the user authorizes it.")
            yield Obstacle("grant_missing", "asks", message, to_do)

    def review_obstacles(self, row: ToolVersion) -> Iterator[Obstacle]:
        # A vendor without versions runs what it lists, whichever was released.
        ran = [row.pk, *([row.tool.stopped_id] if row.tool.stopped_id and not row.label else [])]
        states = {self.reviewed[pk] for pk in ran if pk in self.reviewed}
        # The check of the pin reads the pinned version alone.
        pinned_state = self.reviewed.get(row.pk)
        if FindingState.BLOCKED in states:
            message = _("An administrator blocked it in review.")
            to_do = _("Pin another version, and publish.")
            checked_by = "version_blocked" if pinned_state == FindingState.BLOCKED else ""
            yield Obstacle("version_blocked", "stops", message, to_do, checked_by=checked_by)
        elif FindingState.OPEN in states:
            message = _("It waits for review in Pegboard.")
            page = RepairPage("tool-findings", row.tool_id, _("Decide on it"))
            to_do = _("Ask an administrator to decide under Review.")
            yield Obstacle(
                "waits_for_review",
                "stops",
                message,
                to_do,
                page,
                checked_by="version_held" if pinned_state else "",
            )

    def connection_obstacles(self, row: ToolVersion, endpoint: Endpoint) -> Iterator[Obstacle]:
        credential: Credential | None = endpoint.credential
        if credential and (state := self.credentials[credential.pk].state) in _ENDED:
            message = (
                _("The credential for its vendor needs a sign-in.")
                if state == SignInState.NEEDS_SIGN_IN
                else _("The vendor refuses the credential.")
            )
            page = RepairPage("credential", credential.pk, _("Renew the credential"))
            to_do = _("Ask an administrator to renew the credential.")
            yield Obstacle("credential_ended", "stops", message, to_do, page)
        waits = [circuit_breaker.unavailable_until(part) for part in (endpoint, row.tool)]
        if until := max((end for end in waits if end), default=None):
            message = _(
                "Its vendor did not answer, or asked us to wait: nothing is sent until {time} UTC."
            ).format(time=f"{until:%H:%M:%S}")
            yield Obstacle(
                "unavailable", "stops", message, _("Wait until then; it is tried again by itself.")
            )


# Without the default order, for which the planner reads the whole table.
_VERSIONS: PreparedQuery[ToolVersion] = PreparedQuery(
    lambda: (
        ToolVersion.objects.order_by()
        .filter(
            is_any_of("catalog_toolversion.tool_id", "tools"),
            is_any_of("catalog_toolversion.ordinal", "ordinals"),
        )
        .defer("raw")
        .select_related(
            "tool__endpoint__vendor",
            "tool__endpoint__credential__grant",
            "tool__endpoint__circuit",
            "tool__circuit",
            "tool__stopped",
        )
    )
)


_DAMAGED = Obstacle(
    "release_damaged",
    "stops",
    "The catalog's version of this tool differs from the released one.",
    "Restore the database, or publish another release.",
)


@dataclass(frozen=True)
class _ActivityReach:
    """The tools that activities call, and the reasons why some of these calls are confirmed."""

    reached: dict[int, ActivityReach]
    whys: dict[int, str]
    agents: dict[str, Agent]
    allowed: dict[int, AllowedVendors]

    @classmethod
    def read(
        cls, versions: Collection[ActivityVersion], root: Agent, slugs: Collection[str]
    ) -> "_ActivityReach":
        # Mocks reach nothing.
        versions = [version for version in versions if kinds.get(version.kind).acts]
        reached = reach.find_reach(versions)
        tools = {tool for row in reached.values() for tool in row.tools}
        sub_agents = Agent.objects.live().filter(slug__in=slugs) if slugs else ()
        agents = {row.slug: row for row in (root, *sub_agents)}
        allowed = agent_vendors.allowed_by_agent(agents.values()) if versions else {}
        return cls(reached, checks.whys_by_version(tools), agents, allowed)

    def refusal(self, slugs: Iterable[str], activity: ActivityVersion) -> str:
        """Return the reason why one of these agents may not run it, or an empty text."""
        agents = [self.agents[slug] for slug in slugs if slug in self.agents]
        reached = self.reached[activity.pk]
        refusals = (self.allowed[agent.pk].refusal_of(agent, reached) for agent in agents)
        return next(filter(None, refusals), "")


def _effect_obstacles(
    tool: AgentTool, row: ToolVersion, *, is_destructive: bool = False
) -> Iterator[Obstacle]:
    if is_destructive or tool.effects.destructive or row.decoded().annotations.destructive:
        message = _("It may destroy something, so each call has to be confirmed.")
        yield Obstacle(
            "confirm_needed", "asks", message, _("Let the runtime confirm it once a person has agreed.")
        )
