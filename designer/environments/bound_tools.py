"""The resolution of a tool in an environment: an activity that is bound or has its name, or the vendor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import protocols
from catalog.models import Activity, ActivityVersion, ToolVersion
from catalog.models.tools import ItemKind
from core.compiled_queries import PreparedQuery, named_value
from core.errors import DomainError
from core.prepared_statements import run_prepared
from designer.agents import agents
from designer.environments.resolution import ACTIVITY_REPLACED, VENDOR, Facts, Resolution, resolve_facts
from designer.exports.document import ReleasedTool
from designer.models import Agent, Binding, CallEnvironment, Environment, NamedActivity, Pin
from designer.pins import pinned_signatures
from execution.activities import interfaces, kinds


@dataclass(frozen=True, slots=True)
class Subject:
    """A version of a tool that an activity may run for. `name` is the name in the tool's definition."""

    tool: int
    ordinal: int
    name: str
    is_own: bool

    @classmethod
    def of_released(cls, tool: ReleasedTool) -> "Subject":
        return cls(tool.id, tool.version.ordinal, tool.signature.wire_name, is_own(tool.protocol))

    @classmethod
    def of_version(cls, version: ToolVersion) -> "Subject":
        is_own_tool = is_own(version.tool.endpoint.protocol)
        return cls(version.tool_id, version.ordinal, version.decoded().name, is_own_tool)

    @classmethod
    def of_pin(cls, pin: Pin) -> "Subject":
        pin.version.tool = pin.tool
        return cls.of_version(pin.version)


def is_own(protocol: str) -> bool:
    # A transfer has no protocol.
    return bool(protocol) and protocols.get(protocol).is_own


def pins_of(agent: Agent) -> list[Pin]:
    """Return the tools that can be bound: those of the agent, then those of its sub-agents."""
    return [pin for pin in items_of(agent) if pin.tool.kind == ItemKind.TOOL]


def items_of(agent: Agent) -> list[Pin]:
    """Return the pins that can be bound, and those of prompts and resources."""
    tree = agents.with_all_below([agent])[agent.pk]
    agent_ids = [row.pk for row in tree]
    rows = pinned_signatures.read_items(tree)
    return sorted(rows, key=lambda pin: (agent_ids.index(pin.agent_id), pin.name))


@dataclass(frozen=True, slots=True)
class BoundTool:
    """The activity that runs for a tool in an environment.

    version: the version that runs, or that was bound if the activity is removed.
    """

    pin: Pin
    environment: Environment | None
    resolution: Resolution
    binding: Binding | None = None
    version: ActivityVersion | None = None

    @property
    def activity(self) -> Activity | None:
        return self.version.activity if self.version else None

    @property
    def newer_version(self) -> ActivityVersion | None:
        """Return the activity's newest version if another one runs."""
        activity = self.activity
        if activity is None or activity.removed_at or activity.current is None:
            return None
        return activity.current if activity.current != self.version else None

    @property
    def is_bound(self) -> bool:
        return self.binding is not None

    @property
    def is_replaced(self) -> bool:
        """Return whether nothing runs because another activity now has the name."""
        fault = self.resolution.fault
        return fault is not None and fault.code == ACTIVITY_REPLACED


def tools_bound_in(environment: Environment, pins: Sequence[Pin] | None = None) -> list[BoundTool]:
    """Return the activities of these tools, or of all tools of the agent."""
    pins = pins_of(environment.agent) if pins is None else pins
    return bindings_by_environment([environment], pins)[environment.pk]


def bindings_by_environment(
    environment_rows: Sequence[Environment], pins: Sequence[Pin]
) -> dict[int, list[BoundTool]]:
    """Return the activities of these tools by environment id. The number of statements does not grow with
    either.
    """
    subjects = [Subject.of_pin(pin) for pin in pins]
    resolutions = resolve_in_environments([place.pk for place in environment_rows], subjects)
    rows = Binding.objects.filter(environment__in=environment_rows, tool__in=[pin.tool_id for pin in pins])
    rows = rows.select_related("activity__current", "activity_version")
    bindings = {(row.environment_id, row.tool_id): row for row in rows}
    bound = {row.bound_version.pk for row in rows if row.bound_version}
    version_by_id = _read_versions(bound | {row.version for row in resolutions.values() if row.version})
    result: dict[int, list[BoundTool]] = {place.pk: [] for place in environment_rows}
    for place in environment_rows:
        for pin, subject in zip(pins, subjects, strict=True):
            resolution, binding = resolutions[place.pk, subject], bindings.get((place.pk, pin.tool_id))
            bound_version = binding.bound_version if binding else None
            version = version_by_id.get(resolution.version or (bound_version.pk if bound_version else 0))
            result[place.pk].append(BoundTool(pin, place, resolution, binding, version))
    return result


