"""Read the facts for the checks of a draft, for a whole tree at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.models import Finding, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.models.tools import ToolStatus
from catalog.review import holds
from catalog.rules import diff as signature_diff
from core.compiled_queries import PreparedQuery, is_any_of
from core.page_addresses import address_of
from core.translatable import Wording, join_sentences
from core.translatable import mark as _
from designer import exports
from designer.agents import agent_budgets, agent_vendors
from designer.agents.agent_vendors import AllowedVendors
from designer.exports import document as release_document
from designer.exports.base import CarriedTools, Format
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Pin, Release
from designer.pins import pinned_signatures
from designer.procedures import checking, editing, vocabulary
from designer.readiness import obstacles
from designer.readiness.obstacles import Readiness
from designer.rehearsals.results import RehearsalComparison
from designer.releases import effective_versions, rehearsed
from designer.releases.checks import Check, CheckedAgent, CheckedTool, LimitOfTokens, checks
from designer.releases.composition import Node
from designer.signatures.words import NOTHING
from people.models import User
from protocols.signature import read_stored

# Each format with the part of one agent's draft that it carries.
CarriedByFormat = list[tuple[Format, CarriedTools]]
# Issues of procedures that the pin's own check reports once.
_CHECKED_AT_PIN = frozenset(("version_held", "version_blocked", "tool_withdrawn"))


def carried_by_agent(draft: ReleaseDocument) -> dict[str, CarriedByFormat]:
    """Return by the slug of each agent of the tree the tools that each format can represent."""
    documents = ((node.slug, draft.for_agent(node.slug)) for node in draft.nodes)
    return {slug: exports.carried_by_format(document) for slug, document in documents if document}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFacts:
    """A draft with the facts for its checks.

    tree: the agents that the draft is composed of. base: the release that it is compared with, and old: its
    document.
    carried: the tools that each format can represent, by slug of the agent. rehearsals: by the primary key of
    the agent.
    readiness: of each tool in the default environment.
    """

    tree: Sequence[Node]
    draft: ReleaseDocument
    base: Release | None
    old: ReleaseDocument | None
    carried: Mapping[str, CarriedByFormat]
    rehearsals: Mapping[int, RehearsalComparison]
    readiness: Sequence[Readiness]

    def readiness_at(self, slug: str) -> list[Readiness]:
        return [tool for tool in self.readiness if tool.agent == slug]


def read_facts(tree: Sequence[Node], draft: ReleaseDocument, base: Release | None) -> DraftFacts:
    agent, old = tree[0].agent, release_document.decode(base.document) if base else None
    return DraftFacts(
        tree=tree,
        draft=draft,
        base=base,
        old=old,
        carried=carried_by_agent(draft),
        rehearsals=rehearsed.compare_tree(tree, draft, base=base, old=old),
        readiness=obstacles.in_default_environment(agent, draft),
    )


def checks_of(draft_facts: DraftFacts, reader: User) -> list[Check]:
    """Return the checks of the draft. Other agents' tools are named as far as the reader may see them."""
    tree, draft, base, old = draft_facts.tree, draft_facts.draft, draft_facts.base, draft_facts.old
    breaking_moves = _find_breaking_moves(tree, old) if old else {}
    strands = effective_versions.broken_by(tree[0].agent, draft, {base.pk: old}) if base and old else {}
    pins = [pin for node in tree for pin in node.all_pins]
    blocked, reviewed = (
        pinned_signatures.blocked_by_review(pins),
        holds.under_review(pin.version for pin in pins),
    )
    rows = [node.agent for node in tree]
    allowed, limits = agent_vendors.allowed_by_agent(rows), agent_budgets.limits_of(rows)
    unsaved = editing.procedures_with_drafts([row for node in tree for row in node.rows.procedures], reader)
    facts = []
    for node in tree:
        agent = node.agent
        tools = tuple(
            _checked_tool(
                pin,
                agent,
                allowed[agent.pk],
                review=blocked.get(pin.pk, (None, "")),
                finding=reviewed.get(pin.version_id),
                breaks=breaking_moves.get(pin.pk, ()),
            )
            for pin in node.all_pins
        )
        row, where = limits.get(agent.pk), f"{address_of('agent', agent.slug)}#budget"
        facts.append(
            CheckedAgent(
                draft=draft.for_agent(agent.slug) or draft,
                tools=tools,
                carried=tuple(
                    (format_.label, carried_part) for format_, carried_part in draft_facts.carried[agent.slug]
                ),
                strands=strands.get(agent.pk, {}),
                budget=LimitOfTokens(row.tokens, row.stops, where) if row else None,
                more=(
                    *(_check_procedures(node, blocked, reader, unsaved) if node.rows.procedures else ()),
                    *_shared_names(node),
                    *readiness_checks(node.pins, tree[0].agent, draft_facts.readiness_at(agent.slug)),
                ),
                sub_agent=agent.name if node != tree[0] else "",
                limits_vendors=bool(allowed[agent.pk].limits),
                rehearsed=draft_facts.rehearsals.get(agent.pk),
            )
        )
    return checks(*facts)


