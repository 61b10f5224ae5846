"""Form fields for the policy of an endpoint: one choice for each class of change."""

from typing import Any

from django import forms
from django.forms import BoundField

from catalog.forms.retry_fields import RetryForm
from catalog.rules import policy, retries

PREFIX = "policy-"


class PolicyForm(RetryForm):
    """A form with these fields. A class without a submitted value does not change."""

    def add_policy(self, stated: policy.Policy) -> None:
        actions = policy.with_defaults(stated)
        for name, (label, _) in policy.CLASSES.items():
            self.fields[f"{PREFIX}{name}"] = forms.ChoiceField(
                choices=list(policy.ACTIONS.items()), label=label, required=False, initial=actions[name]
            )

    def policy_fields(self) -> list[BoundField]:
        return [field for field in self if field.name.startswith(PREFIX)]

    def plain_fields(self) -> list[BoundField]:
        retry_names = retries.RetryPolicy.__struct_fields__
        return [
            field for field in self if field.name not in retry_names and not field.name.startswith(PREFIX)
        ]

    def policy(self) -> dict[str, Any]:
        actions = {name: self.cleaned_data.get(f"{PREFIX}{name}") for name in policy.CLASSES}
        return {name: action for name, action in actions.items() if action}