def unbound_in(agent: Agent, pins: Sequence[Pin]) -> list[BoundTool]:
    """Return the activities that run for these tools where they have no binding."""
    subjects = [Subject.of_pin(pin) for pin in pins]
    resolutions = resolve_all(None, subjects, agent=agent.pk)
    version_by_id = _read_versions({row.version for row in resolutions.values() if row.version})
    rows = (resolutions[subject] for subject in subjects)
    return [
        BoundTool(pin, None, resolution, None, version_by_id.get(resolution.version or 0))
        for pin, resolution in zip(pins, rows, strict=True)
    ]


def _read_versions(keys: Iterable[int]) -> dict[int, ActivityVersion]:
    version_ids = list(keys)
    rows = ActivityVersion.objects.select_related("activity__current__interface", "interface")
    return rows.in_bulk(version_ids) if version_ids else {}


def default_place(agent: int) -> CallEnvironment | None:
    """Return the default environment of the agent, None if it has none."""
    return next((CallEnvironment(*row) for row in _DEFAULT_PLACES.rows(agent=agent)), None)


_DEFAULT_PLACES: PreparedQuery[tuple[int, str, bool]] = PreparedQuery(
    lambda: Environment.objects.filter(agent=named_value("agent"), is_default=True).values_list(
        "pk", "name", "is_default"
    )
)


def resolve(place: CallEnvironment | None, subject: Subject, *, agent: int) -> Resolution:
    """Return the activity that runs for one tool there. Raises DomainError if none does."""
    resolution = resolve_all(place, [subject], agent=agent)[subject]
    if fault := resolution.fault:
        # Protocols encode plain texts only.
        raise DomainError(fault.code, str(fault.message), status=fault.status)
    return resolution


def version_of(resolution: Resolution) -> ActivityVersion | None:
    """Return the activity's version that runs; None if none does."""
    if resolution.version is None:
        return None
    return ActivityVersion.objects.select_related("activity").get(pk=resolution.version)


def record_named(agent: int, resolutions: Mapping[Subject, Resolution]) -> None:
    """Record the versions that run by name for this agent's tools, if none is recorded yet."""
    NamedActivity.objects.bulk_create(
        (
            NamedActivity(
                agent_id=agent,
                tool_id=subject.tool,
                name=resolution.unrecorded_name,
                activity_version_id=resolution.version or 0,
            )
            for subject, resolution in resolutions.items()
            if resolution.unrecorded_name
        ),
        ignore_conflicts=True,
    )


def resolve_all(
    place: CallEnvironment | None, subjects: Iterable[Subject], *, agent: int = 0
) -> dict[Subject, Resolution]:
    """Resolve the activities of these tools, in one statement, or in none if nothing was decided for any.

    agent: the id of the published agent; 0 if a tool is tried without an agent.
    """
    unique_subjects = list(dict.fromkeys(subjects))
    # A removed environment has no bindings and must not be treated like one without bindings.
    relevant = [subject for subject in unique_subjects if place or subject.is_own]
    facts = _read_facts([place.pk] if place else [0], relevant, agent) if relevant else {}
    pk = place.pk if place else 0
    return {
        subject: resolve_facts(facts[pk, subject]) if (pk, subject) in facts else VENDOR
        for subject in unique_subjects
    }


def resolve_in_environments(
    places: Sequence[int], subjects: Sequence[Subject], *, agent: int = 0
) -> Mapping[tuple[int, Subject], Resolution]:
    """Resolve the activities in several environments by their ids; 0 means no environment."""
    return {key: resolve_facts(facts) for key, facts in _read_facts(places, subjects, agent).items()}


