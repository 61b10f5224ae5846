"""Registers functions of designer with catalog and people, which are in lower layers.

Imported by `DesignerConfig.ready`, when all models are loaded.
"""

from collections.abc import Collection, Iterable

from django.db.models import Count

from catalog import token_estimate
from catalog.review import similar_names
from catalog.tools import effective_texts, versions
from designer.environments import activity_rules
from designer.models import Agent, Pin
from designer.news import news
from designer.pins import token_budget, tunings
from designer.releases import proofs
from execution.activities import operations
from execution.calls import invocation
from people import audit
from people.management.commands import database_role


def read_pinned(tools: Collection[int]) -> Iterable[tuple[int, int, int]]:
    pins = Pin.objects.live().filter(tool__in=tools).order_by()
    return pins.values_list("tool", "version").annotate(agents=Count("agent", distinct=True))


similar_names.USED_TOOLS.append(lambda: Pin.objects.values_list("tool_id", flat=True).distinct().order_by())
versions.PINNED.append(read_pinned)
versions.MOVED.append(news.queue_behind_notices)
news.register()
operations.NAME_RULES.append(activity_rules.check_name)
operations.CHANGE_RULES.append(activity_rules.check_change)
operations.REMOVAL_RULES.append(activity_rules.check_removal)
operations.RENAMING_RULES.append(activity_rules.check_renaming)
invocation.BEFORE_ACTIVITIES.append(activity_rules.check_vendors)
effective_texts.words_come_from(tunings.rewrites)
token_estimate.set_counting_rule(token_budget.tokens_of_signature)
audit.agents_are_seen_by(lambda user: Agent.objects.visible_to(user).values("pk"))
database_role.FOR_THE_ROLE.append(proofs.make_key)
