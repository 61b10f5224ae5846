"""The database and the broker: whether they answer, and whether they are set up as the product needs them."""

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations import AddConstraint, AddIndex
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from core import encryption, proxy_signs, redis_client
from core.migration_history import describe_outdated_database, find_missing_replaced_migrations
from core.own_commands import MANAGE
from pegboard import pooler
from pegboard.ops.doctor.frame import DoctorLimits, Fact, Trouble, check
from pegboard.ops.doctor.setup import LOOPBACK_NAMES, disk_paths, low_disk

# 15.0, as the server writes its version in one number.
MIN_POSTGRES = 150_000
EXTENSIONS = ("pg_trgm",)
KEEPS_EVERYTHING = "noeviction"
NEARLY_FULL = 0.9


@check("database", "the database answers")
def database(limits: DoctorLimits) -> Iterator[Trouble]:
    try:
        _query_value("SELECT 1")
    except DatabaseError as exc:
        connection.close()
        yield Trouble(
            f"The database does not answer: {_first_line(exc)}",
            "Nothing works without it.",
            "Start PostgreSQL, and see whether DATABASE_URL names it.",
        )


@check("postgres_version", "PostgreSQL is new enough", after=("database",))
def postgres_version(limits: DoctorLimits) -> Iterator[Trouble]:
    version = connection.cursor().connection.info.server_version
    if version < MIN_POSTGRES:
        yield Trouble(
            f"PostgreSQL is of version {version // 10_000}.",
            "Pegboard uses what came with version 15.",
            "Move the data to PostgreSQL 15 or newer with pg_dump and pg_restore.",
        )


@check("migrations", "the database has the shape that this version of the product needs", after=("database",))
def migrations(limits: DoctorLimits) -> Iterator[Trouble]:
    if missing := find_missing_replaced_migrations(connection):
        yield Trouble(
            f"The database is too old for this version: {len(missing)} earlier migrations have not run.",
            "Pages and workers fail where they meet what is missing.",
            describe_outdated_database(missing),
        )
        return
    executor = MigrationExecutor(connection)
    if pending := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        names = ", ".join(f"{step.app_label} {step.name}" for step, _ in pending[:3])
        yield Trouble(
            f"{len(pending)} migrations have not run: {names}{' …' if len(pending) > 3 else ''}.",
            "Pages and workers fail where they meet what is missing.",
            f"Run {MANAGE} migrate, then start web, workers and scheduler again.",
        )


@check(
    "extensions",
    "the extensions of PostgreSQL that search needs are installed",
    after=("database", "migrations"),
)
def extensions(limits: DoctorLimits) -> Iterator[Trouble]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extname FROM pg_extension")
        installed = {name for (name,) in cursor.fetchall()}
    for name in EXTENSIONS:
        if name not in installed:
            yield Trouble(
                f"The extension {name} is missing.",
                "Search fails.",
                f"As the owner of the database: CREATE EXTENSION {name};",
            )


# Those that are being built now are not invalid yet.
INVALID_INDEXES = """
SELECT index.oid::regclass::text, index.relname
FROM pg_index JOIN pg_class index ON index.oid = indexrelid
WHERE NOT indisvalid AND pg_table_is_visible(indrelid)
AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index progress WHERE progress.index_relid = indexrelid)
ORDER BY 1
"""
# REINDEX CONCURRENTLY names the index that it builds, and the one that it replaces, so.
LEFT_BY_REINDEX = re.compile(r"_cc(new|old)\d*$")


