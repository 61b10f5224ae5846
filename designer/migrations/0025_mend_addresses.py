import json
from itertools import count

from django.db import migrations
from django.utils import timezone

from people.audit.hash_chain import digest_of

RESERVED = "import"
WHY = "“import” is an address of Pegboard's own now, so the agent had no page there."
AT_ONCE = 50


def leave_reserved(apps, schema_editor):
    """The agent at a reserved address gets another one. Runtimes go on finding its releases at the old one."""
    agents, addresses, entries = (
        apps.get_model(*name).objects
        for name in (("designer", "Agent"), ("designer", "AgentAddress"), ("people", "AuditEntry"))
    )
    agent = agents.filter(slug=RESERVED, removed_at=None).select_for_update().first()
    if agent is None:
        return
    taken = {
        *agents.filter(removed_at=None).values_list("slug", flat=True),
        *addresses.values_list("slug", flat=True),
    }
    agent.slug = next(slug for slug in (f"{RESERVED}-{number}" for number in count(2)) if slug not in taken)
    agent.save(update_fields=["slug"])
    now = timezone.now()
    is_held = addresses.filter(agent=agent, is_held=True).exists()
    addresses.update_or_create(
        slug=RESERVED,
        agent=agent,
        defaults={"left_at": now},
        create_defaults={"left_at": now, "is_held": is_held},
    )
    if is_held:
        addresses.create(slug=agent.slug, agent=agent)
    content = {
        "at": now,
        "actor": None,
        "actor_name": "Pegboard",
        "action": "edit",
        "kind": "agent",
        "object_id": str(agent.pk),
        "label": agent.name,
        "agent": agent.pk,
        "before": {"slug": RESERVED},
        "after": {"slug": agent.slug},
        "why": WHY,
    }
    entries.create(**content, digest=digest_of(content))


def hold_released(apps, schema_editor):
    """Addresses of sub-agents in releases are held for them, as publishing does it today."""
    agents, addresses = (apps.get_model("designer", name).objects for name in ("Agent", "AgentAddress"))
    releases = apps.get_model("designer", "Release").objects.filter(document__contains='"agents":')
    released = {
        each["slug"]: each["id"]
        for document in releases.order_by("pk").values_list("document", flat=True).iterator(AT_ONCE)
        for each in json.loads(document).get("agents", ())
    }
    known = dict(agents.filter(pk__in=released.values()).values_list("pk", "slug"))
    used = dict(agents.filter(slug__in=released, removed_at=None).values_list("slug", "pk"))
    now = timezone.now()
    for slug, agent in released.items():
        # Another one that is there by now stays: two cannot be told apart by one address.
        if agent in known and used.get(slug, agent) == agent:
            addresses.filter(slug=slug, agent=agent).update(is_held=True)
            addresses.get_or_create(
                slug=slug,
                defaults={"agent_id": agent, "left_at": None if known[agent] == slug else now},
            )


class Migration(migrations.Migration):
    dependencies = [("designer", "0024_number_effective_signatures"), ("people", "0013_call_keys_api_keys")]
    operations = [
        migrations.RunPython(leave_reserved, migrations.RunPython.noop),
        migrations.RunPython(hold_released, migrations.RunPython.noop),
    ]
