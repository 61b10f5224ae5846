"""Compares an agent with its newest release.

This compares two documents. Reading and writing both is too slow for lists, so each result is stored with a
digest of everything that the documents depend on. A result is valid while that digest, computed in one query
each time, is the same: so code that changes an agent need not report it, and no result is out of date.
"""

import hashlib
import inspect
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import QuerySet

from catalog.rules import retries
from core.consistent_read import one_moment
from core.prepared_statements import run_prepared
from designer.agents import transfers
from designer.exports import document as release_document
from designer.models import Agent, Draft, Release
from designer.procedures import references, rendering, vocabulary
from designer.releases import composition
from designer.signatures import effective, model_names, words
from people.models import User
from people.permissions import QueryByRole
from protocols import base, signature

BATCH_SIZE = 100
# Changed code may write another document from the same rows, so older results do not count.
_WRITERS = (
    base,
    signature,
    effective,
    words,
    retries,
    model_names,
    references,
    rendering,
    vocabulary,
    transfers,
    composition,
    release_document,
)
_CODE = hashlib.sha256("".join(map(inspect.getsource, _WRITERS)).encode()).hexdigest()


def have_changed(agents: Sequence[Agent]) -> dict[int, bool]:
    """Return by primary key whether each agent has changed since its newest release.

    An agent without a release has changed if it has a pin or a procedure.
    """
    answers = {row.agent: row.answer for row in _read_stored_results(agents)}
    stale = [agent for agent in agents if answers.get(agent.pk) is None]
    for start in range(0, len(stale), BATCH_SIZE):
        batch = stale[start : start + BATCH_SIZE]
        with one_moment():
            # The inputs are read again, in the same snapshot as the documents.
            input_digests = {row.agent: row.input_digest for row in _read_stored_results(batch)}
            trees = composition.trees(batch)
            releases = Release.objects.filter(agent__in=batch).order_by("agent_id", "-number")
            newest = {
                release.agent_id: release_document.decode(release.document)
                for release in releases.distinct("agent_id")
            }
        compared = {
            pk: not composition.is_same(composition.document(trees[pk], number=0), document)
            for pk, document in sorted(newest.items())
        }
        Draft.objects.bulk_create(
            [
                Draft(agent_id=pk, made_of=input_digests[pk], is_changed=answer)
                for pk, answer in compared.items()
            ],
            update_conflicts=True,
            unique_fields=["agent"],
            update_fields=["made_of", "is_changed"],
        )
        answers |= compared
    return {agent: bool(answer) for agent, answer in answers.items()}


def with_is_changed(agents: Iterable[Agent]) -> list[Agent]:
    """Return the same agents, each with its `is_changed`."""
    rows = list(agents)
    answers = have_changed(rows)
    for agent in rows:
        agent.is_changed = answers[agent.pk]
    return rows


def agents_visible_to(user: User, *, is_archived: bool = False) -> list[Agent]:
    """Return the agents of the user's teams by name, with counts, `is_changed` and their teams."""
    rows = (_ARCHIVED_AGENTS if is_archived else _ACTIVE_AGENTS).rows(user)
    return with_is_changed(sorted(rows, key=lambda agent: (agent.name.casefold(), agent.pk)))


def _agent_rows(user: User) -> QuerySet[Agent]:
    # The reader sorts: the server would sort whole rows with descriptions, and need disk space.
    return Agent.objects.live().visible_to(user).with_counts().select_related("team").order_by()


_ACTIVE_AGENTS: QueryByRole[Agent] = QueryByRole(lambda user: _agent_rows(user).filter(archived_at=None))
_ARCHIVED_AGENTS: QueryByRole[Agent] = QueryByRole(
    lambda user: _agent_rows(user).filter(archived_at__isnull=False)
)


class _StoredResult(NamedTuple):
    """A cached comparison. answer: None if the two documents have not been compared yet."""

    agent: int
    input_digest: str
    answer: bool | None


