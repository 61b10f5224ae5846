from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0035_find_runs_with_changes")]

    operations = [
        migrations.AddField(
            model_name="vendor",
            name="renamed_at",
            field=models.DateTimeField(
                editable=False, help_text="What the search index compares.", null=True
            ),
        ),
        migrations.AddField(
            model_name="searchdocument",
            name="renamed_at",
            field=models.DateTimeField(help_text="That of the vendor whose name was indexed.", null=True),
        ),
    ]
