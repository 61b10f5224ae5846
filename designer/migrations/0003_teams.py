import django.db.models.deletion
from django.db import migrations, models

import people.models

FILL = """
UPDATE designer_agent SET team_id = (SELECT id FROM people_team WHERE is_everyone);
SET CONSTRAINTS ALL IMMEDIATE;
"""
# Before the entries are chained: which agent each one is about.
FILL_AUDIT = """
ALTER TABLE people_auditentry DISABLE TRIGGER people_auditentry_frozen;
UPDATE people_auditentry SET agent = object_id::bigint WHERE kind = 'agent';
UPDATE people_auditentry SET agent = p.agent_id FROM designer_pin p
    WHERE kind = 'pin' AND object_id = p.id::text;
UPDATE people_auditentry SET agent = r.agent_id FROM designer_release r
    WHERE kind = 'release' AND object_id = r.id::text;
ALTER TABLE people_auditentry ENABLE TRIGGER people_auditentry_frozen;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0002_freeze_releases"),
        ("people", "0004_teams_and_what_is_chained"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="team",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="agents",
                to="people.team",
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(FILL_AUDIT, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="agent",
            name="team",
            field=models.ForeignKey(
                default=people.models.everyone_pk,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="agents",
                to="people.team",
            ),
        ),
    ]
