from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0010_calls"),
    ]

    operations = [
        migrations.RemoveField(model_name="tool", name="indexed_version"),
    ]
