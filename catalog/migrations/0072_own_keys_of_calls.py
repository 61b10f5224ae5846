import uuid

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


def concurrent_unique_index(name: str, columns: str, condition: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON catalog_thread ({columns}) WHERE {condition}",
        f"DROP INDEX CONCURRENTLY {name}",
    )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0071_pin_callees")]

    operations = [
        migrations.AddField("call", "idempotency_key", models.CharField(max_length=255, null=True)),
        AddIndexConcurrently(
            "call",
            models.Index(
                fields=["idempotency_key", "-id"],
                condition=Q(("idempotency_key__isnull", False)),
                name="call_by_idempotency_key",
            ),
        ),
        # Each owner's keys are unique before those of all owners together need not be any more.
        migrations.SeparateDatabaseAndState(
            [
                concurrent_unique_index("one_thread_per_key_in_agent", "agent, key", "agent IS NOT NULL"),
                concurrent_unique_index("one_tried_thread_per_key", "requested_by_id, key", "agent IS NULL"),
            ],
            [
                migrations.AddConstraint(
                    "thread",
                    models.UniqueConstraint(
                        fields=["agent", "key"],
                        condition=Q(("agent__isnull", False)),
                        name="one_thread_per_key_in_agent",
                    ),
                ),
                migrations.AddConstraint(
                    "thread",
                    models.UniqueConstraint(
                        fields=["requested_by", "key"],
                        condition=Q(("agent__isnull", True)),
                        name="one_tried_thread_per_key",
                    ),
                ),
            ],
        ),
        migrations.AlterField("thread", "key", models.UUIDField(default=uuid.uuid4, editable=False)),
    ]