@check("indexes", "every index is complete", after=("database",))
def indexes(limits: DoctorLimits) -> Iterator[Trouble]:
    with connection.cursor() as cursor:
        cursor.execute(INVALID_INDEXES)
        invalid = cursor.fetchall()
    # The indexes that pending migrations add.
    pending: set[str] = set()
    if invalid and not find_missing_replaced_migrations(connection):
        executor = MigrationExecutor(connection)
        for migration, _is_backwards in executor.migration_plan(executor.loader.graph.leaf_nodes()):
            for operation in migration.operations:
                if isinstance(operation, AddIndex):
                    pending.add(operation.index.name)
                elif isinstance(operation, AddConstraint):
                    pending.add(operation.constraint.name)
    for identifier, name in invalid:
        if name in pending:
            act = f"Run {MANAGE} migrate again: it drops what is left of the index and builds it."
        elif LEFT_BY_REINDEX.search(name):
            act = f"As the owner of the database: DROP INDEX CONCURRENTLY {identifier};"
        else:
            act = f"As the owner of the database: REINDEX INDEX CONCURRENTLY {identifier};"
        yield Trouble(
            f"The index {name} is invalid: its build was interrupted.",
            "Every write maintains it, and no query uses it.",
            act,
        )


@check("database_clock", "the database's clock and ours agree", after=("database",))
def database_clock(limits: DoctorLimits) -> Iterator[Trouble]:
    yield from _clock_skew("database", _query_value("SELECT extract(epoch FROM clock_timestamp())"), limits)


@check("statement_timeout", "the database ends what takes too long", after=("database",))
def statement_timeout(limits: DoctorLimits) -> Iterator[Trouble]:
    if _query_value("SELECT current_setting('statement_timeout')") == "0":
        yield Trouble(
            "No time limit holds for statements on our connections.",
            "One slow question can keep every page waiting.",
            "Take statement_timeout out of the options of DATABASE_URL.",
        )


@check("pooler", "connections are safe, with a pooler in front of PostgreSQL or without", after=("database",))
def pooler_mode(limits: DoctorLimits) -> Iterator[Trouble | Fact]:
    mode = pooler.find_mode()
    if mode == "statement":
        yield Trouble(
            "The pooler in front of PostgreSQL is in statement mode.",
            "It allows no transactions, and Pegboard writes in transactions.",
            "Set pool_mode = transaction in its configuration.",
        )
    elif mode == "none":
        yield Fact("There is no pooler: each connection has a session of PostgreSQL to itself.")
    else:
        yield Fact(
            f"A pooler in {mode} mode is in front of PostgreSQL. This is safe: Pegboard leaves no prepared "
            "statement and no setting behind in a session."
        )


@check("connections", "the database has connections to spare", after=("database",))
def connections(limits: DoctorLimits) -> Iterator[Trouble]:
    used = _query_value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    limit = _query_value("SELECT current_setting('max_connections')::int")
    if used > limit * NEARLY_FULL:
        yield Trouble(
            f"{used} of {limit} connections to the database are in use.",
            "The next process that asks for one is refused.",
            "Raise max_connections, put a pooler in front, or run fewer web and worker processes.",
        )


@check(
    "audit_role",
    "the product's own database role cannot rewrite the audit trail",
    after=("database", "migrations"),
    deployed=True,
)
def audit_role(limits: DoctorLimits) -> Iterator[Trouble]:
    may = "has_table_privilege(current_user, 'people_auditentry', '%s')"
    if _query_value(f"SELECT {may % 'UPDATE'} OR {may % 'DELETE'} OR {may % 'TRUNCATE'}"):
        yield Trouble(
            "The role that Pegboard signs in with may change the audit trail.",
            "An attacker in a process of Pegboard could then hide what they did.",
            "Let migrations run as the owner and the product as a role of its own: docs/operations.md.",
        )


