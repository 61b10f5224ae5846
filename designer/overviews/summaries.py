"""Summaries of a release or a draft: its tools, where they run, who approved them and the tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

import protocols
from catalog.models import Tool
from designer.environments import mocks
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTool
from designer.models import Agent, Environment, RehearsalRun, RehearsalStatus, Release
from designer.readiness import obstacles
from designer.readiness.judgement import State
from designer.readiness.obstacles import AgentTool
from designer.releases import binding_snapshots, provenance
from designer.releases.provenance import ToolProvenance
from designer.releases.recorded_bindings import BindingDifference
from execution.activities.mocks.assertions import Verdict

NO_ENVIRONMENT = gettext_lazy("no environment")


@dataclass(frozen=True, slots=True)
class SummarizedTool:
    """A tool of the document.

    runs: what runs, by environment; one row without a name if it is the same in all of them, and for a
        release, which has recorded its default environment.
    reaches_vendor: its vendor runs it in one of them.
    state: the worst one in the default environment.
    approval: of the release, None if this version was not released.
    """

    tool: ReleasedTool
    sub_agent: str
    vendor: str
    version: str
    runs: Sequence[tuple[str, str]]
    reaches_vendor: bool
    state: State
    approval: ToolProvenance | None


@dataclass(frozen=True, slots=True)
class Destination:
    """A host that calls of the tools are sent to. identity: whose credential is sent."""

    host: str
    protocol: str
    vendor: str
    identity: str
    tool_names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a draft or a release.

    places: the environments, of a release only the recorded one. differences: how today's differ from it.
    last_run: of a release, on it or before it was published. None if no test has finished.
    """

    document: ReleaseDocument
    tools: Sequence[SummarizedTool]
    places: Sequence[Environment]
    destinations: Sequence[Destination]
    rules: Sequence[Verdict]
    last_run: RehearsalRun | None
    differences: str = ""

    @property
    def sub_agents(self) -> Sequence[ReleasedSubAgent]:
        return self.document.agents

    @property
    def procedures(self) -> list[tuple[str, str, str]]:
        """Return the name of the agent, the title and the text of each procedure."""
        return [(node.name, one.title, one.text) for node in self.document.nodes for one in node.procedures]


def summarize_document(
    agent: Agent, document: ReleaseDocument, *, published_at: datetime, release: Release | None
) -> Summary:
    """Summarize a release, or the draft if `release` is None.

    For a release, the summary states the facts at the time of publishing. Rules, credentials and the states
    of its tools are those of today.
    """
    places = list(agent.environments.all())
    record = release.bindings if release else {}
    recorded_rows = {(row["agent"], row["tool_id"]): row for row in record.get("tools", ())}
    pairs = [(node, tool) for node in document.nodes for tool in node.tools]
    default = next((place for place in places if place.is_default), None)
    columns: list[Environment | None] = [*places] if default else [*places, None]
    tools = [AgentTool.of_released(node.slug, tool) for node, tool in pairs]
    readiness = obstacles.of_tools(agent, tools, places=columns)
    received = provenance.find_received_release(
        agent, received_at=published_at, number=release.number if release else None
    )
    approvals = {(row.sub_agent, row.tool, row.digest): row for row in (received.tools if received else ())}
    rows_by_tool = Tool.objects.select_related("endpoint__vendor").in_bulk({tool.id for _, tool in pairs})
    summarized = []
    for index, (node, tool) in enumerate(pairs):
        sub_agent = node.slug if node.parent else ""
        approval = approvals.get((sub_agent, tool.id, tool.version.digest))
        row = rows_by_tool.get(tool.id)
        by_place = {}
        for place in columns:
            today = readiness[place.pk if place else 0][index]
            by_place[place.name if place else str(NO_ENVIRONMENT)] = (today.runs, str(today.activity or ""))
        if recorded := recorded_rows.get((node.slug, tool.id)):
            by_place = {"": (recorded["runs"], recorded["activity_name"])}
        summarized.append(
            SummarizedTool(
                tool,
                sub_agent,
                row.endpoint.vendor.name if row else tool.vendor,
                approval.version_name if approval else tool.version.label,
                _describe_runs(by_place),
                any(runs == "vendor" for runs, _activity in by_place.values()),
                readiness[default.pk if default else 0][index].states[0],
                approval,
            )
        )
    differences = ""
    if record and release:
        moved = binding_snapshots.list_moved_bindings(agent.pk, release, document)
        differences = _describe_differences(record["environment"], default.name if default else "", moved)
        places = [Environment(name=record["environment"], is_default=True)] if record["environment"] else []
    return Summary(
        document,
        summarized,
        places,
        _group_destinations(summarized, rows_by_tool),
        mocks.check_assertions(agent, mocks.assertions_of(agent), mocks.CallFilter()),
        _last_run(agent, release),
        differences,
    )


def _last_run(agent: Agent, release: Release | None) -> RehearsalRun | None:
    """Return the last finished run of the test phrases that tells about the release, or about the draft.

    A release is published from the draft, so its publisher saw the last run of the draft before it.
    """
    is_relevant = Q(release=None)
    if release:
        is_relevant = Q(release=None, finished_at__lte=release.created_at) | Q(release=release.number)
    runs = RehearsalRun.objects.filter(is_relevant, agent=agent, status=RehearsalStatus.SUCCEEDED)
    return runs.select_related("asks").defer("payload", "results").order_by("-pk").first()


def _describe_differences(recorded_place: str, place: str, moved: Sequence[BindingDifference]) -> str:
    sentences = [moved[0].message] if moved else []
    if len(moved) > 1:
        sentences.append(
            ngettext(
                "{count} more tool is run differently now.",
                "{count} more tools are run differently now.",
                len(moved) - 1,
            ).format(count=len(moved) - 1)
        )
    if place != recorded_place:
        sentences.append(
            _("The default environment is “{name}” now.").format(name=place)
            if place
            else _("There is no default environment now.")
        )
    return " ".join(sentences)


def _describe_runs(by_place: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a sentence for each environment. by_place: the implementation, and the activity's name."""
    words = {"vendor": _("Vendor"), "latent": _("Simulated by the model"), "nothing": _("Nothing")}
    described = [
        (
            place,
            _("“{implementation}”").format(implementation=activity)
            if activity
            else words.get(runs, words["nothing"]),
        )
        for place, (runs, activity) in by_place.items()
    ]
    return described if len({text for _place, text in described}) > 1 else [("", described[0][1])]


def _group_destinations(tools: Iterable[SummarizedTool], rows: Mapping[int, Tool]) -> list[Destination]:
    names: dict[tuple[str, str, str, str], list[str]] = {}
    for summarized in tools:
        row = rows.get(summarized.tool.id)
        if row is None or not summarized.reaches_vendor:
            continue
        needs = summarized.tool.signature.requirements
        if needs.user or needs.secrets:
            identity = _("the end user")
        else:
            identity = _("this organisation") if row.endpoint.credential_id else _("none")
        key = (
            urlsplit(summarized.tool.endpoint).netloc,
            protocols.get(summarized.tool.protocol).label,
            summarized.vendor,
            identity,
        )
        names.setdefault(key, []).append(summarized.tool.signature.name)
    return [Destination(*key, tool_names) for key, tool_names in sorted(names.items())]
