"""Forms for notifications. The operations check the rules."""

from collections.abc import Collection, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from catalog.notifications import kinds
from catalog.notifications.models import Webhook
from catalog.notifications.subscriptions import PAUSES
from designer.models import Agent
from people.forms import ModelOperationForm, OperationForm
from people.models import User


class EventsField(forms.MultipleChoiceField):
    """Checkboxes with an explanation of each event; rendered by designer/notifications/_events.html."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, *, is_of_webhook: bool = False, **kwargs: Any) -> None:
        super().__init__(choices=kinds.choices, **kwargs)
        self.is_of_webhook = is_of_webhook
        self.offer(set(kinds.KINDS))

    def offer(self, names: Collection[str]) -> None:
        offered = [kind for kind in kinds.KINDS.values() if kind.name in names]
        self.explained = [
            (
                kind.name,
                kind.label,
                (self.is_of_webhook and kind.to_webhooks) or kind.explained,
            )
            for kind in offered
        ]


class EventsForm(OperationForm):
    events = EventsField(required=False, label=gettext_lazy("Notify me when"))

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        # Saving replaces the subscriptions, so each of them stays on the page.
        subscribed = set(user.subscriptions.values_list("event", flat=True))
        super().__init__(*args, initial={"events": list(subscribed)}, **kwargs)
        self.fields["events"].offer(kinds.names_for(user) | subscribed)  # type: ignore[attr-defined]


class AddressForm(OperationForm):
    address = forms.CharField(max_length=254, label=gettext_lazy("Mail address"), widget=forms.EmailInput)
    pause_minutes = forms.TypedChoiceField(
        choices=list(PAUSES.items()),
        coerce=int,
        initial=5,
        label=gettext_lazy("How often"),
        help_text=gettext_lazy("Events in between are combined in one mail."),
    )


class WebhookForm(ModelOperationForm):
    """The form of a webhook.

    agents: the agents that the webhook's owner may choose, with their depth in the tree. A webhook without
    an owner belongs to the administrators and may be for all agents.
    """

    agents = forms.MultipleChoiceField(required=False, label=gettext_lazy("For these agents"))
    events = EventsField(label=gettext_lazy("Send when"), is_of_webhook=True)

    class Meta:
        model = Webhook
        fields = ("name", "url")
        widgets = {"url": forms.URLInput}

    def __init__(
        self, *args: Any, agents: Sequence[tuple[int, Agent]], owner: User | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["url"].required = True
        self.tree = agents
        self.fields["agents"].choices = [(row.slug, row.name) for _, row in agents]  # type: ignore[attr-defined]
        if owner:
            self.fields["events"].offer(kinds.agent_kinds())  # type: ignore[attr-defined]
        self.fields["agents"].help_text = (
            gettext("Events of these agents, their parents and sub-agents are sent.")
            if owner
            else gettext("Without a selection, events of all agents are sent.")
        )

    def agent_choices(self) -> list[tuple[int, Agent, bool]]:
        """Return each agent with its depth and whether it is selected."""
        selected = self["agents"].value() or []
        return [(depth, row, row.slug in selected) for depth, row in self.tree]

    def facts(self) -> dict[str, Any]:
        values = self.cleaned_data
        return {**values, "agents": [row for _, row in self.tree if row.slug in values["agents"]]}


class WebhookChangeForm(WebhookForm):
    """Changes an existing webhook, whose address is not shown again."""

    class Meta(WebhookForm.Meta):
        labels = {"url": "Another address"}
        help_texts = {"url": ""}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["url"].required = False
