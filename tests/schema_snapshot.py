"""The schema of the tables of the product and the rows that migrations made, as lines."""

import hashlib

from django.db.backends.utils import CursorWrapper

OWN = "'^(catalog|designer|notifications|people)_'"
# Without objects of extensions, and without NOT VALID: old code could add a constraint to a large table.
QUERIES = {
    "extensions": "SELECT extname FROM pg_extension",
    "tables": "SELECT relname, relkind, relpersistence, relrowsecurity, reloptions FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'S', 'f')"
    f" AND relname ~ {OWN}",
    # The position without gaps, which dropped columns leave.
    "columns": "SELECT table_name, row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position),"
    " column_name, data_type, udt_name, character_maximum_length, collation_name, is_nullable,"
    " column_default, identity_generation, generation_expression FROM information_schema.columns"
    f" WHERE table_schema = current_schema() AND table_name ~ {OWN}",
    "indexes": f"SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename ~ {OWN}",
    "constraints": "SELECT conrelid::regclass, conname, replace(pg_get_constraintdef(oid), ' NOT VALID', '')"
    " FROM pg_constraint WHERE connamespace = current_schema()::regnamespace"
    f" AND contype IN ('c', 'f', 'p', 'u', 'x') AND conrelid::regclass::text ~ {OWN}",
    "triggers": "SELECT pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE NOT tgisinternal",
    "functions": "SELECT pg_get_functiondef(oid), has_function_privilege('public', oid, 'EXECUTE')"
    " FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND NOT EXISTS ("
    " SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')",
    "rights": "SELECT has_database_privilege('public', current_database(), 'TEMPORARY')",
}


def take(cursor: CursorWrapper) -> dict[str, list[str]]:
    """Return the sorted lines of each kind of object."""
    snapshot = {kind: _lines(cursor, query) for kind, query in QUERIES.items()}
    cursor.execute(
        "SELECT relname, ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = pg_class.oid"
        " AND atttypid = 'timestamptz'::regtype) FROM pg_class"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
        f" AND relname ~ {OWN} ORDER BY relname"
    )
    snapshot["rows"] = [
        f"{table} {line}"
        for table, times in cursor.fetchall()
        for line in _lines(cursor, f'SELECT to_jsonb(r) - %s::text[] FROM "{table}" r', [times])
    ]
    return snapshot


def digests(snapshot: dict[str, list[str]]) -> dict[str, str]:
    return {kind: hashlib.sha256("\n".join(lines).encode()).hexdigest() for kind, lines in snapshot.items()}


def _lines(cursor: CursorWrapper, query: str, parameters: list[object] | None = None) -> list[str]:
    cursor.execute(query, parameters)
    return sorted(" | ".join(str(value) for value in row) for row in cursor.fetchall())