# A version never changes, so its id is enough. The query also lists every column that `composition` writes
# into the document, of the agent and of all its sub-agents.
_INPUT_DIGESTS = r"""
WITH RECURSIVE tree AS (
    SELECT id AS root, id AS agent, archived_at FROM designer_agent WHERE id = ANY(%(agents)s)
    UNION
    SELECT tree.root, child.id, child.archived_at FROM designer_agent child
    JOIN tree ON child.parent_id = tree.agent
    WHERE child.removed_at IS NULL AND child.archived_at IS NOT DISTINCT FROM tree.archived_at
), node AS MATERIALIZED (
    -- Each becomes a digest before anything is sorted, or whole texts would be sorted on disk.
    SELECT a.id, pins IS NOT NULL OR procedures IS NOT NULL AS holds_something, md5(ROW(
        a.slug, a.name, a.description, a.parent_id, a.retry, pins, procedures, removed, handed, referred
    )::text) AS made_of
    FROM designer_agent a CROSS JOIN LATERAL (
        SELECT array_agg(ROW(t.id, t.tool_id, v.slug, e.url, e.protocol, e.retry,
            p.version_id, p.name, p.retry, p.mode, p.configuration_id,
            everywhere.title, everywhere.description, everywhere.parameters, everywhere.outputs,
            everywhere.effects, here.title, here.description, here.parameters, here.outputs,
            here.effects)::text
            ORDER BY p.id) AS pins
        FROM designer_pin p
        JOIN catalog_tool t ON t.id = p.tool_id
        JOIN catalog_endpoint e ON e.id = t.endpoint_id
        JOIN catalog_vendor v ON v.id = e.vendor_id
        LEFT JOIN designer_tuning everywhere ON everywhere.tool_id = t.id
        LEFT JOIN designer_tuning here ON here.pin_id = p.id
        WHERE p.agent_id = a.id AND p.removed_at IS NULL
    ) pinned CROSS JOIN LATERAL (
        SELECT array_agg(ROW(slug, title, text)::text ORDER BY position, id) AS procedures
        FROM designer_procedure WHERE agent_id = a.id AND removed_at IS NULL
    ) written CROSS JOIN LATERAL (
        SELECT CASE WHEN procedures IS NOT NULL THEN ARRAY(
            SELECT ROW(id, name)::text FROM designer_pin
            WHERE agent_id = a.id AND removed_at IS NOT NULL ORDER BY id
        ) END AS removed
    ) named CROSS JOIN LATERAL (
        SELECT array_agg(ROW(t.child_id, t.name, t.description)::text ORDER BY t.id) AS handed
        FROM designer_transfer t JOIN designer_agent child ON child.id = t.child_id
            AND child.removed_at IS NULL AND child.archived_at IS NOT DISTINCT FROM a.archived_at
        WHERE t.agent_id = a.id
    ) transfers CROSS JOIN LATERAL (
        -- Agents that the procedures name, gone ones too: the text names each by its state. Each is looked up
        -- by itself: a join would read all agents for each one. Split first: that is faster than one
        -- expression over a whole text.
        SELECT array_agg((
            SELECT ROW(g.id, g.slug, g.team_id = a.team_id, g.removed_at IS NOT NULL,
                g.archived_at IS NOT NULL, t.name)::text
            FROM designer_agent g LEFT JOIN designer_transfer t ON t.child_id = g.id WHERE g.id = found.id
        ) ORDER BY found.id) AS referred
        FROM (
            SELECT DISTINCT substring(left(part, 19) FROM '^([0-9]{1,18})\}')::bigint AS id
            FROM designer_procedure p, string_to_table(p.text, '{agent:') part
            WHERE p.agent_id = a.id AND p.removed_at IS NULL AND strpos(p.text, '{agent:') > 0
        ) found WHERE procedures IS NOT NULL AND found.id IS NOT NULL
    ) mentioned WHERE a.id IN (SELECT agent FROM tree)
)
SELECT now.root, now.made_of, CASE
    WHEN now.release IS NULL THEN now.holds_something
    WHEN kept.made_of = now.made_of THEN kept.is_changed END
FROM (
    SELECT tree.root, newest.release, bool_or(node.holds_something) AS holds_something, md5(ROW(
        %(code)s::text, newest.release, array_agg(node.made_of ORDER BY node.id)
    )::text) AS made_of
    FROM tree JOIN node ON node.id = tree.agent CROSS JOIN LATERAL (
        SELECT max(number) AS release FROM designer_release WHERE agent_id = tree.root
    ) newest GROUP BY tree.root, newest.release
) now LEFT JOIN designer_draft kept ON kept.agent_id = now.root
"""


def _read_stored_results(agents: Sequence[Agent]) -> list[_StoredResult]:
    rows = run_prepared(_INPUT_DIGESTS, {"code": _CODE, "agents": [agent.pk for agent in agents]})
    return [_StoredResult(*row) for row in rows]
