from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False  # an index is built beside its users outside of a transaction only

    dependencies = [
        ("catalog", "0033_show_tuned_words"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="finding",
            index=models.Index(
                models.Case(
                    models.When(severity="high", code="HELD", then=5),
                    models.When(severity="high", then=6),
                    models.When(severity="medium", code="HELD", then=3),
                    models.When(severity="medium", then=4),
                    models.When(code="HELD", then=1),
                    default=2,
                    output_field=models.SmallIntegerField(),
                ).desc(),
                models.F("id").desc(),
                name="finding_by_weight",
            ),
        ),
    ]
