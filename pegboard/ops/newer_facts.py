"""Finds the releases, keys and audit entries that were written after a restored backup was made.

Runtimes may already use a release that the backup does not contain, so its number is never given again
(Agent.numbers_used).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from django.db import connection, transaction
from django.db.models import Max

from designer.models import Agent, Release
from pegboard.server_addresses import DatabaseAddress
from people import audit
from people.models import ApiKey, AuditEntry

# Used if it is unknown what came after the backup: more releases than an agent gets between two backups.
GAP = 1000
MAX_LISTED = 20
_RELEASES = """
    SELECT release.agent_id, agent.slug, release.number
    FROM designer_release release JOIN designer_agent agent ON agent.id = release.agent_id
"""


@dataclass(frozen=True, slots=True)
class NewerFacts:
    """Rows that the replaced database contains and the restored one does not.

    releases: slug of the agent and number; keys: names of API keys; audit_entries: how many.
    numbers: the newest number of each agent by its primary key, those of lost releases included.
    """

    releases: Sequence[tuple[str, int]] = ()
    keys: Sequence[str] = ()
    audit_entries: int = 0
    numbers: dict[int, int] = field(default_factory=dict)

    def sentences(self) -> Iterator[str]:
        if self.releases:
            names = [f"{slug} {number}" for slug, number in self.releases]
            yield f"Not in this backup: {_join_names('release', names)}. Their numbers are not given again."
        if self.keys:
            yield f"Not in this backup: {_join_names('API key', self.keys)}. Make them again."
        if self.audit_entries:
            yield f"Not in this backup: {self.audit_entries:,} newer audit entries."


def read_newer_facts(replaced_database: DatabaseAddress) -> NewerFacts:
    """Compare the restored database with the one that it replaces. Raises psycopg.Error."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASES)
        known_releases = set(cursor.fetchall())
    known_keys = set(ApiKey.objects.values_list("pk", flat=True))
    last_entry = AuditEntry.objects.aggregate(last=Max("pk"))["last"] or 0
    with psycopg.connect(**replaced_database.parameters()) as old:
        releases = old.execute(f"{_RELEASES} ORDER BY agent.slug, release.number").fetchall()
        keys = old.execute("SELECT id, name FROM people_apitoken ORDER BY id").fetchall()
        entries = old.execute("SELECT count(*) FROM people_auditentry WHERE id > %s", [last_entry]).fetchone()
    numbers: dict[int, int] = {}
    for agent, _, number in releases:
        numbers[agent] = max(number, numbers.get(agent, 0))
    return NewerFacts(
        releases=[row[1:] for row in releases if row not in known_releases],
        keys=[name for key, name in keys if key not in known_keys],
        audit_entries=entries[0] if entries else 0,
        numbers=numbers,
    )


def newest_entry() -> datetime | None:
    """Return the time of the last audit entry of this database."""
    return AuditEntry.objects.order_by("-pk").values_list("at", flat=True).first()


@transaction.atomic
def reserve_numbers(newest: dict[int, int] | None) -> None:
    """Give no release number again that may be in use.

    newest: the newest number of each agent by its primary key. None: it is not known, so each agent that has
    published leaves a gap of GAP numbers.
    """
    last_numbers = Release.objects.order_by().values_list("agent").annotate(last=Max("number"))
    for agent, last in last_numbers:
        number = last + GAP if newest is None else newest.get(agent, last)
        row = Agent.objects.select_for_update(no_key=True).get(pk=agent)
        used = row.numbers_used
        if number <= max(last, used):
            continue
        row.numbers_used = number
        row.save(update_fields=["numbers_used"])
        audit.record(
            None,
            "edit",
            row,
            before={"numbers_used": used},
            after={"numbers_used": number},
            why="The database was restored from a backup. Newer releases may be in use.",
            agent=agent,
        )


def _join_names(noun: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return f"{noun}{'' if len(names) == 1 else 's'} {', '.join(names[:MAX_LISTED])}{more}"
