"""The checks of a draft before publishing. Pure.

Each rule returns checks from the facts: errors, which stop publishing until they are accepted by their codes,
    warnings, and `ok`. A new rule is a function with `@rule`; checks from elsewhere are in `Facts.more`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

from catalog.token_estimate import estimate_tokens
from core.translatable import Count, Wording, first_sentences, join_sentences
from core.translatable import mark as _
from designer.exports.base import CarriedTools
from designer.exports.document import ReleaseDocument
from designer.pins import token_budget
from designer.rehearsals import results
from designer.rehearsals.results import Figure, RehearsalComparison

Severity = Literal["ok", "warning", "error"]
# The role that may accept an error; "" if nothing needs to be accepted.
Accepter = Literal["", "designer", "admin"]
ORDER: tuple[Severity, ...] = ("error", "warning", "ok")
REASONS_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A failed check of a draft.

    message: a `Wording`, which pages translate, wherever it is composed without Django.
    where: the path of the page where it can be fixed, "" if there is nothing to fix.
    about: the tool's name, if the same message may apply to several tools.
    """

    code: str
    severity: Severity
    message: str
    where: str = ""
    about: str = ""
    accepted_by: Accepter = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTool:
    """One pinned tool; a sentence is "" if the fact does not apply.

    misfits: tuned texts that the pinned version has no member for, each with whether it would expose what the
    designer hid.
    is_tuned: it has tuned texts.
    breaks: the breaking changes from the released version.
    outside, outside_where: why the agent may not use the vendor, and the page where that can be changed.
    """

    name: str
    where: str
    blocked: str = ""
    held: str = ""
    under_review: str = ""
    review_where: str = ""
    gone: str = ""
    outside: str = ""
    outside_where: str = ""
    misfits: tuple[tuple[str, bool], ...] = ()
    is_tuned: bool = False
    breaks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitOfTokens:
    """The agent's token limit, whether exceeding it stops publishing, and the page with both figures."""

    tokens: int
    stops: bool
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgent:
    """One agent of a tree.

    sub_agent: its name, "" for the agent that is published.
    limits_vendors: it may not use the tools of all vendors.
    carried: its draft in each format, by the format's label.
    strands: tools that become other tools for clients that know versions, with what their callers lose.
    """

    draft: ReleaseDocument
    tools: tuple[CheckedTool, ...]
    carried: tuple[tuple[str, CarriedTools], ...]
    strands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    budget: LimitOfTokens | None = None
    more: tuple[Check, ...] = ()
    sub_agent: str = ""
    limits_vendors: bool = False
    rehearsed: RehearsalComparison | None = None


Rule = Callable[[CheckedAgent], Iterable[Check]]
_rules: list[Rule] = []


def rule(function: Rule) -> Rule:
    _rules.append(function)
    return function


def checks(*tree: CheckedAgent) -> list[Check]:
    """Return all checks, the worst first. An `ok` is listed once, if the rule finds no problem in any
    agent. A rule that had nothing to check yields no `ok`.
    """
    result: list[Check] = []
    more: Rule = attrgetter("more")
    for find in (*_rules, more):
        checks_by_agent = [(facts.sub_agent, list(find(facts))) for facts in tree]
        is_ok = all(any(row.severity == "ok" for row in rows) for _name, rows in checks_by_agent if rows)
        for sub_agent, rows in checks_by_agent:
            for row in rows if is_ok else (check for check in rows if check.severity != "ok"):
                # An `ok` of the agent itself is enough for all of them.
                if not (row.severity == "ok" and row in result):
                    message = _name_and_message(sub_agent, row.message) if sub_agent else row.message
                    result.append(replace(row, message=message))
    return sorted(result, key=lambda check: ORDER.index(check.severity))


def not_accepted(checks: Iterable[Check], accept: Iterable[str], *, is_admin: bool) -> list[Check]:
    """Return the errors that stop publishing: their code is not accepted, or this actor's role may not accept
    it.
    """
    codes = set(accept)
    return [
        check
        for check in checks
        if check.severity == "error"
        and (check.code not in codes or (check.accepted_by == "admin" and not is_admin))
    ]


