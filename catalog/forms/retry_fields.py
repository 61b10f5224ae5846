"""Form fields for a retry policy. An empty field inherits the value of the level below."""

from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.rules import retries
from catalog.rules.retries import ResolvedRetryPolicy, Stated
from people.forms import OperationForm

_LEVELS = {
    "agent": gettext_lazy("set by the agent"),
    "endpoint": gettext_lazy("set by the endpoint"),
    "default": gettext_lazy("the default"),
}
_NUMBERS = {
    "give_up_after_seconds": (gettext_lazy("Give up after, in seconds"), retries.MAX_GIVE_UP_SECONDS),
    "attempts": (gettext_lazy("Attempts, at most"), retries.MAX_ATTEMPTS),
}


class RetryForm(OperationForm):
    """A form with the fields of a retry policy."""

    def add_retry(self, stated_policy: Stated, below: ResolvedRetryPolicy | None) -> None:
        """Add the fields. `below`: the inherited policy, None if it differs between tools."""
        inherited: dict[str, str] = {}
        if below:
            for name, level in below.levels.items():
                value = getattr(below.policy, name)
                words = _(retries.WHENS[value]) if name == "retry" else str(value)
                inherited[name] = f"{words}{' s' if 'seconds' in name else ''}, {_LEVELS[level]}"
        empty = inherited.get("retry", _("As set by each endpoint"))
        self.fields["retry"] = forms.ChoiceField(
            choices=[("", empty), *((when, _(words)) for when, words in retries.WHENS.items())],
            required=False,
            label=_("Retry a failed call"),
            initial=stated_policy.get("retry", ""),
            help_text=_(
                "A retry is safe if the vendor rejected the call or reports that it failed, or if the "
                "tool only reads or is idempotent."
            ),
        )
        for name, (label, maximum) in _NUMBERS.items():
            help_text = _("Leave this empty to use the setting of each endpoint.")
            if name in inherited:
                help_text = _("Leave this empty to use: {setting}.").format(setting=inherited[name])
            self.fields[name] = forms.IntegerField(
                min_value=1,
                max_value=maximum,
                required=False,
                label=label,
                initial=stated_policy.get(name),
                help_text=help_text,
            )

    def retry_fields(self) -> list[BoundField]:
        return [self[name] for name in retries.RetryPolicy.__struct_fields__]

    def retry_errors(self) -> bool:
        return any(field.errors for field in self.retry_fields())

    def retry(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] or None for name in retries.RetryPolicy.__struct_fields__}

    def field_for(self, path: str) -> str:
        return super().field_for(path.removeprefix("retry."))
