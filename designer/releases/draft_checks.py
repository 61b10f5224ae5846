"""The facts that a draft is judged by before it is published, read for a whole tree at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from catalog.models import Tool, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.models.tools import ToolStatus
from catalog.review import holds
from catalog.rules import diff as signature_diff
from designer import agent_budgets, agent_vendors, exports, pinned_signatures
from designer.exports import document as release_document
from designer.exports.base import Carried, Format
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Pin, Release
from designer.procedures import checking, editing, vocabulary
from designer.readiness import obstacles
from designer.readiness.obstacles import Readiness
from designer.rehearsals.results import Comparison
from designer.releases import channels, effective_versions, rehearsed
from designer.releases.checks import Budget, Check, Facts, ToolFacts, checks
from designer.releases.composition import Node
from people.models import User

# By format what it makes of one agent of a tree.
CarriedByFormat = list[tuple[Format, Carried]]
# Remarks on procedures that the check of the pin itself makes, once and not at each mention.
_TOLD_OF_PINS = frozenset(("version_held", "version_blocked", "tool_withdrawn"))


def carried(draft: ReleaseDocument) -> dict[str, CarriedByFormat]:
    """By the slug of each agent of the tree."""
    found = ((node.slug, draft.at(node.slug)) for node in draft.nodes)
    return {slug: exports.carried_by_format(alone) for slug, alone in found if alone}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFacts:
    """A draft with the facts that its checks are made from.

    tree: the agents that the draft is composed of. base: the release that it is compared with.
    carried: what each format carries, by slug. rehearsals: by the primary key of the agent.
    readiness: of each tool in the default environment.
    """

    tree: Sequence[Node]
    draft: ReleaseDocument
    base: Release | None
    carried: Mapping[str, CarriedByFormat]
    rehearsals: Mapping[int, Comparison]
    readiness: Sequence[Readiness]

    def readiness_at(self, slug: str) -> list[Readiness]:
        return [tool for tool in self.readiness if tool.agent == slug]


def read_facts(tree: Sequence[Node], draft: ReleaseDocument) -> DraftFacts:
    agent = tree[0].agent
    base = channels.baseline(agent)
    return DraftFacts(
        tree=tree,
        draft=draft,
        base=base,
        carried=carried(draft),
        rehearsals=rehearsed.of_tree(tree, draft, base=base),
        readiness=obstacles.in_default_environment(agent, draft),
    )


def checks_of(draft_facts: DraftFacts, reader: User) -> list[Check]:
    """Return the checks of the draft. Other agents' tools are named as far as the reader may see them."""
    tree, draft, base = draft_facts.tree, draft_facts.draft, draft_facts.base
    broken = _broken(tree, release_document.decode(base.document)) if base else {}
    strands = effective_versions.broken_by(tree[0].agent, draft) if base else {}
    pins = [pin for node in tree for pin in node.all_pins]
    kept, reviewed = pinned_signatures.kept_out(pins), holds.under_review(pin.version for pin in pins)
    rows = [node.agent for node in tree]
    allowed, limits = agent_vendors.of_several(rows), agent_budgets.limits_of(rows)
    typed = editing.unsaved([each for node in tree for each in node.rows.procedures], reader)
    found = []
    for node in tree:
        agent, usable, tools = node.agent, allowed[node.agent.pk], []
        for pin in node.all_pins:
            state, says = kept.get(pin.pk, (None, ""))
            finding = reviewed.get(pin.version_id)
            limit = usable.against(pin.tool.endpoint.vendor)
            tools.append(
                ToolFacts(
                    name=pin.name,
                    where=reverse("pin", args=[agent.slug, pin.pk]),
                    blocked=says if state == FindingState.BLOCKED else "",
                    held=says if state and state != FindingState.BLOCKED else "",
                    under_review=finding.message if finding and finding.severity != Severity.LOW else "",
                    review_where=f"{reverse('review')}?item={finding.pk}" if finding else "",
                    gone=_says_gone(pin.tool),
                    outside=usable.refusal(agent, pin.tool, is_pinned=True),
                    outside_where=f"{reverse('agent-edit', args=[limit.slug])}#vendors" if limit else "",
                    misfits=tuple(
                        (misfit.message, misfit.exposes) for misfit in pinned_signatures.misfits_of(pin)
                    ),
                    breaks=broken.get(pin.pk, ()),
                )
            )
        row, where = limits.get(agent.pk), f"{reverse('agent', args=[agent.slug])}#budget"
        found.append(
            Facts(
                draft=draft.at(agent.slug) or draft,
                tools=tuple(tools),
                carried=tuple((format_.label, judged) for format_, judged in draft_facts.carried[agent.slug]),
                strands=strands.get(agent.pk, {}),
                budget=Budget(row.tokens, row.stops, where) if row else None,
                more=(
                    *(_remarks_on_procedures(node, kept, reader, typed) if node.rows.procedures else ()),
                    *_shared_names(node),
                    *readiness_checks(node.pins, tree[0].agent, draft_facts.readiness_at(agent.slug)),
                ),
                sub_agent=agent.name if node != tree[0] else "",
                rehearsed=draft_facts.rehearsals.get(agent.pk),
            )
        )
    return checks(*found)


