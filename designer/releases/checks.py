"""What there is to say against publishing a draft, or for it. Pure.

Each rule looks at the facts and gives checks: those that stop publishing (`error`) until they are accepted by
their codes, those to be aware of (`warning`), or one that all is well (`ok`). A new rule is a function in
`RULES`; what is judged elsewhere already comes in `Facts.more`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from catalog.token_estimate import estimate_tokens
from designer import token_budget
from designer.exports.base import Carried
from designer.exports.document import ReleaseDocument
from designer.rehearsals import results
from designer.rehearsals.results import Comparison, Flip

Severity = Literal["ok", "warning", "error"]
# Who may accept an error; "" for what needs no accepting.
Accepter = Literal["", "designer", "admin"]
ORDER: tuple[Severity, ...] = ("error", "warning", "ok")
REASONS_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`where` is the path of the page on which it is mended, empty where there is nothing to mend. `about` is
    the name of the tool that it is about, where it says the same of each."""

    code: str
    severity: Severity
    message: str
    where: str = ""
    about: str = ""
    accepted_by: Accepter = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """One pinned tool; each sentence is empty where there is nothing to say.

    `misfits` are tuned words that the pinned version has no place for, each with whether a model would be
    shown what the designer hid. `breaks` says what the version takes away from the one that was released.
    `outside` is about a vendor that the agent may not use; `outside_where` is the page where it is allowed.
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
    breaks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """The tokens that the designer allows the agent, whether more of them stop publishing, and where both the
    tokens and the limit are seen."""

    tokens: int
    stops: bool
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One agent of a tree. `sub_agent` is its name, empty for the one that is published; `carried` is its
    draft in each format, by the format's label. `strands` are tools, with what callers of their last version
    lose: to clients that know versions they become other tools.
    """

    draft: ReleaseDocument
    tools: tuple[ToolFacts, ...]
    carried: tuple[tuple[str, Carried], ...]
    strands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    budget: Budget | None = None
    more: tuple[Check, ...] = ()
    sub_agent: str = ""
    rehearsed: Comparison | None = None


def checks(*tree: Facts) -> list[Check]:
    """All of them, the worst first. That all is well is said once, where it is so in every agent."""
    found: list[Check] = []
    for rule in (*RULES, _more):
        told = [(facts.sub_agent, list(rule(facts))) for facts in tree]
        is_well = all(any(each.severity == "ok" for each in said) for _, said in told if said)
        for sub_agent, said in told:
            for each in said if is_well else (each for each in said if each.severity != "ok"):
                # What is well in the agent itself is said for all of them.
                if not (each.severity == "ok" and each in found):
                    message = f"“{sub_agent}”: {each.message}" if sub_agent else each.message
                    found.append(replace(each, message=message))
    return sorted(found, key=lambda check: ORDER.index(check.severity))


def not_accepted(found: Iterable[Check], accept: Iterable[str], *, is_admin: bool) -> list[Check]:
    """The errors that stop publishing: not accepted by code, or not by this actor's role."""
    codes = set(accept)
    return [
        check
        for check in found
        if check.severity == "error"
        and (check.code not in codes or (check.accepted_by == "admin" and not is_admin))
    ]


def _reviews(facts: Facts) -> Iterator[Check]:
    is_clean = True
    for tool in facts.tools:
        where = tool.review_where or tool.where
        if tool.blocked:
            # An administrator has decided that agents do not get it, so only one may decide otherwise.
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
            message = f"“{tool.name}” is under review: {tool.under_review}"
            yield Check(code="version_under_review", severity="warning", message=message, where=where)
        is_clean = is_clean and not (tool.blocked or tool.held or tool.under_review)
    if is_clean:
        yield Check(code="review", severity="ok", message="No pinned version waits for review.")


def _offered(facts: Facts) -> Iterator[Check]:
    gone = [tool for tool in facts.tools if tool.gone]
    for tool in gone:
        message = (
            f"“{tool.name}”: {tool.gone} The release holds its words all the same; calls of it may fail."
        )
        yield Check(code="tool_withdrawn", severity="warning", message=message, where=tool.where)
    if not gone:
        yield Check(code="offered", severity="ok", message="The vendors offer every tool.")


def _vendors(facts: Facts) -> Iterator[Check]:
    outside = [tool for tool in facts.tools if tool.outside]
    for tool in outside:
        yield Check(
            code="vendor_not_allowed",
            severity="error",
            message=tool.outside,
            where=tool.outside_where,
            accepted_by="designer",
        )
    if not outside:
        yield Check(
            code="vendors", severity="ok", message="Every tool is of a vendor that the agent may use."
        )


def _words(facts: Facts) -> Iterator[Check]:
    is_clean = True
    for tool in facts.tools:
        for message, exposes in tool.misfits:
            is_clean, message = False, f"“{tool.name}”: {message}"
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
        yield Check(code="words", severity="ok", message="All of your words fit the pinned versions.")


def _names(facts: Facts) -> Iterator[Check]:
    where = {tool.name: tool.where for tool in facts.tools}
    shown = [tool.signature.name for tool in facts.draft.tools]
    shown += [transfer.name for transfer in facts.draft.transfers]
    names = Counter(name.casefold() for name in shown)
    clashing = [name for name in shown if names[name.casefold()] > 1]
    for name in clashing:
        yield Check(
            code="name_clash",
            severity="error",
            message=f"A model would know two tools as “{name}”. Call one of them something else.",
            where=where.get(name, ""),
            accepted_by="designer",
        )
    if not clashing:
        yield Check(code="names", severity="ok", message="Every tool has a name of its own.")


