from django.db import migrations
from django.db.models import F

from designer import token_budget
from protocols import signature

AT_ONCE = 1_000


def recount(apps, schema_editor):
    """Tools cost what the usual format writes of them. Those that are tuned are left to a worker, which counts
    them within a minute (catalog.tools.effective_texts.catch_up)."""
    tools = apps.get_model("catalog", "Tool").objects.order_by("pk")
    tools.filter(is_tuned=True).update(worded_at=None)
    last = 0
    while rows := list(
        tools.filter(pk__gt=last, current__isnull=False, is_tuned=False)
        .annotate(written=F("current__signature"))
        .only("pk", "tokens")[:AT_ONCE]
    ):
        last = rows[-1].pk
        for row in rows:
            row.tokens = token_budget.of_signature(signature.from_json(row.written))
        tools.bulk_update(rows, ["tokens"])


class Migration(migrations.Migration):
    # Each batch by itself, so that no row is locked for long.
    atomic = False
    dependencies = [("designer", "0022_name_parts_of_releases"), ("catalog", "0043_call_for_sub_agents")]
    operations = [migrations.RunPython(recount, migrations.RunPython.noop)]