def _checked_tool(
    pin: Pin,
    agent: Agent,
    usable: AllowedVendors,
    *,
    review: tuple[FindingState | None, str],
    finding: Finding | None,
    breaks: tuple[str, ...],
) -> CheckedTool:
    """Return the facts of one pin. review: the state that keeps its version out, and the reason."""
    state, reason = review
    limit = usable.excluding_limit(pin.tool.endpoint.vendor)
    endpoint, removal_reason = pin.tool.endpoint, ""
    if endpoint.removed_at or endpoint.vendor.removed_at:
        removal_reason = Wording(_("its vendor was removed from Pegboard."))
    elif pin.tool.status == ToolStatus.WITHDRAWN:
        removal_reason = Wording(_("{vendor} does not list it any more."), {"vendor": endpoint.vendor})
    return CheckedTool(
        name=pin.name,
        where=address_of("pin", agent.slug, pin.pk),
        blocked=reason if state == FindingState.BLOCKED else "",
        held=reason if state and state != FindingState.BLOCKED else "",
        under_review=finding.message if finding and finding.severity != Severity.LOW else "",
        review_where=f"{address_of('review')}?item={finding.pk}" if finding else "",
        gone=removal_reason,
        outside=usable.refusal(agent, pin.tool, is_pinned=True),
        outside_where=f"{address_of('agent-edit', limit.slug)}#vendors" if limit else "",
        is_tuned=pinned_signatures.words_of_pin(pin) != NOTHING,
        misfits=tuple((misfit.message, misfit.exposes) for misfit in pinned_signatures.misfits_of(pin)),
        breaks=breaks,
    )


def _shared_names(node: Node) -> Iterator[Check]:
    """Return the checks of prompts that have the name of a procedure, which is served as a prompt too."""
    slugs = {procedure.slug for procedure in node.released.procedures}
    for pin, item in node.context:
        if item.signature.kind == "prompt" and pin.name in slugs:
            template = _(
                "The prompt “{name}” and a procedure have the same name. MCP clients would get the "
                "procedure. Give the prompt another name."
            )
            where = address_of("pin", node.agent.slug, pin.pk)
            yield Check(
                code="prompt_name_taken",
                severity="error",
                message=Wording(template, {"name": pin.name}),
                where=where,
                about=pin.name,
                accepted_by="designer",
            )


def readiness_checks(pins: Iterable[Pin], root: Agent, ready: Sequence[Readiness]) -> Iterator[Check]:
    """Return checks for the errors and warnings in these tools' readiness that no check of the pin reports.
    The environments are those of `root`.
    """
    pin_by_name = {pin.name: pin for pin in pins}
    for tool in ready:
        pin = pin_by_name.get(tool.name)
        for state in tool.states:
            if state.severity not in ("error", "warning") or state.checked_by:
                continue
            stops = state.stops_publishing
            sentences = join_sentences(filter(None, (state.message, state.to_do)))
            where = address_of("agent-environments", root.slug) if stops else ""
            yield Check(
                code=state.code,
                severity="error" if stops else "warning",
                message=Wording(_("“{name}”: {message}"), {"name": tool.name, "message": sentences}),
                where=where or (address_of("pin", pin.agent.slug, pin.pk) if pin else ""),
                about=tool.name,
                accepted_by="designer" if stops else "",
            )
    if ready and all(tool.state.severity == "proven" for tool in ready):
        yield Check(
            code="readiness", severity="ok", message=Wording(_("Every tool answered a call recently."))
        )


