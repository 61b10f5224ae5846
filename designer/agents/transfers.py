"""Transfers from an agent to its sub-agents: one per sub-agent, which follows it in the tree."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from core.compiled_queries import PreparedQuery, is_any_of
from core.errors import DomainError
from designer.models import Agent, Pin, Transfer
from designer.models.agents import MAX_DESCRIPTION_LENGTH
from designer.signatures import model_names
from designer.texts import validated_text
from people import audit
from people.audit import edit_conflicts
from people.models import User

MAX_SENTENCE_LENGTH = 300


@transaction.atomic
def word_transfer(
    transfer: Transfer,
    *,
    actor: User,
    name: str = "",
    description: str = "",
    expected: str = edit_conflicts.ANY_STATE,
) -> Transfer:
    """Replace name and description; empty values restore the defaults. `expected`:
    people/audit/edit_conflicts.py.
    """
    rows = Transfer.objects.live().select_related("agent", "child").filter(pk=transfer.pk)
    # The agent is locked too, as by every edit of its pins.
    current = rows.select_for_update(of=("self", "agent"), no_key=True).first()
    if current is None:
        message = _("“{agent}” does not transfer to “{child}” any more.").format(
            agent=transfer.agent, child=transfer.child
        )
        raise DomainError("transfer_removed", message, status=409)
    if current.child.archived_at:
        raise archived_error(current.child)
    transfer = current
    before = facts(transfer)
    name = name.strip()
    description = validated_text(description, field="description", limit=MAX_DESCRIPTION_LENGTH)
    if description == default_description(transfer.child):
        description = ""
    edit_conflicts.check(
        transfer, expected, now=before, submitted=before | {"alias": name, "description": description}
    )
    transfer.name = (
        _checked_name(transfer, name) if name else free_name(transfer.agent, transfer.child, besides=transfer)
    )
    transfer.alias, transfer.description = name, description
    if facts(transfer) != before:
        transfer.updated_by, transfer.updated_at = actor, timezone.now()
        transfer.save()
        audit.record(actor, "edit", transfer, before=before, after=facts(transfer), agent=transfer.agent_id)
    return transfer


def follow(child: Agent) -> None:
    """Update the transfer to `child`. Called in each transaction that creates, moves, renames or removes it,
    with the tree locked.
    """
    stored = Transfer.objects.filter(child=child).first()
    if child.parent is None or child.removed_at:
        Transfer.objects.filter(child=child).delete()
        return
    parent = Agent.objects.select_for_update(no_key=True).get(pk=child.parent.pk)
    transfer = stored or Transfer(child=child)
    if transfer.alias and transfer.alias.lower() in taken_names(parent, besides=transfer):
        transfer.alias = ""
    transfer.agent = parent
    transfer.name = transfer.alias or free_name(parent, child, besides=transfer)
    transfer.save()


def transfers_from(agents: Collection[Agent] | Collection[int]) -> list[Transfer]:
    """Return the transfers to active sub-agents; archived ones only if the agent was archived with them."""
    return _TRANSFERS.rows(agents=[row if isinstance(row, int) else row.pk for row in agents])


_TRANSFERS: PreparedQuery[Transfer] = PreparedQuery(
    lambda: (
        Transfer.objects.live()
        .filter(is_any_of("designer_transfer.agent_id", "agents"))
        .filter(Q(child__archived_at=None) | Q(child__archived_at=F("agent__archived_at")))
        .select_related("agent", "child")
    )
)


def names_of(agent: Agent) -> list[str]:
    """Return the names that pins of the agent cannot have."""
    return list(Transfer.objects.filter(agent=agent).values_list("name", flat=True))


def taken_names(agent: Agent, *, besides: Transfer) -> Mapping[str, str]:
    """Return the names that a transfer of the agent cannot have, in lower case, each with its present
    owner.
    """
    pins = Pin.objects.live().filter(agent=agent).values_list("name", flat=True)
    others = Transfer.objects.filter(agent=agent).exclude(pk=besides.pk).select_related("child")
    return {name.lower(): _("a tool of “{agent}”").format(agent=agent) for name in pins} | {
        other.name.lower(): _("the transfer to “{child}”").format(child=other.child) for other in others
    }


def free_name(agent: Agent, child: Agent, *, besides: Transfer) -> str:
    return model_names.propose(default_name(child), taken_names(agent, besides=besides), vendor="transfer")


def default_name(child: Agent) -> str:
    return model_names.derive(f"transfer_to_{child.slug.replace('-', '_')}")


def default_description(child: Agent) -> str:
    """Return the description that a model sees by default: the first sentence about the sub-agent."""
    first = re.split(r"(?<=[.!?])\s", child.description.strip(), maxsplit=1)[0]
    if len(first) > MAX_SENTENCE_LENGTH:
        first = f"{first[: MAX_SENTENCE_LENGTH - 1]}…"
    return f"Hand over to {child.name}: {first}" if first else f"Hand over to {child.name}."


def description_of(transfer: Transfer) -> str:
    return transfer.description or default_description(transfer.child)


def facts(transfer: Transfer) -> dict[str, Any]:
    """Return the values for an audit row; an empty `alias` or `description` means the default."""
    return {
        "agent": transfer.agent.slug,
        "child": transfer.child.slug,
        "alias": transfer.alias,
        "name": transfer.name,
        "description": transfer.description,
    }


def archived_error(agent: Agent) -> DomainError:
    message = (
        f"“{agent}” is archived. Bring it back first: on its page, or by POST agents/{agent.slug}/restore/."
    )
    return DomainError("agent_archived", message, status=409)


def lock_tree(*, is_shared: bool = False) -> None:
    # One change of the tree at a time: two moves that are valid alone could form a cycle together. Also
    # acquired before two agents are locked, so that transactions cannot deadlock. Transactions that only need
    # the tree unchanged share it.
    function = "pg_advisory_xact_lock_shared" if is_shared else "pg_advisory_xact_lock"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtext('designer.tree'))")


def _checked_name(transfer: Transfer, name: str) -> str:
    """Raise DomainError if the name is invalid or taken, whatever its case."""
    used_names = taken_names(transfer.agent, besides=transfer)
    proposal = model_names.propose(name, used_names, vendor="transfer")
    if not model_names.is_legal(name):
        message = _(
            "A name starts with a letter or an underscore and goes on with letters, digits, "
            "underscores and hyphens, 64 at most. Try “{proposal}”."
        ).format(proposal=proposal)
        raise DomainError("alias_illegal", message, fields={"name": message})
    if holder := used_names.get(name.lower()):
        message = _("“{name}” is {holder} already. “{proposal}” is free.").format(
            name=name, holder=holder, proposal=proposal
        )
        raise DomainError("alias_taken", message, fields={"name": message}, status=409)
    return name