def _breaks(facts: Facts) -> Iterator[Check]:
    for tool in facts.tools:
        if tool.breaks:
            message = f"“{tool.name}” moves to a version that breaks what worked: {_first(tool.breaks)}"
            yield Check(code="breaking_move", severity="warning", message=message, where=tool.where)


def _ids(facts: Facts) -> Iterator[Check]:
    where = {tool.name: tool.where for tool in facts.tools}
    for name, breaks in facts.strands.items():
        message = (
            f"“{name}” gets another id for A2T clients and a new major version for OXP clients, because what "
            f"they call may not go on: {_first(breaks)} The id or version that they know goes on as it was, "
            "for as long as a release that holds it is kept."
        )
        yield Check(code="another_tool_id", severity="warning", message=message, where=where.get(name, ""))


def _formats(facts: Facts) -> Iterator[Check]:
    where = {tool.name: tool.where for tool in facts.tools}
    is_clean = True
    for label, carried in facts.carried:
        if carried.left_out:
            blocking, count = carried.blocking, len(carried.fitting.tools)
            message = (
                f"{label} carries {count} of {count + len(carried.left_out)} tools: "
                f"{_first([remark.message for remark in blocking])}"
            )
            mended = where.get(blocking[0].tool, "")
            yield Check(code="format_cannot_carry", severity="warning", message=message, where=mended)
        elif warned := [remark for remark in carried.remarks if remark.level == "warns"]:
            message = f"{label} may be refused: {_first([remark.message for remark in warned])}"
            yield Check(
                code="format_may_refuse",
                severity="warning",
                message=message,
                where=where.get(warned[0].tool, ""),
            )
        else:
            continue
        is_clean = False
    if is_clean:
        yield Check(code="formats", severity="ok", message="Every format carries every tool.")


def _budget(facts: Facts) -> Iterator[Check]:
    if facts.budget is None:
        return
    tokens = sum(token_budget.tokens(tool.signature) for tool in facts.draft.tools)
    handed = facts.draft.transfers
    tokens += sum(token_budget.tokens_of_transfer(each.name, each.description) for each in handed)
    tokens += sum(estimate_tokens(procedure.text) for procedure in facts.draft.procedures)
    allowed = facts.budget.tokens
    if tokens <= allowed:
        message = f"Tools and procedures take ~{tokens:,} of the {allowed:,} tokens that the agent may take."
        yield Check(code="budget", severity="ok", message=message)
        return
    told = f"Tools and procedures take ~{tokens:,} tokens of a request; the agent may take {allowed:,}."
    yield Check(
        code="budget_exceeded",
        severity="error" if facts.budget.stops else "warning",
        message=told,
        where=facts.budget.where,
        accepted_by="designer" if facts.budget.stops else "",
    )


def _rehearsals(facts: Facts) -> Iterator[Check]:
    said = facts.rehearsed
    if said is None or said.gate == "off":
        return
    stops = said.gate == "refuse"
    severity: Severity = "error" if stops else "warning"
    accepted_by: Accepter = "designer" if stops else ""
    if said.now is None:
        yield Check(
            code="rehearsals_pending",
            severity=severity,
            message=said.missing,
            where=said.where,
            accepted_by=accepted_by,
        )
        return
    was = f", was {said.before} in release {said.against}" if said.before else ""
    told = f"{said.now} rehearsed sentences are answered as expected{was}."
    found = results.gate(said.now, said.flips, at_least=said.at_least, on_flips=said.on_flips)
    if found == "open":
        # Only all of the tests as expected prove anything: “3 of 7” is never a tick.
        is_full = said.now.right == said.now.total
        yield Check(
            code="rehearsals",
            severity="ok" if is_full else "warning",
            message=told,
            where="" if is_full else said.where,
        )
        return
    if found == "below":
        told += f" The agent asks for {said.at_least}."
    if said.worse:
        told += f" Worse than there: {_first([_says_worse(flip) for flip in said.worse])}"
    yield Check(
        code="rehearsal_gate", severity=severity, message=told, where=said.where, accepted_by=accepted_by
    )


def _says_worse(flip: Flip) -> str:
    chosen = f"“{flip.chosen}” is chosen" if flip.chosen else "no tool is chosen"
    if flip.chosen == flip.expected:
        return f"“{flip.says}” says other inputs."
    meant = f"in place of “{flip.expected}”" if flip.expected else "and the tool for it is not there any more"
    return f"“{flip.says}”: {chosen} {meant}."


def _more(facts: Facts) -> Iterator[Check]:
    yield from facts.more


def _first(sentences: Iterable[str]) -> str:
    said = list(sentences)
    more = f" And {len(said) - REASONS_SHOWN} more." if len(said) > REASONS_SHOWN else ""
    return " ".join(said[:REASONS_SHOWN]) + more


RULES: list[Callable[[Facts], Iterable[Check]]] = [
    _reviews,
    _offered,
    _vendors,
    _words,
    _names,
    _breaks,
    _ids,
    _formats,
    _budget,
    _rehearsals,
]
