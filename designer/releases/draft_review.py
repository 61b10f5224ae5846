"""What publishing an agent now would change for its runtimes, and what there is to say against it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from catalog.token_estimate import estimate_tokens
from designer import pinned_signatures, token_budget
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Release
from designer.releases import diff, publishing
from designer.releases.checks import Check
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

    `is_new` is whether publishing would write something else than the newest release holds.
    """

    draft: ReleaseDocument
    against: Release | None
    newest: Release | None
    is_new: bool
    agent: list[diff.Member]
    changes: list[diff.ToolChange]
    procedures: list[diff.ProcedureChange]
    checks: list[Check]
    tokens: Mapping[str, Tokens]

    @property
    def digest(self) -> str:
        return release_document.digest(release_document.encode(self.draft))

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if check.severity == "error"]


def of(agent: Agent, reader: User) -> DraftReview:
    """`reader` is who is told: of other agents' tools, as far as that user may see them."""
    pins = list(pinned_signatures.pinned([agent]))
    draft = publishing.draft(agent)
    newest = agent.releases.order_by("-number").first()
    against = publishing.compared_with(agent)
    old = release_document.decode(against.document) if against else None
    last = release_document.decode(newest.document) if newest else None
    return DraftReview(
        draft=draft,
        against=against,
        newest=newest,
        is_new=bool(draft.tools or draft.procedures) and not (last and publishing.is_same(draft, last)),
        agent=diff.about_agent(old, draft) if old else [],
        changes=diff.between(old, draft) if old else diff.all_new(draft),
        procedures=diff.between_procedures(old or msgspec.structs.replace(draft, procedures=()), draft),
        checks=publishing.checks_of(agent, pins, draft, reader) if draft.tools or draft.procedures else [],
        tokens=_tokens(old, draft),
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """How far an agent is from what `live` leads to, else from its newest release. `tokens` is by how many
    its tools and procedures are longer."""

    changes: int
    tokens: int
    against: Release | None


def summary(agent: Agent) -> Summary:
    draft = publishing.draft(agent)
    against = publishing.compared_with(agent)
    old = release_document.decode(against.document) if against else None
    changes = diff.between(old, draft) if old else diff.all_new(draft)
    procedures = diff.between_procedures(old or msgspec.structs.replace(draft, procedures=()), draft)
    words = diff.about_agent(old, draft) if old else []
    return Summary(
        changes=len(changes) + len(procedures) + len(words),
        tokens=_size(draft) - (_size(old) if old else 0),
        against=against,
    )


def _size(document: ReleaseDocument) -> int:
    """What a model reads of its tools and procedures, whatever the format."""
    tools = sum(token_budget.tokens(tool.signature) for tool in document.tools)
    return tools + sum(estimate_tokens(procedure.text) for procedure in document.procedures)


def _tokens(old: ReleaseDocument | None, new: ReleaseDocument) -> dict[str, Tokens]:
    before = _sizes(old) if old else {}
    return {name: Tokens(before.get(name), size) for name, size in _sizes(new).items()}


def _sizes(document: ReleaseDocument) -> dict[str, int]:
    return {
        format_.name: estimate_tokens(format_.body(judged.fitting))
        for format_, judged in publishing.carried_by_format(document)
        if format_.is_text
    }
