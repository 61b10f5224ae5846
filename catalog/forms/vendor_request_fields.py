"""What a designer types who asks for a vendor, and an administrator who declines."""

from typing import Any

from django import forms

import protocols
from catalog.forms import AddressInput
from catalog.vendors.vendor_requests import MAX_TEXT_LENGTH
from people.forms import OperationForm


class AskForm(OperationForm):
    """A preview needs protocol and address; the rest is asked for with the request."""

    protocol = forms.ChoiceField(choices=protocols.connectable)
    url = forms.CharField(
        max_length=2048,
        label="Address",
        widget=AddressInput,
        help_text="Where the vendor lists its tools. Without keys and passwords: an administrator adds them.",
    )
    vendor_name = forms.CharField(max_length=120, label="Who offers these tools")
    reason = forms.CharField(
        max_length=MAX_TEXT_LENGTH,
        label="What they are needed for",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="The administrator who decides reads this.",
    )

    def __init__(self, *args: Any, is_preview: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_preview:
            self.fields["vendor_name"].required = self.fields["reason"].required = False


class DeclineForm(OperationForm):
    answer = forms.CharField(max_length=MAX_TEXT_LENGTH, label="Why not")
