import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from catalog.calls import invocation, queue
from catalog.models import Example
from demo import VENDORS
from designer.models import Agent
from designer.procedures import checking
from pegboard.management.commands.demo import EXAMPLES, PINNED
from people.models import User
from tests.demo.test_demo_start import free_port_base, start


@pytest.mark.django_db(transaction=True)
def test_demo_comes_with_examples_that_succeed_however_often_they_run(monkeypatch):
    monkeypatch.setenv("PEGBOARD_DEMO_PASSWORD", "only-for-this-test")
    base = free_port_base()
    with start(base) as vendors:
        for _ in VENDORS:
            vendors.stdout.readline()  # where it is reached, as soon as it is
        call_command("demo", port_base=base, verbosity=0)
        kept = list(Example.objects.select_related("tool__endpoint__vendor", "tool__current"))
        named = {(each.tool.endpoint.vendor.slug, each.tool.name, each.name) for each in kept}
        assert named == set(EXAMPLES)
        designer = User.objects.get(username="designer")
        outcomes = {}
        for each in kept * 2:
            call = queue.request_call(each.tool.current, actor=designer, arguments=each.arguments)
            invocation.perform(call.pk)
            call.refresh_from_db()
            outcomes.setdefault(each.tool.name, set()).add(call.outcome)
    assert outcomes == {tool: {"ok"} for _, tool, _ in EXAMPLES}
    pinned = Agent.objects.get(slug="front-desk").pins.live().values_list("tool__name", flat=True)
    assert set(pinned) == set(PINNED)
    checked = checking.check_agent(Agent.objects.get(slug="front-desk"), designer)
    (remarks,) = checked.remarks.values()
    assert [*remarks, *checked.of_agent] == []


def test_the_call_that_the_manual_shows_is_one_of_them():
    text = (Path(settings.BASE_DIR) / "docs" / "exports.md").read_text()
    tool, arguments = re.search(r"/tools/(\w+)/invoke/.*?-d '(\{.*?\})'", text, re.DOTALL).groups()
    assert tool in PINNED
    given = {name: arguments for (_, name, _), arguments in EXAMPLES.items()}
    assert json.loads(arguments) == {"arguments": given[tool]}
