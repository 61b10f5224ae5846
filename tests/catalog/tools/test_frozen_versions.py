"""Twenty ways to change a stored version with SQL, as the owner of the tables, who may do most (V1)."""

import pytest
from django.db import DatabaseError, connection, transaction

from catalog.models import ToolVersion
from tests.factories import make_tool, make_version

pytestmark = pytest.mark.django_db
TABLE = "catalog_toolversion"
UPDATES = [
    "UPDATE {table} SET signature = '{{}}'",
    "UPDATE {table} SET raw = raw || ' '",
    "UPDATE {table} SET digest = repeat('0', 64)",
    "UPDATE {table} SET label = '9'",
    "UPDATE {table} SET label_key = '{{9}}'",
    "UPDATE {table} SET ordinal = ordinal + 10",
    "UPDATE {table} SET id = id + 1000",
    "UPDATE {table} SET tool_id = (SELECT max(id) FROM catalog_tool)",
    "UPDATE {table} SET signature = signature",
    "UPDATE {table} SET raw = NULL",
    "UPDATE ONLY {table} SET raw = ''",
    "UPDATE public.{table} AS v SET raw = '' WHERE v.ordinal = 1",
    "UPDATE {table} SET raw = t.name FROM catalog_tool t WHERE t.id = catalog_toolversion.tool_id",
    "UPDATE {table} SET raw = '' WHERE ctid = (SELECT min(ctid) FROM {table})",
    "WITH done AS (UPDATE {table} SET raw = '' RETURNING id) SELECT count(*) FROM done",
    "INSERT INTO {table} SELECT * FROM {table} ON CONFLICT (id) DO UPDATE SET raw = ''",
    "MERGE INTO {table} v USING catalog_tool t ON t.id = v.tool_id WHEN MATCHED THEN UPDATE SET raw = ''",
    "DO $$ BEGIN EXECUTE 'UPDATE {table} SET raw = ''x'''; END $$",
    "DELETE FROM {table}",
    "MERGE INTO {table} v USING catalog_tool t ON t.id = v.tool_id WHEN MATCHED THEN DELETE",
    "WITH gone AS (DELETE FROM {table} RETURNING *) INSERT INTO {table} SELECT * FROM gone",
]


@pytest.mark.parametrize("statement", UPDATES, ids=range(1, len(UPDATES) + 1))
def test_no_statement_changes_a_stored_version(statement):
    tool = make_tool()
    make_version(tool)
    before = list(ToolVersion.objects.order_by("pk").values())

    refusal = pytest.raises(DatabaseError, match="never change")
    with refusal, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table=TABLE))

    assert list(ToolVersion.objects.order_by("pk").values()) == before


def test_nor_does_the_model():
    version = make_tool().current
    with pytest.raises(DatabaseError), transaction.atomic():
        ToolVersion.objects.filter(pk=version.pk).update(raw="")
    version.raw = ""
    with pytest.raises(DatabaseError), transaction.atomic():
        version.save()
