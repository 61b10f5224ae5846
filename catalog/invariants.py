"""Claims that must hold in the database, whatever was killed, full or unavailable.

    for breach in invariants.check():
        print(breach)

`check` evaluates the claims of all apps that have a module `invariants` with a tuple `CLAIMS`. It only reads,
and takes seconds with hundreds of thousands of versions (`only=`: the names of some claims). `manage.py
doctor`, the storms of `soak/` and the tests use it. A `Breach` describes what is broken and what to do,
and names some rows.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec
from django.apps import apps
from django.db import connection
from django.utils.module_loading import module_has_submodule

import protocols
from catalog.models import ToolVersion
from catalog.models.runs import ACTIVE
from core import canonical_json, encryption
from protocols import list_pages

EXAMPLES = 5
# The scheduler resumes a run within seconds after its lease. A run that is older than this was not resumed.
UNNOTICED_SECONDS = 60
MAX_IDLE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about the stored data that must hold.

    mend: the next step if it does not hold.
    broken: yields the rows that break it.
    """

    name: str
    statement: str
    mend: str
    broken: Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    """A claim about stored data that does not hold. `examples` are the first few of the `count` things that
    break the claim.
    """

    claim: Claim
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {self.count - len(self.examples):,} more" if self.count > len(self.examples) else ""
        return f"Not so: {self.claim.statement} ({'; '.join(self.examples)}{more}). {self.claim.mend}"


def claims() -> Iterator[Claim]:
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "invariants"):
            yield from import_module(f"{app.name}.invariants").CLAIMS


def check(only: Collection[str] = ()) -> list[BrokenInvariant]:
    """Yield the breaches of all claims. Raises database errors."""
    breaches = []
    for claim in claims():
        if only and claim.name not in only:
            continue
        broken = iter(claim.broken())
        examples = tuple(islice(broken, EXAMPLES))
        if examples:
            breaches.append(BrokenInvariant(claim, len(examples) + sum(1 for _ in broken), examples))
    return breaches


def rows(sql: str, *values: str | int | list[str]) -> Callable[[], Iterator[str]]:
    """Return a function that runs `sql`. Each row is one breach of a claim, named by its only column."""

    def ask() -> Iterator[str]:
        with connection.cursor() as cursor:
            cursor.execute(sql, list(values))
            rows = cursor.fetchall()
        return (str(name) for (name,) in rows)

    return ask


def idle_transactions(seconds: int) -> Callable[[], Iterator[str]]:
    return rows(
        "SELECT 'process ' || pid || ' of ' || usename FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND state LIKE 'idle in transaction%%'"
        " AND state_change < clock_timestamp() - make_interval(secs => %s)",
        seconds,
    )


def _altered_versions() -> Iterator[str]:
    """Yield the versions whose stored document does not match its digest."""
    versions = ToolVersion.objects.order_by("pk").values_list(
        "pk", "tool__endpoint__protocol", "digest", "raw"
    )
    for pk, protocol, digest, raw in versions.iterator(chunk_size=500):
        # Most documents are digested whole.
        if hashlib.sha256(raw.encode()).hexdigest() == digest:
            continue
        outside = protocols.get(protocol).outside_digest
        try:
            document = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.MsgspecError:
            yield f"version {pk}"
            continue
        digested = {member: value for member, value in document.items() if member not in outside}
        revision = protocols.get(protocol).revision
        if not list_pages.is_digest_of(digest, canonical_json.digest(digested), revision):
            yield f"version {pk}"


def _unknown_keys() -> Iterator[str]:
    # Encrypted secrets with a key that this installation does not have.
    try:
        ring_keys = set(encryption.keyring().keys)
    except encryption.KeyringError:
        ring_keys = set()
    for column in encryption.columns():
        used = column.model._default_manager.exclude(**{column.encrypted: ""})
        for key in used.exclude(**{f"{column.key_id}__in": ring_keys}).values_list(column.key_id, flat=True):
            yield f"a secret in {column.name} under the key “{key}”"


