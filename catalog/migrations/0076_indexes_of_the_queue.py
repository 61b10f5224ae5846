from django.db import migrations, models
from django.db.models.functions import Coalesce

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0075_find_versions_by_label"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                Coalesce("api_key", models.F("requested_by") * models.Value(-1), models.Value(0)),
                "queued_at",
                "id",
                condition=models.Q(("status", "queued")),
                name="call_by_owner",
            ),
        ),
        AddIndexConcurrently(
            model_name="call",
            index=models.Index(
                fields=["gives_up_at"],
                condition=models.Q(("sent_at__isnull", False), ("status", "running")),
                name="call_at_worker",
            ),
        ),
    ]