def _check_procedures(
    node: Node,
    blocked_versions: Mapping[int, tuple[FindingState, str]],
    reader: User,
    unsaved_procedures: Collection[int],
) -> Iterator[Check]:
    names = vocabulary.build_vocabulary(
        ((pin, tool.signature) for pin, tool in node.tools),
        removed_pins=node.rows.removed,
        transfers=node.rows.transfers,
        removed_agents=node.rows.gone,
        kept_out=blocked_versions,
    )
    texts = {procedure.pk: procedure.text for procedure in node.rows.procedures}
    checked = checking.check_texts(node.agent, reader, texts, names, node.pins)
    is_clean = True
    for procedure in node.rows.procedures:
        where = address_of("procedure", node.agent.slug, procedure.slug)
        if procedure.pk in unsaved_procedures:
            template = _(
                "“{procedure}” has changes that are not saved, so the release does not contain them. Save or "
                "discard them."
            )
            message = Wording(template, {"procedure": procedure})
            yield Check(code="unsaved_text", severity="warning", message=message, where=where)
        for issue in checked.remarks[procedure.pk]:
            if issue.code in _CHECKED_AT_PIN:
                continue
            is_clean = False
            is_error = issue.severity == "error"
            yield Check(
                code=issue.code,
                severity=issue.severity,
                message=Wording(
                    _("“{procedure}”, line {line}: {issue}"),
                    {"procedure": procedure, "line": issue.line, "issue": issue.message},
                ),
                where=where,
                accepted_by="designer" if is_error else "",
            )
    where = address_of("procedure-list", node.agent.slug)
    for issue in checked.of_agent:
        yield Check(
            code=issue.code,
            severity=issue.severity,
            message=issue.message,
            where=where,
            about=issue.about,
        )
    if is_clean:
        message = Wording(_("The agent has every tool, input and output that its procedures name."))
        yield Check(code="procedures", severity="ok", message=message)


_SIGNATURES: PreparedQuery[tuple[int, int, str]] = PreparedQuery(
    lambda: ToolVersion.objects.filter(
        is_any_of("catalog_toolversion.tool_id", "tools"),
        is_any_of("catalog_toolversion.ordinal", "ordinals"),
    ).values_list("tool_id", "ordinal", "signature")
)


def _find_breaking_moves(tree: Sequence[Node], base: ReleaseDocument) -> dict[int, tuple[str, ...]]:
    """Return by pin the breaking changes from its version in `base`, if the versions differ."""
    version_by_tool = {item.id: item.version for item in base.all_items}
    version_by_agent_and_tool = {
        (node.slug, item.id): item.version for node in base.nodes for item in (*node.tools, *node.context)
    }
    moved = []
    for node in tree:
        for pin in node.all_pins:
            # A tool that moved from another agent of the tree is compared with that agent's version.
            old = version_by_agent_and_tool.get(
                (node.agent.slug, pin.tool_id), version_by_tool.get(pin.tool_id)
            )
            if old and old.digest != pin.version.digest:
                moved.append((pin, old.ordinal))
    tools, ordinals = [pin.tool_id for pin, _old in moved], list({ordinal for _pin, ordinal in moved})
    signatures = _SIGNATURES.rows(tools=tools, ordinals=ordinals) if moved else []
    texts = {(tool, ordinal): text for tool, ordinal, text in signatures}
    breaks_by_pin: dict[int, tuple[str, ...]] = {}
    for pin, ordinal in moved:
        if text := texts.get((pin.tool_id, ordinal)):
            changes = signature_diff.compare(read_stored(text), pin.version.decoded()).changes
            breaks_by_pin[pin.pk] = tuple(change.wording for change in changes if change.class_ == "breaking")
    return breaks_by_pin