CLAIMS = (
    Claim(
        "live_leases",
        "every run that is being read has a worker that says so",
        "Look whether a scheduler runs: it takes such runs up again.",
        rows(
            "SELECT 'run ' || id FROM catalog_run WHERE status = 'running'"
            " AND (lease_until IS NULL OR lease_until < now() - make_interval(secs => %s)) ORDER BY id",
            UNNOTICED_SECONDS,
        ),
    ),
    Claim(
        "one_active_run",
        "an endpoint is read by one run at a time",
        "Report this to Pegboard's makers: an index forbids it.",
        rows(
            "SELECT 'endpoint ' || endpoint_id FROM catalog_run WHERE status = ANY(%s)"
            " GROUP BY endpoint_id HAVING count(*) > 1 ORDER BY endpoint_id",
            list(ACTIVE),
        ),
    ),
    Claim(
        "finished_runs",
        "a run that is over has an end and holds no lease, and one that failed says why",
        "Read the endpoint again.",
        rows(
            "SELECT 'run ' || id FROM catalog_run WHERE status IN ('succeeded', 'failed') AND"
            " (finished_at IS NULL OR lease_until IS NOT NULL OR (status = 'failed') <> (error_code <> ''))"
            " ORDER BY id"
        ),
    ),
    Claim(
        "version_digests",
        "the document of every version is the one that its digest names",
        "Restore the database from a backup: what a vendor said has been changed by hand.",
        _altered_versions,
    ),
    Claim(
        "version_numbers",
        "the versions of every tool are counted without a gap",
        "Restore the database from a backup: versions are missing.",
        rows(
            "SELECT 'tool ' || t.id FROM catalog_tool t"
            " LEFT JOIN (SELECT tool_id, count(*) n, max(ordinal) last FROM catalog_toolversion"
            " GROUP BY tool_id) v ON v.tool_id = t.id"
            " WHERE t.version_count <> coalesce(v.n, 0) OR t.version_count <> coalesce(v.last, 0)"
            " ORDER BY t.id"
        ),
    ),
    Claim(
        "current_versions",
        "the current version of a tool is one of its own, and lists show its words",
        "Read the tool's endpoint again.",
        rows(
            "SELECT 'tool ' || t.id FROM catalog_tool t"
            " LEFT JOIN catalog_toolversion v ON v.id = t.current_id"
            " LEFT JOIN catalog_toolversion s ON s.id = t.stopped_id"
            " WHERE v.tool_id IS DISTINCT FROM t.id OR (s.id IS NOT NULL AND s.tool_id <> t.id)"
            " OR t.name <> v.signature::json ->> 'name' ORDER BY t.id"
        ),
    ),
    Claim(
        "withdrawals",
        "a tool counts as withdrawn exactly while a withdrawal of it is open",
        "Read the tool's endpoint again.",
        rows(
            "SELECT 'tool ' || t.id FROM catalog_tool t WHERE (t.status = 'withdrawn') <> EXISTS ("
            "SELECT FROM catalog_withdrawal w WHERE w.tool_id = t.id AND w.returned_run_id IS NULL)"
            " ORDER BY t.id"
        ),
    ),
    Claim(
        "idle_transactions",
        f"no connection sleeps inside a transaction for more than {MAX_IDLE_SECONDS} seconds",
        "The database ends such a connection after half a minute; tell Pegboard's makers if it comes back.",
        idle_transactions(MAX_IDLE_SECONDS),
    ),
    Claim(
        "ended_sign_ins",
        "a sign-in that is over leaves no token behind",
        "Press “Forget the tokens” on the credential's page.",
        rows(
            "SELECT 'credential ' || credential_id FROM catalog_grant WHERE ended_at IS NOT NULL"
            " AND (access_token <> '' OR refresh_token <> '') ORDER BY credential_id"
        ),
    ),
    Claim(
        "removed_credentials",
        "a credential that was removed leaves neither secret nor token behind",
        "Report this to Pegboard's makers: removing it forgets both.",
        rows(
            "SELECT 'credential ' || c.id FROM catalog_credential c WHERE c.removed_at IS NOT NULL AND"
            " (c.sealed <> '' OR EXISTS (SELECT FROM catalog_grant g WHERE g.credential_id = c.id))"
            " ORDER BY c.id"
        ),
    ),
    Claim(
        "secret_keys",
        "this installation has the key of every secret that it keeps",
        "Put the missing key back into PEGBOARD_KEYS, or enter these secrets again.",
        _unknown_keys,
    ),
)
