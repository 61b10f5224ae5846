from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from designer.models import Agent
from people.forms import ExplainedChoiceField, ModelOperationForm
from people.models import CALLS_AT_ONCE, ApiKey, KeyScope

KEY_LIFETIMES = {
    30: gettext_lazy("30 days"),
    90: gettext_lazy("90 days"),
    180: gettext_lazy("180 days"),
    366: gettext_lazy("One year"),
}
# The scopes of each choice on the page.
KEY_SCOPES = {
    "runtime": [KeyScope.RUNTIME],
    "invoke": [KeyScope.RUNTIME, KeyScope.INVOKE],
    "read": [KeyScope.READ],
    "design": [KeyScope.DESIGN],
    "admin": [KeyScope.ADMIN],
}
KEY_CHOICES = [
    (
        "runtime",
        gettext_lazy("Runtime"),
        gettext_lazy("Reads published releases and nothing else. For an agent in production."),
    ),
    (
        "invoke",
        gettext_lazy("Runtime that runs tools"),
        gettext_lazy("Also runs the tools of the selected agents, if your role allows it."),
    ),
    ("read", gettext_lazy("Read"), gettext_lazy("Reads everything that you can read.")),
    ("design", gettext_lazy("Design"), gettext_lazy("Also edits agents, if your role allows it.")),
    ("admin", gettext_lazy("Everything"), gettext_lazy("Has all your rights.")),
]


class KeyForm(ModelOperationForm):
    """The form of an API key. `agents` are those that the owner may name, with their depth in the tree."""

    scope = ExplainedChoiceField(KEY_CHOICES, initial="runtime", label=gettext_lazy("Rights"))
    agents = forms.MultipleChoiceField(required=False, label=gettext_lazy("Agents"))
    days = forms.TypedChoiceField(
        choices=list(KEY_LIFETIMES.items()), coerce=int, initial=90, label=gettext_lazy("Expires after")
    )
    field_order = ("name", "scope", "agents", "calls_at_once", "environment", "days")

    class Meta:
        model = ApiKey
        fields = ("name", "calls_at_once", "environment")
        widgets = {"environment": forms.Select}

    def __init__(
        self,
        *args: Any,
        agents: Sequence[tuple[int, Agent]],
        environments: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["calls_at_once"].required = False
        if environments:
            self.fields["environment"].widget.choices = [
                ("", _("Selected by each call, or the default environment")),
                *((name, name) for name in environments),
            ]
        else:
            del self.fields["environment"]
        self.tree = agents
        self.fields["agents"].choices = [(row.slug, row.name) for _, row in agents]  # type: ignore[attr-defined]
        self.fields["agents"].help_text = (
            _(
                "Without a selection, a key with the runtime scope reads all releases that you can see. "
                "A key that runs tools needs at least one agent. Select sub-agents separately."
            )
            if agents
            else _("There is no agent yet. A key with the runtime scope reads all releases that you can see.")
        )

    def agent_choices(self) -> list[tuple[int, Agent, bool]]:
        """Return each agent with its depth in the tree and whether it is ticked."""
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
