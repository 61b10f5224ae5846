import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from catalog.models import Example
from demo import VENDORS
from designer.models import Agent
from designer.procedures import checking
from execution.calls import invocation, requesting
from pegboard.local.demo_agents import PINNED
from pegboard.management.commands.demo import EXAMPLES
from people.models import User
from tests.demo.test_demo_start import free_port_base, start
from tests.serving.test_calls import runtime


@pytest.mark.django_db(transaction=True)
def test_demo_comes_with_examples_that_succeed_however_often_they_run(monkeypatch):
    monkeypatch.setenv("PEGBOARD_DEMO_PASSWORD", "only-for-this-test")
    base = free_port_base()
    with start(base) as vendors:
        for _ in VENDORS:
            vendors.stdout.readline()  # where it is reached, as soon as it is
        call_command("demo", port_base=base, verbosity=0)
        examples = list(Example.objects.select_related("tool__endpoint__vendor", "tool__current"))
        examples_kept = {
            (example.tool.endpoint.vendor.slug, example.tool.name, example.name) for example in examples
        }
        assert examples_kept == set(EXAMPLES)
        designer = User.objects.get(username="designer")
        outcomes = {}
        for example in examples * 2:
            call = requesting.request_call(example.tool.current, actor=designer, arguments=example.arguments)
            invocation.perform_due_calls()
            call.refresh_from_db()
            outcomes.setdefault(example.tool.name, set()).add(call.outcome)
        it_sends_mail_as_each_environment_has_it(designer)
    assert outcomes == {tool: {"ok"} for _, tool, _ in EXAMPLES}
    pinned = Agent.objects.get(slug="front-desk").pins.live().values_list("tool__name", flat=True)
    assert set(pinned) == set(PINNED)
    for slug in ("front-desk", "reminders"):
        checked = checking.check_agent(Agent.objects.get(slug=slug), designer)
        (remarks,) = checked.remarks.values()
        assert [*remarks, *checked.of_agent] == []


def it_sends_mail_as_each_environment_has_it(designer):
    client = runtime(designer, Agent.objects.get(slug="reminders"))
    path = "/api/v1/agents/reminders/releases/live/tools/sendEmail/invoke/"
    mail = {"recipient": "ada@example.com", "subject": "It is ready", "text": "At the counter in Omaha."}
    results = {
        place: client.post(path, {"arguments": mail, "environment": place}, format="json").json()
        for place in ("prototype", "test", "production")
    }
    assert [(result["outcome"], result["outputs"]) for result in results.values()] == [
        ("latent", {}),
        ("ok", {"sent": True}),
        ("ok", {"sent": True}),
    ]
    assert results["production"]["activity"] == "Send by Pennypost"
    assert len({result["version"] for result in results.values()}) == 1


def test_the_call_that_the_manual_shows_is_one_of_them():
    text = (Path(settings.BASE_DIR) / "docs" / "exports.md").read_text()
    tool, arguments = re.search(r"/tools/(\w+)/invoke/.*?-d '(\{.*?\})'", text, re.DOTALL).groups()
    assert tool in PINNED
    arguments_by_tool = {name: arguments for (_, name, _), arguments in EXAMPLES.items()}
    assert json.loads(arguments) == {"arguments": arguments_by_tool[tool]}
