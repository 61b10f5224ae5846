"""Form fields for the requests to an endpoint: rate limits, certificate authorities and size limits."""

from typing import Any

from django import forms
from django.forms import BoundField

from catalog import bounds
from catalog.forms.policy_fields import PolicyForm
from catalog.models import Endpoint
from catalog.vendors.operations import MAX_AT_ONCE, MAX_PER_SECOND, REACH


def _bounded(bound: bounds.Bound) -> forms.IntegerField:
    return forms.IntegerField(
        min_value=1, max_value=bound.most, required=False, label=bound.label, help_text=bound.help
    )


class ReachForm(PolicyForm):
    """A form with these fields. An empty number is the default, and empty certificates are the well-known
    ones."""

    requests_per_second = forms.IntegerField(
        min_value=1,
        max_value=MAX_PER_SECOND,
        required=False,
        label="Requests per second, at most",
        help_text="For all workers together. Enter the limit of the vendor, if there is one.",
    )
    requests_at_once = forms.IntegerField(
        min_value=1, max_value=MAX_AT_ONCE, required=False, label="Requests at once, at most"
    )
    authorities = forms.CharField(
        required=False,
        label="Certificates of your own authority",
        widget=forms.Textarea(
            attrs={"rows": 3, "spellcheck": "false", "placeholder": "-----BEGIN CERTIFICATE-----"}
        ),
        help_text="For a vendor with a certificate of a private authority, in PEM format. The endpoint then "
        "trusts no other authority. Empty: the well-known authorities.",
    )

    max_tools = _bounded(bounds.TOOLS)
    max_minutes = _bounded(bounds.MINUTES)
    max_megabytes = _bounded(bounds.MEGABYTES)
    max_reply_megabytes = _bounded(bounds.REPLY_MEGABYTES)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults = Endpoint()
        kwargs["initial"] = {name: getattr(defaults, name) for name in REACH} | (kwargs.get("initial") or {})
        super().__init__(*args, **kwargs)

    def reach(self) -> dict[str, Any]:
        defaults = Endpoint()
        return {name: self.cleaned_data[name] or getattr(defaults, name) for name in REACH}

    def reach_fields(self) -> list[BoundField]:
        return [self[name] for name in REACH]

    def reach_errors(self) -> bool:
        return any(field.errors for field in self.reach_fields())

    def plain_fields(self) -> list[BoundField]:
        return [field for field in super().plain_fields() if field.name not in REACH]
