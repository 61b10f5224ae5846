import os
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, ProgrammingError, connection, transaction
from psycopg import sql

# Append-only tables have a trigger of this name against TRUNCATE; no other table has one.
FROZEN = r"SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE '%\_not\_truncated' ORDER BY 1"
# Written by triggers, by migrations and by the command `erase_user` alone.
OWNERS = ("people_audithead", "people_erasedentry", "django_migrations")
# Read by triggers alone.
HIDDEN = ("designer_publishingcheck",)
TRAIL = "people_auditentry"
# An administrator may have put other relations into the schema, such as the views of an extension.
OWN_RELATIONS = (
    "SELECT relkind::text, relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relkind IN ('r', 'p', 'v', 'm', 'S') AND pg_has_role(relowner, 'USAGE') ORDER BY 1, 2"
)
RIGHTS = (
    "SELECT has_database_privilege(%(role)s, current_database(), 'CONNECT')"
    " AND has_database_privilege(%(role)s, current_database(), 'TEMPORARY'),"
    " has_schema_privilege(%(role)s, current_schema(), 'USAGE'),"
    " has_schema_privilege(%(role)s, current_schema(), 'CREATE')"
)
# The parameters of a connection that state where the server is.
ADDRESS = ("host", "port", "dbname", "connect_timeout", "sslmode", "sslrootcert")
# The owner of the tables runs these for the role after granting. Apps register them when the product starts.
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
                _create_role(name, os.environ.get(password_from, ""))
                _grant(name, read_only)
                for step in FOR_THE_ROLE:
                    step()
        except DatabaseError as error:
            raise CommandError(f"PostgreSQL refused: {error}") from error
        self.stdout.write(f"{name} may use the product's tables and change nothing that is append-only.")


def _create_role(name: str, password: str) -> None:
    """Create the role, or add the privileges that it lacks. An owner without CREATEROLE needs a role that
    exists.
    """
    role = sql.Identifier(name)
    row = _rows(
        "SELECT rolsuper OR pg_has_role(rolname, current_user, 'MEMBER'),"
        " rolcanlogin AND NOT (rolcreatedb OR rolcreaterole) FROM pg_roles WHERE rolname = %(role)s",
        {"role": name},
    )
    if row and row[0][0]:
        raise CommandError(f"{name} owns the tables or may do everything. Choose another name.")
    if not row:
        _change(sql.SQL("CREATE ROLE {} LOGIN").format(role), f"CREATE ROLE {name} LOGIN PASSWORD '...'")
    elif not row[0][1]:
        rights = "LOGIN NOCREATEDB NOCREATEROLE"
        _change(sql.SQL("ALTER ROLE {} " + rights).format(role), f"ALTER ROLE {name} {rights}")
    if password and not (row and _can_sign_in(name, password)):
        literal = sql.Literal(password)
        _change(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, literal), f"ALTER ROLE {name} PASSWORD '...'"
        )


def _change(statement: sql.Composed, shown: str) -> None:
    """Run a statement about roles. Raises CommandError with `shown` for a user who may not."""
    try:
        with transaction.atomic():
            _run(statement)
    except DatabaseError as error:
        if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            raise
        ((owner,),) = _rows("SELECT session_user")
        raise CommandError(
            f"The role {owner} may not create or change roles. Have an administrator of PostgreSQL run this, "
            f"and repeat the command: {shown}"
        ) from error


def _can_sign_in(name: str, password: str) -> bool:
    parameters = connection.get_connection_params()
    address = {key: parameters[key] for key in ADDRESS if parameters.get(key)}
    try:
        psycopg.connect(**address, user=name, password=password).close()
    except psycopg.OperationalError:
        return False
    return True


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
    ):
        # PostgreSQL only warns an owner of the tables who owns neither database nor schema, or refuses.
        with suppress(ProgrammingError), transaction.atomic():
            _run(sql.SQL(statement).format(database=database, place=place, role=role))
    _check_rights(name, connection.settings_dict["NAME"], schema)
    for kind, relation in _rows(OWN_RELATIONS):
        table = sql.Identifier(schema, relation)
        _run(sql.SQL("REVOKE ALL ON {} FROM {}").format(table, role))
        rights = "USAGE, SELECT" if kind == "S" else "SELECT, INSERT, UPDATE, DELETE"
        _run(sql.SQL("GRANT " + rights + " ON {} TO {}").format(table, role))
    for (table_name,) in _rows(FROZEN):
        _revoke("UPDATE, DELETE", table_name, role)
    for table_name in OWNERS:
        _revoke("INSERT, UPDATE, DELETE", table_name, role)
    for table_name in HIDDEN:
        _revoke("ALL", table_name, role)
    for table_name in connection.introspection.table_names():
        if table_name.startswith(tuple(f"{app}_" for app in read_only)):
            _revoke("UPDATE, DELETE" if table_name == TRAIL else "INSERT, UPDATE, DELETE", table_name, role)


def _check_rights(name: str, database: str, schema: str) -> None:
    """Raise CommandError with the statements that the owner of the database has to run."""
    ((may_connect, may_use, may_create),) = _rows(RIGHTS, {"role": name})
    missing = []
    if not may_connect:
        missing.append(f'GRANT CONNECT, TEMPORARY ON DATABASE "{database}" TO {name};')
    if not may_use:
        missing.append(f'GRANT USAGE ON SCHEMA "{schema}" TO {name};')
    if may_create:
        missing.append(f'REVOKE CREATE ON SCHEMA "{schema}" FROM PUBLIC, {name};')
    if missing:
        raise CommandError(
            f"Have the owner of the database run this, and repeat the command: {' '.join(missing)}"
        )


def _revoke(rights: str, table: str, role: sql.Identifier) -> None:
    _run(sql.SQL("REVOKE {} ON {} FROM {}").format(sql.SQL(rights), sql.Identifier(table), role))


def _run(statement: sql.Composed) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _rows(statement: str, values: dict[str, str] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
