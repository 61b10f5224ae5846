from django.db import migrations

TABLES = ("designer_release", "designer_export")
FREEZE = [
    f"CREATE TRIGGER {table}_not_truncated BEFORE TRUNCATE ON {table}"
    " FOR EACH STATEMENT EXECUTE FUNCTION pegboard_refuse_change()"
    for table in TABLES
]
THAW = [f"DROP TRIGGER {table}_not_truncated ON {table}" for table in TABLES]


class Migration(migrations.Migration):
    dependencies = [("designer", "0003_teams")]
    operations = [migrations.RunSQL(FREEZE, THAW)]