def _shared_names(node: Node) -> Iterator[Check]:
    """Return the checks of prompts that have the name of a procedure, which is served as a prompt too."""
    slugs = {procedure.slug for procedure in node.released.procedures}
    for pin, item in node.context:
        if item.signature.kind == "prompt" and pin.name in slugs:
            message = (
                f"The prompt “{pin.name}” and a procedure have the same name. MCP clients would get the "
                "procedure. Give the prompt another name."
            )
            where = reverse("pin", args=[node.agent.slug, pin.pk])
            yield Check(
                code="prompt_name_taken",
                severity="error",
                message=message,
                where=where,
                about=pin.name,
                accepted_by="designer",
            )


def readiness_checks(pins: Iterable[Pin], root: Agent, ready: Sequence[Readiness]) -> Iterator[Check]:
    """Return the checks that the readiness of these tools makes: of its errors and warnings, those that no
    check of the pin reports. The environments are those of `root`."""
    pin_by_name = {pin.name: pin for pin in pins}
    for tool in ready:
        pin = pin_by_name.get(tool.name)
        for state in tool.states:
            if state.severity not in ("error", "warning") or state.checked_by:
                continue
            stops = state.stops_publishing
            where = reverse("agent-environments", args=[root.slug]) if stops else ""
            yield Check(
                code=state.code,
                severity="error" if stops else "warning",
                message=f"“{tool.name}”: {state.message} {state.to_do}".rstrip(),
                where=where or (reverse("pin", args=[pin.agent.slug, pin.pk]) if pin else ""),
                about=tool.name,
                accepted_by="designer" if stops else "",
            )
    if ready and all(tool.state.severity == "proven" for tool in ready):
        yield Check(code="readiness", severity="ok", message="Every tool has answered a call lately.")


def _remarks_on_procedures(
    node: Node, kept_out: Mapping[int, tuple[FindingState, str]], reader: User, typed: Collection[int]
) -> Iterator[Check]:
    known = vocabulary.of_rows(
        ((pin, tool.signature) for pin, tool in node.tools),
        removed=node.rows.removed,
        handed=node.rows.transfers,
        gone=node.rows.gone,
        kept_out=kept_out,
    )
    texts = {procedure.pk: procedure.text for procedure in node.rows.procedures}
    checked = checking.check_texts(node.agent, reader, texts, known)
    is_clean = True
    for procedure in node.rows.procedures:
        where = reverse("procedure", args=[node.agent.slug, procedure.slug])
        if procedure.pk in typed:
            message = (
                f"“{procedure}”: what you have typed there is not saved, so the release does not hold it. "
                "Save or discard it."
            )
            yield Check(code="unsaved_text", severity="warning", message=message, where=where)
        for remark in checked.remarks[procedure.pk]:
            if remark.code in _TOLD_OF_PINS:
                continue
            is_clean = False
            is_error = remark.severity == "error"
            yield Check(
                code=remark.code,
                severity=remark.severity,
                message=f"“{procedure}”, line {remark.line}: {remark.message}",
                where=where,
                accepted_by="designer" if is_error else "",
            )
    where = reverse("procedure-list", args=[node.agent.slug])
    for remark in checked.of_agent:
        yield Check(
            code=remark.code,
            severity=remark.severity,
            message=remark.message,
            where=where,
            about=remark.about,
        )
    if is_clean:
        yield Check(code="procedures", severity="ok", message="The procedures name tools that are there.")


def _says_gone(tool: Tool) -> str:
    if tool.endpoint.removed_at or tool.endpoint.vendor.removed_at:
        return "its vendor was removed from Pegboard."
    return f"{tool.endpoint.vendor} does not list it any more." if tool.status == ToolStatus.WITHDRAWN else ""


def _broken(tree: Sequence[Node], base: ReleaseDocument) -> dict[int, tuple[str, ...]]:
    """By pin, what its version takes away from the one in `base`, where it is another one."""
    anywhere = {item.id: item.version for item in base.all_items}
    here = {
        (node.slug, item.id): item.version for node in base.nodes for item in (*node.tools, *node.context)
    }
    moved = []
    for node in tree:
        for pin in node.all_pins:
            # A tool that came from another agent of the tree is compared with what that one had.
            old = here.get((node.agent.slug, pin.tool_id), anywhere.get(pin.tool_id))
            if old and old.digest != pin.version.digest:
                moved.append((pin, old.ordinal))
    rows = ToolVersion.objects.filter(tool__in={pin.tool_id for pin, _ in moved})
    known = {(row.tool_id, row.ordinal): row for row in rows} if moved else {}
    found = {}
    for pin, ordinal in moved:
        if was := known.get((pin.tool_id, ordinal)):
            changes = signature_diff.compare(was.decoded(), pin.version.decoded()).changes
            found[pin.pk] = tuple(each.sentence for each in changes if each.class_ == "breaking")
    return found
