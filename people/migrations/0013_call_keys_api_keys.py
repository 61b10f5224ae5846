from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("people", "0012_say_api_key"),
        # They name the model as it was called then.
        ("catalog", "0024_calls_of_runtimes"),
        ("designer", "0005_name_agents_for_keys"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable(name="apitoken", table="people_apitoken"),
                migrations.RenameModel(old_name="ApiToken", new_name="ApiKey"),
                migrations.AlterField(
                    model_name="apikey",
                    name="user",
                    field=models.ForeignKey(
                        on_delete=models.CASCADE, related_name="api_keys", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ]
        ),
    ]
