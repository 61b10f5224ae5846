"""Forms for a designer who requests a vendor and for an administrator who declines the request."""

from typing import Any

from django import forms

import protocols
from catalog.forms import AddressWidget
from catalog.models import VendorRequest
from people.forms import ModelOperationForm


class AskForm(ModelOperationForm):
    """A vendor request. A preview needs only protocol and address."""

    class Meta:
        model = VendorRequest
        fields = ("protocol", "url", "vendor_name", "reason")
        widgets = {
            "protocol": forms.Select(choices=protocols.connectable()),
            "url": AddressWidget,
            "reason": forms.Textarea(attrs={"rows": 3}),
        }

    def __init__(self, *args: Any, is_preview: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if is_preview:
            self.fields["vendor_name"].required = self.fields["reason"].required = False


class DeclineForm(ModelOperationForm):
    class Meta:
        model = VendorRequest
        fields = ("answer",)
        widgets = {"answer": forms.TextInput}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["answer"].required = True
