from typing import Any

from django import forms

from designer.agents import transfers
from designer.forms.base import COUNTED_TEXTAREA
from designer.models import Transfer
from designer.signatures import model_names
from people.forms import OperationForm


class TransferForm(OperationForm):
    """The name and description of the transfer to one sub-agent; an empty field restores the default."""

    name = forms.CharField(max_length=model_names.MAX_LENGTH, required=False, label="Name for the model")
    description = forms.CharField(
        max_length=transfers.MAX_DESCRIPTION_LENGTH,
        required=False,
        label="When to transfer",
        help_text="The model reads this with the tools. Empty: the first sentence about the sub-agent.",
        widget=forms.Textarea(attrs=COUNTED_TEXTAREA),
    )

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