@rule
def reviews(facts: CheckedAgent) -> Iterator[Check]:
    is_clean = bool(facts.tools)
    for tool in facts.tools:
        where = tool.review_where or tool.where
        if tool.blocked:
            # An administrator has blocked the version, so only an administrator may accept it.
            yield Check(
                code="version_blocked",
                severity="error",
                message=tool.blocked,
                where=tool.where,
                accepted_by="admin",
            )
        elif tool.held:
            yield Check(
                code="version_held", severity="error", message=tool.held, where=where, accepted_by="designer"
            )
        elif tool.under_review:
            message = Wording(
                _("“{tool}” has an open finding in review: {reason}"),
                {"tool": tool.name, "reason": tool.under_review},
            )
            yield Check(code="version_under_review", severity="warning", message=message, where=where)
        is_clean = is_clean and not (tool.blocked or tool.held or tool.under_review)
    if is_clean:
        message = Wording(
            _(
                "Review: no pinned tool is blocked or held, and none has an open finding of medium or high "
                "severity."
            )
        )
        yield Check(code="review", severity="ok", message=message)


@rule
def check_vendor_offer(facts: CheckedAgent) -> Iterator[Check]:
    withdrawn = [tool for tool in facts.tools if tool.gone]
    for tool in withdrawn:
        template = _(
            "“{tool}”: {reason} The release still contains the tool, but its calls may fail. Unpin it, or "
            "ask the vendor."
        )
        message = Wording(template, {"tool": tool.name, "reason": tool.gone})
        yield Check(code="tool_withdrawn", severity="warning", message=message, where=tool.where)
    if facts.tools and not withdrawn:
        message = Wording(_("The vendors still list every pinned tool."))
        yield Check(code="offered", severity="ok", message=message)


@rule
def vendors(facts: CheckedAgent) -> Iterator[Check]:
    not_allowed = [tool for tool in facts.tools if tool.outside]
    for tool in not_allowed:
        yield Check(
            code="vendor_not_allowed",
            severity="error",
            message=tool.outside,
            where=tool.outside_where,
            accepted_by="designer",
        )
    if facts.limits_vendors and facts.tools and not not_allowed:
        message = Wording(_("The agent may use the vendors of all its tools."))
        yield Check(code="vendors", severity="ok", message=message)


@rule
def words(facts: CheckedAgent) -> Iterator[Check]:
    is_clean = any(tool.is_tuned for tool in facts.tools)
    for tool in facts.tools:
        for message, exposes in tool.misfits:
            is_clean, message = False, _name_and_message(tool.name, message)
            if exposes:
                yield Check(
                    code="tuning_does_not_fit",
                    severity="error",
                    message=message,
                    where=tool.where,
                    accepted_by="designer",
                )
            else:
                yield Check(code="words_set_aside", severity="warning", message=message, where=tool.where)
    if is_clean:
        message = Wording(_("Your texts and presets fit the pinned versions of the tools."))
        yield Check(code="words", severity="ok", message=message)


@rule
def names(facts: CheckedAgent) -> Iterator[Check]:
    page_by_tool = {tool.name: tool.where for tool in facts.tools}
    names_in_use = [tool.signature.name for tool in facts.draft.tools]
    names_in_use += [transfer.name for transfer in facts.draft.transfers]
    names = Counter(name.casefold() for name in names_in_use)
    clashing = [name for name in names_in_use if names[name.casefold()] > 1]
    for name in clashing:
        template = _("Two tools have the name “{name}” for the model. Rename one of them.")
        yield Check(
            code="name_clash",
            severity="error",
            message=Wording(template, {"name": name}),
            where=page_by_tool.get(name, ""),
            accepted_by="designer",
        )
    if names and not clashing:
        yield Check(code="names", severity="ok", message=Wording(_("No two tools have the same name.")))


@rule
def breaks(facts: CheckedAgent) -> Iterator[Check]:
    for tool in facts.tools:
        if tool.breaks:
            template = _(
                "“{tool}” has another version than in the last release, and calls that worked may fail: "
                "{changes}"
            )
            changes = first_sentences(tool.breaks, REASONS_SHOWN)
            message = Wording(template, {"tool": tool.name, "changes": changes})
            yield Check(code="breaking_move", severity="warning", message=message, where=tool.where)


@rule
def ids(facts: CheckedAgent) -> Iterator[Check]:
    page_by_tool = {tool.name: tool.where for tool in facts.tools}
    template = _(
        "“{tool}” gets another id for A2T clients and a new major version for OXP clients, because their "
        "calls may fail: {changes} The current id and version keep working while a release contains them."
    )
    for name, breaks in facts.strands.items():
        message = Wording(template, {"tool": name, "changes": first_sentences(breaks, REASONS_SHOWN)})
        yield Check(
            code="another_tool_id", severity="warning", message=message, where=page_by_tool.get(name, "")
        )


