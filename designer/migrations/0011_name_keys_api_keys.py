from django.db import migrations, models


class Migration(migrations.Migration):
    """Only the name in Python changes: the column keeps its own, which old code reads and writes."""

    dependencies = [("designer", "0010_lead_from_drafts"), ("people", "0013_call_keys_api_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("keyagent", "one_naming_per_agent"),
                migrations.RenameField("keyagent", "token", "api_key"),
                migrations.AlterField(
                    model_name="keyagent",
                    name="api_key",
                    field=models.ForeignKey(
                        db_column="token_id",
                        on_delete=models.CASCADE,
                        related_name="named",
                        to="people.apikey",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="keyagent",
                    constraint=models.UniqueConstraint(
                        fields=("api_key", "agent"), name="one_naming_per_agent"
                    ),
                ),
            ]
        ),
    ]
