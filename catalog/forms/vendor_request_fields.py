"""Forms for a designer who requests a vendor and for an administrator who declines the request."""

from typing import Any

from django import forms

import protocols
from catalog.forms import AddressInput
from catalog.vendors.vendor_requests import MAX_TEXT_LENGTH
from people.forms import OperationForm


class AskForm(OperationForm):
    """A vendor request. A preview needs only protocol and address."""

    protocol = forms.ChoiceField(choices=protocols.connectable)
    url = forms.CharField(
        max_length=2048,
        label="Address",
        widget=AddressInput,
        help_text="The address of the vendor's tools, without keys and passwords. An administrator adds "
        "them.",
    )
    vendor_name = forms.CharField(max_length=120, label="Name of the vendor")
    reason = forms.CharField(
        max_length=MAX_TEXT_LENGTH,
        label="Reason for the request",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="The administrator who decides reads this.",
    )

    def __init__(self, *args: Any, is_preview: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_preview:
            self.fields["vendor_name"].required = self.fields["reason"].required = False


class DeclineForm(OperationForm):
    answer = forms.CharField(max_length=MAX_TEXT_LENGTH, label="Reason")
