"""Form fields for the policy of an endpoint: a preset, and one choice for each class of change."""

from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.forms.retry_fields import RetryForm
from catalog.rules import policy, retries

PREFIX = "policy-"
PRESET = "preset"
PRESET_NAMES = {
    "trusting": gettext_lazy("Trusting"),
    "careful": gettext_lazy("Careful"),
    "strict": gettext_lazy("Strict"),
}


class PolicyForm(RetryForm):
    """A form with these fields. A class without a submitted value does not change.

    A submitted preset sets all classes.
    """

    def add_policy(self, stated_policy: policy.Policy) -> None:
        actions = policy.with_defaults(stated_policy)
        current = policy.preset_of(actions)
        presets = [
            (name, f"{PRESET_NAMES[name]}: {_(summary)}")
            for name, (summary, _actions) in policy.PRESETS.items()
        ]
        name = PRESET_NAMES[current] if current else _("own choice")
        self.fields[PRESET] = forms.ChoiceField(
            choices=[
                ("", _("As in the table below (now {preset})").format(preset=str(name).lower())),
                *presets,
            ],
            widget=forms.RadioSelect,
            label=_("When a tool changes"),
            required=False,
        )
        for name, (label, _reason) in policy.CLASSES.items():
            self.fields[f"{PREFIX}{name}"] = forms.ChoiceField(
                choices=[(action, _(words)) for action, words in policy.ACTIONS.items()],
                label=_(label),
                required=False,
                initial=actions[name],
            )

    def policy_rows(self) -> list[tuple[BoundField, list[str]]]:
        """Return the choice of each class, and the action of each preset beside it."""
        return [
            (
                self[f"{PREFIX}{name}"],
                [_(policy.ACTIONS[actions[name]]) for _summary, actions in policy.PRESETS.values()],
            )
            for name in policy.CLASSES
        ]

    def plain_fields(self) -> list[BoundField]:
        retry_names = retries.RetryPolicy.__struct_fields__
        return [
            field
            for field in self
            if field.name not in (*retry_names, PRESET) and not field.name.startswith(PREFIX)
        ]

    def policy(self) -> dict[str, Any]:
        if preset := self.cleaned_data.get(PRESET):
            return {str(name): action for name, action in policy.PRESETS[preset][1].items()}
        actions = {name: self.cleaned_data.get(f"{PREFIX}{name}") for name in policy.CLASSES}
        return {name: action for name, action in actions.items() if action}
