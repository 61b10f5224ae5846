from django import forms

from designer.environments import environments
from people.forms import OperationForm


class EnvironmentForm(OperationForm):
    name = forms.RegexField(
        rf"^{environments.NAME.pattern}$",
        max_length=30,
        label="New environment",
        help_text="Such as “prototype”, “test” or “production”.",
        error_messages={"invalid": environments.NAME_RULE},
    )
    is_default = forms.BooleanField(required=False, label="Use it when no environment is selected")
