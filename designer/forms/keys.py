from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from designer.models import Agent
from people.forms import ExplainedChoiceField, OperationForm
from people.models import CALLS_AT_ONCE, MAX_CALLS_AT_ONCE, Scope

KEY_LIFETIMES = {30: "30 days", 90: "90 days", 180: "180 days", 366: "One year"}
# The scopes of each choice on the page.
KEY_SCOPES = {
    "runtime": [Scope.RUNTIME],
    "invoke": [Scope.RUNTIME, Scope.INVOKE],
    "read": [Scope.READ],
    "design": [Scope.DESIGN],
    "admin": [Scope.ADMIN],
}
KEY_CHOICES = [
    ("runtime", "Runtime", "Reads published releases and nothing else. For an agent in production."),
    ("invoke", "Runtime that runs tools", "Also runs the tools of the agents ticked below, if you may."),
    ("read", "Read", "Reads whatever you may read."),
    ("design", "Design", "Also edits agents, if you may."),
    ("admin", "Everything", "May do whatever you may do."),
]


class KeyForm(OperationForm):
    """`agents` are those that the owner may name, with their depth in the tree."""

    name = forms.CharField(
        max_length=100, help_text="What will use it, so that you know it again: “Order agent, production”."
    )
    scope = ExplainedChoiceField(KEY_CHOICES, initial="runtime", label="What it may do")
    agents = forms.MultipleChoiceField(required=False, label="Which agents it reaches")
    calls_at_once = forms.IntegerField(
        min_value=1,
        max_value=MAX_CALLS_AT_ONCE,
        initial=CALLS_AT_ONCE,
        label="Calls at once",
        required=False,
        help_text="How many calls of tools may be under way with it. More are refused.",
    )
    environment = forms.ChoiceField(
        required=False,
        label="Where it runs them",
        help_text="An environment of each of the agents ticked above. What is bound to a tool there runs.",
    )
    days = forms.TypedChoiceField(
        choices=list(KEY_LIFETIMES.items()), coerce=int, initial=90, label="Stops working after"
    )

    def __init__(
        self,
        *args: Any,
        agents: Sequence[tuple[int, Agent]],
        environments: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if environments:
            self.fields["environment"].choices = [  # type: ignore[attr-defined]
                ("", "As each call says, else in the default environment"),
                *((name, name) for name in environments),
            ]
        else:
            del self.fields["environment"]
        self.tree = agents
        self.fields["agents"].choices = [(row.slug, row.name) for _, row in agents]  # type: ignore[attr-defined]
        self.fields["agents"].help_text = (
            "Tick none and a key with the runtime scope reads all releases you may see. One that runs tools "
            "needs at least one tick. A sub-agent is ticked by itself."
            if agents
            else "There is no agent yet. A key with the runtime scope reads all releases you may see."
        )

    def named(self) -> list[tuple[int, Agent, bool]]:
        """Each agent with its depth, and whether it is ticked."""
        ticked = self["agents"].value() or []
        return [(depth, row, row.slug in ticked) for depth, row in self.tree]

    def facts(self) -> dict[str, Any]:
        values = self.cleaned_data
        return {
            "name": values["name"],
            "scopes": KEY_SCOPES[values["scope"]],
            "expires_at": timezone.now() + timedelta(days=values["days"]),
            "agents": [row for _, row in self.tree if row.slug in values["agents"]],
            "calls_at_once": values["calls_at_once"] or CALLS_AT_ONCE,
            "environment": values.get("environment", ""),
        }
