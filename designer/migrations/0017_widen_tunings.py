import json

from django.db import migrations, models


def keep_replaced(apps, schema_editor):
    """What the vendor said where we wrote words of our own, out of the version that they were written against."""
    for tuning in apps.get_model("designer", "Tuning").objects.select_related("against").iterator(100):
        signature = json.loads(tuning.against.signature)
        theirs = {each["name"]: each["description"] for each in signature.get("inputs", ())}
        parameters = {
            name: {"description": theirs[name]}
            for name, ours in tuning.parameters.items()
            if "description" in ours and name in theirs
        }
        tuning.replaced = {"parameters": parameters} if parameters else {}
        if tuning.description is not None:
            tuning.replaced["description"] = signature["description"]
        tuning.save(update_fields=["replaced"])


class Migration(migrations.Migration):
    dependencies = [
        ("designer", "0016_sign_and_note_fetches"),
    ]

    operations = [
        migrations.AddField(
            model_name="tuning",
            name="effects",
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="tuning",
            name="outputs",
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="tuning",
            name="replaced",
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="tuning",
            name="title",
            field=models.TextField(null=True),
        ),
        migrations.RunPython(keep_replaced, migrations.RunPython.noop),
    ]
