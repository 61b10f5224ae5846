from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0036_compare_names_of_vendors")]

    operations = [
        migrations.AddField(
            model_name="toolversion",
            name="alarms",
            field=models.TextField(editable=False, null=True),
        ),
    ]
