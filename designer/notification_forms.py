"""What a person types about notifications. The rules live in the operations."""

from typing import Any

from django import forms

from catalog.notifications.models import Event
from catalog.notifications.subscriptions import PAUSES
from people.forms import OperationForm

EXPLAINED = {
    Event.BROKEN: "An enumeration run failed, and did not succeed within a minute and a half.",
    Event.RECOVERED: "After you were told that it cannot be read.",
    Event.HELD: "So many tools are missing that Pegboard withdraws none of them without you.",
    Event.REVIEW: "New findings, or new versions that are held.",
    Event.SIGN_IN: "Until an administrator signs in, its endpoints cannot be read.",
    Event.WEBHOOK_PAUSED: "Its receiver failed again and again.",
    Event.KEY_REPORTED: "It was revoked at once. Of your own you hear in any case, administrators of all.",
    Event.VENDOR_REQUESTED: "For administrators, who connect it or decline.",
    Event.VENDOR_ANSWERED: "Of what you asked for you hear in any case, administrators of all.",
}


class EventsField(forms.MultipleChoiceField):
    """Boxes that say what each event means; drawn by designer/notifications/_events.html."""

    widget = forms.CheckboxSelectMultiple
    explained = [(event.value, event.label, says) for event, says in EXPLAINED.items()]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=Event.choices, **kwargs)


class EventsForm(OperationForm):
    events = EventsField(required=False, label="Tell me when")


class AddressForm(OperationForm):
    address = forms.CharField(max_length=254, label="Mail address", widget=forms.EmailInput)
    pause_minutes = forms.TypedChoiceField(
        choices=list(PAUSES.items()),
        coerce=int,
        initial=5,
        label="How often",
        help_text="What happens meanwhile comes together in one mail.",
    )


class WebhookForm(OperationForm):
    name = forms.CharField(max_length=100, help_text="Who listens there: “On-call chat”.")
    url = forms.CharField(
        max_length=2048, label="Address", widget=forms.URLInput, help_text="Requests are sent there by POST."
    )
    events = EventsField(label="Send when")


class WebhookChangeForm(WebhookForm):
    """Those of one that is there; its address is not shown again."""

    url = forms.CharField(max_length=2048, required=False, label="Another address", widget=forms.URLInput)
    field_order = ("name", "url", "events")
