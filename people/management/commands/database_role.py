import os
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, ProgrammingError, connection, transaction
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

# Append-only tables have a trigger of this name against TRUNCATE; no other table has one.
FROZEN = r"SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE '%\_not\_truncated' ORDER BY 1"
# Written by triggers, by migrations and by the command `erase_user` alone.
OWNERS = ("people_audithead", "people_erasedentry", "django_migrations")
# Read by triggers alone.
HIDDEN = ("designer_publishingcheck",)
TRAIL = "people_auditentry"
# What the owner of the tables does for the role beside granting: registered by apps when the product starts.
FOR_THE_ROLE: list[Callable[[], object]] = []


class Command(BaseCommand):
    help = (
        "Make the PostgreSQL role under which web, workers and scheduler run: it may not change the audit"
        " trail, versions, releases and exports, nor the tables themselves. Run it as their owner, after"
        " each migrate."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the role; made if there is none")
        parser.add_argument(
            "--password-from",
            default="",
            metavar="VARIABLE",
            help="the environment variable with its password",
        )
        parser.add_argument(
            "--read-only",
            action="append",
            default=[],
            choices=["designer", "people"],
            help="an app whose tables it only reads, for workers; the trail takes their entries all the same",
        )

    def handle(
        self, *args: object, name: str, password_from: str, read_only: list[str], **options: object
    ) -> None:
        if password_from and not os.environ.get(password_from):
            raise CommandError(f"{password_from} is empty.")
        try:
            with transaction.atomic():
                _make(name, os.environ.get(password_from, ""))
                _grant(name, read_only)
                for step in FOR_THE_ROLE:
                    step()
        except DatabaseError as error:
            raise CommandError(f"PostgreSQL refused: {error}") from error
        self.stdout.write(f"{name} may use the product's tables and change nothing that is append-only.")


def _make(name: str, password: str) -> None:
    """Create the role, or give it its rights. An owner without CREATEROLE needs a role that exists."""
    role = sql.Identifier(name)
    row = _rows(
        "SELECT rolsuper OR rolname = current_user, rolcanlogin AND NOT (rolcreatedb OR rolcreaterole)"
        " FROM pg_roles WHERE rolname = %s",
        [name],
    )
    if row and row[0][0]:
        raise CommandError(f"{name} owns the tables or may do everything. Choose another name.")
    statements = [] if row else [sql.SQL("CREATE ROLE {}").format(role)]
    if not row or not row[0][1]:
        statements.append(sql.SQL("ALTER ROLE {} LOGIN NOCREATEDB NOCREATEROLE").format(role))
    if password:
        statements.append(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(password)))
    try:
        with transaction.atomic():
            for statement in statements:
                _run(statement)
    except ProgrammingError as error:
        if not isinstance(error.__cause__, InsufficientPrivilege):
            raise
        raise CommandError(_without_createrole(name, is_there=bool(row))) from error


def _without_createrole(name: str, *, is_there: bool) -> str:
    ((owner,),) = _rows("SELECT session_user")
    if is_there:
        return (
            f"The role {owner} may not change roles. Call this command without --password-from, and have an "
            f"administrator of PostgreSQL run: ALTER ROLE {name} LOGIN NOCREATEDB NOCREATEROLE PASSWORD '...'"
        )
    return (
        f"The role {owner} may not create roles. Call this command without --password-from, after an "
        f"administrator of PostgreSQL has run: CREATE ROLE {name} LOGIN PASSWORD '...'"
    )


def _grant(name: str, read_only: list[str]) -> None:
    role = sql.Identifier(name)
    database = sql.Identifier(connection.settings_dict["NAME"])
    ((schema,),) = _rows("SELECT current_schema()")
    place = sql.Identifier(schema)
    for statement in (
        # A restored database grants it to PUBLIC again. Workers need it: an enumeration is copied into a
        # temporary table first.
        "REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
        "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role}",
        "GRANT USAGE ON SCHEMA {place} TO {role}",
        "REVOKE CREATE ON SCHEMA {place} FROM PUBLIC, {role}",
        "REVOKE ALL ON ALL TABLES IN SCHEMA {place} FROM {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {place} TO {role}",
        "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {place} TO {role}",
    ):
        _run(sql.SQL(statement).format(database=database, place=place, role=role))
    for (table,) in _rows(FROZEN):
        _take("UPDATE, DELETE", table, role)
    for table in OWNERS:
        _take("INSERT, UPDATE, DELETE", table, role)
    for table in HIDDEN:
        _take("ALL", table, role)
    for table in connection.introspection.table_names():
        if table.startswith(tuple(f"{app}_" for app in read_only)):
            _take("UPDATE, DELETE" if table == TRAIL else "INSERT, UPDATE, DELETE", table, role)


def _take(rights: str, table: str, role: sql.Identifier) -> None:
    _run(sql.SQL("REVOKE {} ON {} FROM {}").format(sql.SQL(rights), sql.Identifier(table), role))


def _run(statement: sql.Composed) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _rows(statement: str, values: list[str] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
