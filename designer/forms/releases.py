from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from designer.models import Channel, ChannelMove, Release, Retirement
from designer.releases import publishing, retiring
from people.forms import ModelOperationForm, OperationForm, form_field


class WhenForm(OperationForm):
    at = forms.DateTimeField(
        required=False,
        label=_("At (UTC)"),
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M:%S", attrs={"type": "datetime-local", "step": 1}),
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"],
    )


class PublishForm(ModelOperationForm):
    seen = form_field(publishing.SEEN, widget=forms.HiddenInput)
    # The channel to move to the release, chosen by a button; `led_to` is its release before.
    channel = form_field(Channel._meta.get_field("name"), required=False, widget=forms.HiddenInput)
    led_to = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)

    class Meta:
        model = Release
        fields = ("note", "reason")
        widgets = dict.fromkeys(fields, forms.Textarea(attrs={"rows": 2}))

    def accepted(self) -> list[str]:
        """The codes of the failed checks that the page showed."""
        return self.data.getlist("accept") if isinstance(self.data, QueryDict) else []

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"].strip()
        if self.accepted() and not reason:
            raise forms.ValidationError(_("Enter why the agent is published with failed checks."))
        return reason

    def facts(self) -> dict[str, Any]:
        values = dict(self.cleaned_data)
        return values | {"expected": values.pop("led_to"), "accept": self.accepted()}


class MoveChannelForm(ModelOperationForm):
    """The form that moves a channel. `led_to` is where the channel led when the page was opened; release 0
    closes it.
    """

    release = form_field(Release._meta.get_field("number"))
    led_to = forms.IntegerField(min_value=0)

    class Meta:
        model = ChannelMove
        fields = ("note",)
        widgets = {"note": forms.TextInput}


class RetireForm(ModelOperationForm):
    """The form that retires a release. `name` is required for a release that is in use."""

    sunset_at = form_field(
        Retirement._meta.get_field("sunset_at"),
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )
    name = form_field(retiring.RELEASE_NAME)
    field_order = ("reason", "sunset_at", "name")

    class Meta:
        model = Retirement
        fields = ("reason",)
        widgets = {"reason": forms.Textarea(attrs={"rows": 2})}

    def __init__(self, *args: Any, name: str, is_in_use: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].label = _("Type “{name}” to retire it although it is in use").format(name=name)
        if not is_in_use:
            del self.fields["name"]