def _read_facts(
    places: Sequence[int], subjects: Sequence[Subject], agent: int
) -> dict[tuple[int, Subject], Facts]:
    rows = run_prepared(
        _READ_FACTS,
        [
            [subject.tool for subject in subjects],
            [subject.ordinal for subject in subjects],
            [subject.name for subject in subjects],
            [subject.is_own for subject in subjects],
            list(places),
            agent,
        ],
    )
    # A release may refer to a version that no longer exists.
    unfit = _find_unfit(
        {(version, tool) for *_, version, tool, is_asked in rows if is_asked and version and tool}
    )
    return {
        (place, subjects[index - 1]): Facts(
            is_there=is_there,
            is_own=subjects[index - 1].is_own,
            is_bound=is_bound,
            activity=activity,
            is_removed=is_removed,
            explicit=explicit,
            named=same_name,
            version=version,
            name=name,
            is_recorded=is_recorded,
            is_replaced=is_replaced,
            unfit=unfit.get((version, tool), ""),
        )
        for index, place, is_there, is_bound, activity, is_removed, explicit, same_name, *recorded in rows
        for name, is_recorded, is_replaced, version, tool, _ in [recorded]
    }


# Pairs of an activity's version and a tool's version that fit, by their ids. Neither version ever changes.
_fits: set[tuple[int, int]] = set()
MAX_CACHED = 10_000


def _find_unfit(pairs: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return why each activity's version cannot run for the tool's version. Results are cached by pair."""
    uncached = pairs - _fits
    if not uncached:
        return {}
    activity_versions = ActivityVersion.objects.select_related("interface").in_bulk(
        {version for version, _ in uncached}
    )
    tools = ToolVersion.objects.in_bulk({tool for _, tool in uncached})
    reasons = {}
    for pair in uncached:
        version, tool = activity_versions[pair[0]], tools[pair[1]].decoded()
        if version.interface:
            reason = interfaces.why_unfit(version.interface.decoded(), tool)
        else:
            faults = kinds.get(version.kind).faults(version.config, tool)
            reason = next((fault.message for fault in faults), "")
        if reason:
            reasons[pair] = reason
    if len(_fits) > MAX_CACHED:
        _fits.clear()
    _fits.update(uncached - reasons.keys())
    return reasons


_READ_FACTS = """
    SELECT asked.index, place.id, place.id = 0 OR environment.id IS NOT NULL,
        binding.id IS NOT NULL, bound.id, bound.removed_at IS NOT NULL,
        definition.explicit, named.id,
        coalesce(nullif(definition.explicit, ''), asked.name), recorded.id IS NOT NULL,
        recorded.id IS NOT NULL AND kept.id IS NULL,
        runs.id, version.id,
        -- What was made for this very version fits, and the mock of a tool in one agent follows the tool.
        runs.interface_id IS DISTINCT FROM version.id AND (binding.id IS NULL OR bound.agent IS NULL)
    FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::boolean[])
        WITH ORDINALITY AS asked (tool, ordinal, name, is_own, index)
    CROSS JOIN unnest(%s::bigint[]) AS place (id)
    LEFT JOIN catalog_toolversion version ON version.tool_id = asked.tool AND version.ordinal = asked.ordinal
    LEFT JOIN designer_environment environment ON environment.id = place.id
    LEFT JOIN designer_binding binding ON binding.environment_id = place.id AND binding.tool_id = asked.tool
    LEFT JOIN catalog_activity bound ON bound.id = binding.activity_id
    LEFT JOIN catalog_activityversion pinned ON pinned.id = binding.activity_version_id
        AND pinned.activity_id = bound.id
    LEFT JOIN LATERAL (
        SELECT CASE WHEN asked.is_own THEN version.raw::jsonb #>> '{properties,_activity,const}' END
            AS explicit
    ) definition ON true
    LEFT JOIN catalog_activity named ON asked.is_own AND named.agent IS NULL AND named.removed_at IS NULL
        AND named.name = coalesce(nullif(definition.explicit, ''), asked.name)
    LEFT JOIN designer_namedactivity recorded ON binding.id IS NULL AND named.id IS NOT NULL
        AND recorded.agent_id = coalesce(environment.agent_id, %s) AND recorded.tool_id = asked.tool
        AND recorded.name = coalesce(nullif(definition.explicit, ''), asked.name)
    LEFT JOIN catalog_activityversion kept ON kept.id = recorded.activity_version_id
        AND kept.activity_id = named.id
    LEFT JOIN catalog_activityversion runs ON runs.id = CASE
        WHEN binding.id IS NULL THEN coalesce(kept.id, named.current_id)
        ELSE coalesce(pinned.id, bound.current_id) END
"""
