"""The effects of publishing an agent now on its runtimes, and the checks of the draft."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Release, Retirement
from designer.pins import token_budget
from designer.readiness.obstacles import Readiness
from designer.rehearsals.results import RehearsalComparison
from designer.releases import binding_snapshots, channels, composition, diff, draft_checks
from designer.releases.channels import ChannelState
from designer.releases.checks import Check
from designer.releases.masked_changes import compare_masked
from designer.releases.recorded_bindings import BindingDifference
from people.models import User


@dataclass(frozen=True, slots=True)
class TokenChange:
    """The tokens of all tools in one format; `before` is None if nothing was released."""

    before: int | None
    after: int

    @property
    def change(self) -> int:
        return self.after - (self.before or 0)


@dataclass(frozen=True, slots=True)
class DraftReview:
    """The review of a draft.

    against: the release that `live` points to, else the newest; the changes are compared with it.
    old: its document.
    is_new: publishing would write something else than the newest release.
    tokens: of the agent itself, by format.
    size_change: the growth of everything that it and its sub-agents show.
    rehearsals: of each agent that has tests. readiness: of each tool in the default environment.
    bindings: the differences from the bindings that `against` recorded.
    channels: as in `channels.states`.
    """

    draft: ReleaseDocument
    against: Release | None
    old: ReleaseDocument | None
    channels: Sequence[ChannelState]
    newest: Release | None
    is_new: bool
    changes: diff.TreeChange
    checks: list[Check]
    tokens: Mapping[str, TokenChange]
    size_change: int
    rehearsals: list[RehearsalComparison]
    readiness: list[Readiness]
    bindings: list[BindingDifference]

    @property
    def digest(self) -> str:
        return release_document.digest(release_document.encode(self.draft))

    @property
    def is_proven(self) -> bool:
        """True if no check objects to the draft and every tool is proven to answer."""
        is_well = all(check.severity == "ok" for check in self.checks)
        return is_well and all(tool.state.severity == "proven" for tool in self.readiness)

    @property
    def unproven_count(self) -> int:
        return sum(tool.state.severity != "proven" for tool in self.readiness)

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if check.severity == "error"]


def review_draft(agent: Agent, reader: User) -> DraftReview:
    """Review the draft. Tools of other agents are named as far as `reader` may see them."""
    newest = channels.newest_release(agent)
    tree = composition.trees([agent])[agent.pk]
    draft = composition.document(tree, number=composition.number_after(agent, newest.number if newest else 0))
    states = channels.states(agent)
    live = states[0].release
    against = live if live and live != newest else newest
    facts = draft_checks.read_facts(tree, draft, against)
    old = facts.old
    last = old if newest == against else release_document.decode(newest.document) if newest else None
    is_same = last is not None and composition.is_same(draft, last)
    moved_bindings = binding_snapshots.list_moved_bindings(agent.pk, newest, draft)
    before = token_budget.tokens_by_format(old) if old else {}
    return DraftReview(
        draft=draft,
        against=against,
        old=old,
        channels=states,
        newest=newest,
        is_new=not draft.is_empty and (not is_same or bool(moved_bindings)),
        changes=compare_masked(old, draft),
        checks=[] if draft.is_empty else draft_checks.checks_of(facts, reader),
        tokens={
            name: TokenChange(before.get(name), size)
            for name, size in token_budget.tokens_by_format(draft).items()
        },
        size_change=_count_tokens(draft) - (_count_tokens(old) if old else 0),
        rehearsals=list(facts.rehearsals.values()),
        readiness=list(facts.readiness),
        bindings=moved_bindings
        if newest == against
        else binding_snapshots.list_moved_bindings(agent.pk, against, draft),
    )


@dataclass(frozen=True, slots=True)
class DraftSummary:
    """The differences of an agent from the release that `live` points to, or else from its newest release.

    live: the release that `live` points to.
    promotable: the newest release, if publishing would only repeat it and `live` does not point to it.
    tokens: the growth in tokens of the tree, with tools in the usual format.
    bindings: the differences from the bindings that that release recorded of the default environment.
    """

    changes: int
    tokens: int
    against: Release | None
    live: Release | None
    promotable: Release | None
    bindings: list[BindingDifference]


def released_and_draft(agent: Agent) -> tuple[ReleaseDocument | None, ReleaseDocument]:
    """Return two documents: the release to compare with, and the draft."""
    against = channels.baseline(agent)
    return release_document.decode(against.document) if against else None, composition.draft(agent)


def summary(agent: Agent) -> DraftSummary:
    draft = composition.draft(agent)
    live = channels.state(agent, channels.LIVE).release
    newest = channels.newest_release(agent)
    against = live or newest
    old = release_document.decode(against.document) if against else None
    promotable = None
    # A channel cannot point to a retired release.
    if newest and newest != live and not Retirement.objects.filter(release=newest).exists():
        is_same = composition.is_same(draft, release_document.decode(newest.document))
        if is_same and not binding_snapshots.list_moved_bindings(agent.pk, newest, draft):
            promotable = newest
    return DraftSummary(
        changes=diff.compare_releases(old, draft).count,
        tokens=_count_tokens(draft) - (_count_tokens(old) if old else 0),
        against=against,
        live=live,
        promotable=promotable,
        bindings=binding_snapshots.list_moved_bindings(agent.pk, against, draft),
    )


def _count_tokens(document: ReleaseDocument) -> int:
    """Return the tokens of all agents of the tree: of their tools in the usual format, and of their
    procedures.
    """
    return sum(map(token_budget.tokens_of_agent, document.nodes))
