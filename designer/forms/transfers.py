from typing import Any

from django import forms

from designer.agents import transfers
from designer.forms.base import COUNTED_TEXTAREA
from designer.models import Transfer
from people.forms import ModelOperationForm, form_field


class TransferForm(ModelOperationForm):
    """The name and description of the transfer to one sub-agent; an empty field restores the default."""

    name = form_field(Transfer._meta.get_field("alias"))

    class Meta:
        model = Transfer
        fields = ("description",)
        widgets = {"description": forms.Textarea(attrs=COUNTED_TEXTAREA)}

    field_order = ("name", "description")

    def __init__(self, *args: Any, transfer: Transfer, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.transfer = transfer
        default = transfer.name if not transfer.alias else ""
        self.fields["name"].widget.attrs |= {
            "placeholder": default,
            "autocomplete": "off",
            "spellcheck": "false",
        }

    def field_for(self, path: str) -> str:
        return "name" if path == "alias" else path

    def field_value(self, name: str, value: object) -> object:
        if name == "description" and not value:
            return transfers.default_description(self.transfer.child)
        return value
