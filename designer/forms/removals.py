from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from designer.agents.vendor_usage import VendorUse
from people.forms import OperationForm


class RemovalForm(OperationForm):
    """A thing in use requires its name, so that one click cannot remove it."""

    name = forms.CharField(max_length=2_048)
    with_credentials = forms.BooleanField(required=False)
    why = forms.CharField(
        max_length=500,
        required=False,
        help_text=gettext_lazy("For the audit trail."),
        label=gettext_lazy("Reason"),
    )

    def __init__(self, *args: Any, name: str, use: VendorUse, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wanted = name
        self.fields["name"].label = _("Type “{name}” to confirm").format(name=name)
        if not use.is_used:
            del self.fields["name"]
        spare = ", ".join(f"“{credential}”" for credential in use.credentials)
        self.fields["with_credentials"].label = _("Forget the secret of {spare} too").format(spare=spare)
        self.fields["with_credentials"].help_text = _("Nothing else uses it.")
        if not spare:
            self.fields["with_credentials"].widget = forms.HiddenInput()

    def clean_name(self) -> str:
        typed: str = self.cleaned_data["name"]
        if typed != self.wanted:
            raise forms.ValidationError(_("This is not its name. Type “{name}”.").format(name=self.wanted))
        return typed
