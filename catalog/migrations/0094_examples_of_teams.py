from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("catalog", "0093_index_examples_by_name")]

    operations = [migrations.RemoveConstraint(model_name="example", name="one_example_per_name")]
