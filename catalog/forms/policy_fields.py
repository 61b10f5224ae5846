"""An endpoint's policy as fields of a form: one choice for each class of change."""

from typing import Any

from django import forms
from django.forms import BoundField

from catalog.forms.retry_fields import RetryForm
from catalog.rules import policy, retries

PREFIX = "policy-"


class PolicyForm(RetryForm):
    """A class that the form does not send stays as it is."""

    def add_policy(self, stated: policy.Policy) -> None:
        actions = policy.whole(stated)
        for name, (words, _) in policy.CLASSES.items():
            self.fields[f"{PREFIX}{name}"] = forms.ChoiceField(
                choices=list(policy.ACTIONS.items()), label=words, required=False, initial=actions[name]
            )

    def policy_fields(self) -> list[BoundField]:
        return [field for field in self if field.name.startswith(PREFIX)]

    def plain_fields(self) -> list[BoundField]:
        left = retries.RetryPolicy.__struct_fields__
        return [field for field in self if field.name not in left and not field.name.startswith(PREFIX)]

    def policy(self) -> dict[str, Any]:
        sent = {name: self.cleaned_data.get(f"{PREFIX}{name}") for name in policy.CLASSES}
        return {name: action for name, action in sent.items() if action}