@rule
def formats(facts: CheckedAgent) -> Iterator[Check]:
    page_by_tool = {tool.name: tool.where for tool in facts.tools}
    is_clean = bool(facts.draft.tools and facts.carried)
    for label, carried in facts.carried:
        if carried.left_out:
            blocking, count = carried.blocking, len(carried.fitting.tools)
            message = Wording(
                _("The export for {format} contains only {count} of {total} tools: {reasons}"),
                {
                    "format": label,
                    "count": count,
                    "total": count + len(carried.left_out),
                    "reasons": first_sentences((remark.message for remark in blocking), REASONS_SHOWN),
                },
            )
            page = page_by_tool.get(blocking[0].tool, "")
            yield Check(code="format_cannot_carry", severity="warning", message=message, where=page)
        elif warnings := [remark for remark in carried.remarks if remark.level == "warns"]:
            reasons = first_sentences((remark.message for remark in warnings), REASONS_SHOWN)
            if all(remark.code == "not_checked" for remark in warnings):
                code, template = "format_not_checked", _("The export for {format} was not checked: {reasons}")
            else:
                code = "format_may_refuse"
                template = _("A provider may refuse the export for {format}: {reasons}")
            message = Wording(template, {"format": label, "reasons": reasons})
            page = page_by_tool.get(warnings[0].tool, "")
            yield Check(code=code, severity="warning", message=message, where=page)
        else:
            continue
        is_clean = False
    if is_clean:
        message = Wording(_("Every export format contains all tools of the agent."))
        yield Check(code="formats", severity="ok", message=message)


@rule
def budget(facts: CheckedAgent) -> Iterator[Check]:
    if facts.budget is None:
        return
    tokens = sum(token_budget.tokens(tool.signature) for tool in facts.draft.tools)
    released_transfers = facts.draft.transfers
    tokens += sum(
        token_budget.tokens_of_transfer(transfer.name, transfer.description)
        for transfer in released_transfers
    )
    tokens += sum(estimate_tokens(procedure.text) for procedure in facts.draft.procedures)
    figures = {"tokens": Count(tokens), "allowed": Count(facts.budget.tokens)}
    if tokens <= facts.budget.tokens:
        template = _("Tools and procedures use ~{tokens} tokens of each request. The limit is {allowed}.")
        yield Check(code="budget", severity="ok", message=Wording(template, figures))
        return
    template = _(
        "Tools and procedures use ~{tokens} tokens of each request, and the limit is {allowed}. Shorten "
        "texts, unpin tools or raise the limit."
    )
    yield Check(
        code="budget_exceeded",
        severity="error" if facts.budget.stops else "warning",
        message=Wording(template, figures),
        where=facts.budget.where,
        accepted_by="designer" if facts.budget.stops else "",
    )


@rule
def rehearsals(facts: CheckedAgent) -> Iterator[Check]:
    comparison = facts.rehearsed
    if comparison is None or comparison.gate == "off":
        return
    stops = comparison.gate == "refuse"
    severity: Severity = "error" if stops else "warning"
    accepted_by: Accepter = "designer" if stops else ""
    if comparison.now is None:
        yield Check(
            code="rehearsals_pending",
            severity=severity,
            message=comparison.missing,
            where=comparison.where,
            accepted_by=accepted_by,
        )
        return
    sentences: list[str] = [_describe_figures(comparison.now, comparison)]
    gate_state = results.gate(
        comparison.now, comparison.flips, at_least=comparison.at_least, on_flips=comparison.on_flips
    )
    if gate_state == "open":
        # Only a full pass counts as ok: “3 of 7” does not.
        is_full = comparison.now.right == comparison.now.total
        yield Check(
            code="rehearsals",
            severity="ok" if is_full else "warning",
            message=join_sentences(sentences),
            where="" if is_full else comparison.where,
        )
        return
    if gate_state == "below":
        sentences.append(
            Wording(_("At least {count} have to pass before a release."), {"count": comparison.at_least})
        )
    if comparison.worse:
        changes = first_sentences((flip.sentence for flip in comparison.worse), REASONS_SHOWN)
        sentences.append(Wording(_("These tests passed then and fail now: {changes}"), {"changes": changes}))
    yield Check(
        code="rehearsal_gate",
        severity=severity,
        message=join_sentences(sentences),
        where=comparison.where,
        accepted_by=accepted_by,
    )


def _describe_figures(now: Figure, comparison: RehearsalComparison) -> Wording:
    values: dict[str, Any] = {"passed": now.right, "total": now.total}
    if comparison.before is None:
        return Wording(_("{passed} of {total} tests passed."), values)
    before = comparison.before
    values |= {"passed_before": before.right, "total_before": before.total, "release": comparison.against}
    template = _("{passed} of {total} tests passed, {passed_before} of {total_before} in release {release}.")
    return Wording(template, values)


def _name_and_message(name: str, message: str) -> Wording:
    return Wording(_("“{name}”: {message}"), {"name": name, "message": message})
