import uuid

from django.db import migrations, models
from django.db.models import Q

from core.migration_operations import (
    AddFieldIfMissing,
    AddIndexConcurrently,
    AddUniqueConstraintConcurrently,
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("catalog", "0071_pin_callees")]

    operations = [
        AddFieldIfMissing("call", "idempotency_key", models.CharField(max_length=255, null=True)),
        AddIndexConcurrently(
            "call",
            models.Index(
                fields=["idempotency_key", "-id"],
                condition=Q(("idempotency_key__isnull", False)),
                name="call_by_idempotency_key",
            ),
        ),
        # Each owner's keys are unique before those of all owners together need not be any more.
        AddUniqueConstraintConcurrently(
            "thread",
            models.UniqueConstraint(
                fields=["agent", "key"],
                condition=Q(("agent__isnull", False)),
                name="one_thread_per_key_in_agent",
            ),
        ),
        AddUniqueConstraintConcurrently(
            "thread",
            models.UniqueConstraint(
                fields=["requested_by", "key"],
                condition=Q(("agent__isnull", True)),
                name="one_tried_thread_per_key",
            ),
        ),
        migrations.AlterField("thread", "key", models.UUIDField(default=uuid.uuid4, editable=False)),
    ]