@check(
    "database_disk",
    "there is room on the disk of the database, if it is on this machine",
    after=("database",),
)
def database_disk(limits: DoctorLimits) -> Iterator[Trouble]:
    host = str(connection.settings_dict["HOST"])
    if host and not host.startswith("/") and host not in LOOPBACK_NAMES:
        return
    with connection.cursor() as cursor:
        # Only roles that may read all settings find it.
        cursor.execute("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
        rows = cursor.fetchall()
    others = {path.stat().st_dev for path in disk_paths()}
    for path in (Path(setting) for (setting,) in rows):
        # A tunnel on this machine may connect to a server elsewhere.
        if path.exists() and path.stat().st_dev not in others:
            yield from low_disk(path, limits)


@check("secret_keys", "every stored secret can be decrypted", after=("database", "migrations", "keys"))
def secret_keys(limits: DoctorLimits) -> Iterator[Trouble]:
    for key_id, count in sorted(encryption.missing_keys(encryption.keyring()).items()):
        yield Trouble(
            f"{count:,} stored secrets are encrypted under the key “{key_id}”, which is not there.",
            "Endpoints that use them cannot be read.",
            f"Put the key back into PEGBOARD_KEYS. If it is lost: {MANAGE} rotate_keys --forget {key_id}",
        )


@check("broker", "the broker answers")
def broker_answers(limits: DoctorLimits) -> Iterator[Trouble]:
    try:
        redis_client.client().ping()
    except redis.RedisError as exc:
        yield Trouble(
            f"The broker does not answer: {_first_line(exc)}",
            "Pages work, and enumeration and calls wait.",
            "Start Redis or Valkey, and see whether REDIS_URL names it.",
        )


@check("proxy", "the proxy in front sends what the settings announce", after=("broker",), deployed=True)
def proxy(limits: DoctorLimits) -> Iterator[Trouble]:
    for sign in proxy_signs.read_mismatches(proxies=settings.NUM_PROXIES, is_https=settings.HTTPS):
        mismatch = proxy_signs.MISMATCHES[sign]
        yield Trouble(mismatch.observation, mismatch.reason, mismatch.act)


@check("broker_evicts", "the broker keeps what it is given", after=("broker",))
def broker_evicts(limits: DoctorLimits) -> Iterator[Trouble]:
    policy = redis_client.client().info("memory").get("maxmemory_policy", KEEPS_EVERYTHING)
    if policy != KEEPS_EVERYTHING:
        yield Trouble(
            f"The broker throws messages away when its memory is full (maxmemory-policy {policy}).",
            "Enumeration runs and calls then start late, and counters are lost.",
            f"Set maxmemory-policy {KEEPS_EVERYTHING}, and give Pegboard a broker of its own.",
        )


@check("broker_memory", "the broker has memory to spare", after=("broker",))
def broker_memory(limits: DoctorLimits) -> Iterator[Trouble]:
    memory = redis_client.client().info("memory")
    used, limit = memory.get("used_memory", 0), memory.get("maxmemory", 0)
    if limit and used > limit * NEARLY_FULL:
        yield Trouble(
            f"The broker uses {used / limit:.0%} of the memory it may use.",
            "When it is full, no message can be sent.",
            "Give it more with maxmemory, or see what else uses it.",
        )


@check("broker_clock", "the broker's clock and ours agree", after=("broker", "database_clock"))
def broker_clock(limits: DoctorLimits) -> Iterator[Trouble]:
    seconds, micros = redis_client.client().time()
    yield from _clock_skew("broker", seconds + micros / 1_000_000, limits)


def _clock_skew(server: str, server_timestamp: float, limits: DoctorLimits) -> Iterator[Trouble]:
    ahead = float(server_timestamp) - time.time()
    if abs(ahead) > limits.skew_seconds:
        how = "ahead of" if ahead > 0 else "behind"
        server_time = timezone.now() + timedelta(seconds=ahead)
        yield Trouble(
            f"The {server}'s clock is {abs(ahead):.0f} seconds {how} ours: {server_time:%H:%M:%S} UTC there.",
            "Leases, tokens and schedules are judged by more than one clock.",
            "Let both machines keep their time by NTP.",
        )


def _query_value(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def _first_line(error: Exception) -> str:
    # Without a password, which no driver's first line holds.
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
