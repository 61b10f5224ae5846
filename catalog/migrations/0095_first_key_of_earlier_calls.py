from django.db import migrations

# A call that was continued, or run as a step, before `first_key` was stored. Each pass fills one more level.
_FILL = """
    UPDATE catalog_call AS call SET first_key = coalesce(origin.first_key, origin.token_id, 0)
    FROM catalog_call AS origin
    WHERE origin.id = coalesce(call.continues_id, call.parent_id)
        AND call.first_key IS NULL
        AND coalesce(call.token_id, 0) <> coalesce(origin.first_key, origin.token_id, 0)
"""


def fill(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_FILL)
        while cursor.rowcount:
            cursor.execute(_FILL)


class Migration(migrations.Migration):
    dependencies = [("catalog", "0094_examples_of_teams")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
