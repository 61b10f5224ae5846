"""What publishing an agent now would change for its runtimes, and what there is to say against it."""

from collections.abc import Mapping
from dataclasses import dataclass

from designer import exports, token_budget
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Release
from designer.readiness.obstacles import Readiness
from designer.rehearsals.results import Comparison
from designer.releases import binding_snapshots, channels, composition, diff, draft_checks
from designer.releases.checks import Check
from designer.releases.draft_checks import CarriedByFormat
from designer.releases.recorded_bindings import BindingChange
from people.models import User


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a model reads of all tools in one format; `before` is None where nothing was released."""

    before: int | None
    after: int

    @property
    def change(self) -> int:
        return self.after - (self.before or 0)


@dataclass(frozen=True, slots=True)
class DraftReview:
    """`against` is the release that `live` leads to, else the newest; the changes are against that one.

    `is_new` is whether publishing would write something else than the newest release holds. `tokens` are of
    the agent itself by format; by `size_change` all that it and its sub-agents show is longer. `rehearsals`
    are of each agent that is rehearsed, and `readiness` is of each tool in the default environment.
    `bindings` are the differences from what `against` recorded as running there.
    """

    draft: ReleaseDocument
    against: Release | None
    newest: Release | None
    is_new: bool
    changes: diff.TreeChange
    checks: list[Check]
    tokens: Mapping[str, Tokens]
    size_change: int
    rehearsals: list[Comparison]
    readiness: list[Readiness]
    bindings: list[BindingChange]

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


def of(agent: Agent, reader: User) -> DraftReview:
    """`reader` is who is told: of other agents' tools, as far as that user may see them."""
    newest = agent.releases.order_by("-number").first()
    tree = composition.trees([agent])[agent.pk]
    draft = composition.document(tree, number=composition.number_after(agent, newest.number if newest else 0))
    facts = draft_checks.read_facts(tree, draft)
    against = facts.base
    old = release_document.decode(against.document) if against else None
    last = release_document.decode(newest.document) if newest else None
    is_same = last is not None and composition.is_same(draft, last)
    moved_bindings = binding_snapshots.list_moved_bindings(agent.pk, newest, draft)
    return DraftReview(
        draft=draft,
        against=against,
        newest=newest,
        is_new=not draft.is_empty and (not is_same or bool(moved_bindings)),
        changes=diff.between(old, draft),
        checks=[] if draft.is_empty else draft_checks.checks_of(facts, reader),
        tokens=_tokens(exports.carried_by_format(old) if old else [], facts.carried[agent.slug]),
        size_change=_size(draft) - (_size(old) if old else 0),
        rehearsals=list(facts.rehearsals.values()),
        readiness=list(facts.readiness),
        bindings=moved_bindings
        if newest == against
        else binding_snapshots.list_moved_bindings(agent.pk, against, draft),
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """How far an agent is from what `live` leads to, else from its newest release. `tokens` is by how many
    what it and its sub-agents show is longer, their tools in the usual format. `bindings`
    are the differences from what that release recorded as running in the default environment."""

    changes: int
    tokens: int
    against: Release | None
    bindings: list[BindingChange]


def summary(agent: Agent) -> Summary:
    draft = composition.draft(agent)
    against = channels.baseline(agent)
    old = release_document.decode(against.document) if against else None
    return Summary(
        changes=diff.between(old, draft).count,
        tokens=_size(draft) - (_size(old) if old else 0),
        against=against,
        bindings=binding_snapshots.list_moved_bindings(agent.pk, against, draft),
    )


def _size(document: ReleaseDocument) -> int:
    """What all agents of the tree show together: their tools in the usual format, and their procedures."""
    return sum(map(token_budget.tokens_of_agent, document.nodes))


def _tokens(old: CarriedByFormat, new: CarriedByFormat) -> dict[str, Tokens]:
    before = _sizes(old)
    return {name: Tokens(before.get(name), size) for name, size in _sizes(new).items()}


def _sizes(fits: CarriedByFormat) -> dict[str, int]:
    return {
        format_.name: token_budget.total(judged.fitting, format_)
        for format_, judged in fits
        if format_.is_text
    }
