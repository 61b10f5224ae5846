from typing import Any

from django import forms
from django.http import QueryDict

from designer.releases import channels, retiring
from designer.releases.publishing import MAX_NOTE_LENGTH
from people.forms import OperationForm


class WhenForm(OperationForm):
    at = forms.DateTimeField(
        required=False,
        label="At (UTC)",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": 1}),
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"],
    )


class PublishForm(OperationForm):
    note = forms.CharField(
        max_length=MAX_NOTE_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What changed, for the people who roll this out.",
    )
    seen = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)
    # The channel to move to the release, chosen by a button; `led_to` is its release before.
    channel = forms.CharField(max_length=30, required=False, widget=forms.HiddenInput)
    led_to = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)

    reason = forms.CharField(
        max_length=MAX_NOTE_LENGTH,
        required=False,
        label="Why publish anyway",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def accepted(self) -> list[str]:
        """The codes of the failed checks that the page showed."""
        return self.data.getlist("accept") if isinstance(self.data, QueryDict) else []

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"].strip()
        if self.accepted() and not reason:
            raise forms.ValidationError("Enter why the agent is published with failed checks.")
        return reason

    def facts(self) -> dict[str, Any]:
        values = dict(self.cleaned_data)
        return values | {"expected": values.pop("led_to"), "accept": self.accepted()}


class MoveChannelForm(OperationForm):
    """`led_to` is where the channel led when the page was opened; release 0 closes it."""

    release = forms.IntegerField(min_value=0)
    led_to = forms.IntegerField(min_value=0)
    note = forms.CharField(max_length=channels.MAX_NOTE_LENGTH, required=False)


class RetireForm(OperationForm):
    """`name` is required for a release that is in use."""

    reason = forms.CharField(
        max_length=retiring.MAX_REASON_LENGTH,
        label="Why",
        help_text="Shown on the release, in the audit trail, and in checks of builds.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    sunset_at = forms.DateTimeField(
        required=False,
        label="Available to API keys until (UTC)",
        help_text="Empty: it stays available, and each reply states that it is retired.",
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )
    name = forms.CharField(max_length=300, required=False)

    def __init__(self, *args: Any, name: str, is_in_use: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = f"Type “{name}” to retire it although it is in use"
        if not is_in_use:
            del self.fields["name"]
