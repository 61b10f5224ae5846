"""A retry policy as fields of a form, wherever one is stated: a field that is empty leaves it to others."""

from typing import Any

from django import forms
from django.forms import BoundField

from catalog.rules import retries
from catalog.rules.retries import Resolved, Stated
from people.forms import OperationForm

_SAID_BY = {
    "agent": "as the agent says",
    "endpoint": "as the endpoint says",
    "default": "as usual",
}
_NUMBERS = {
    "give_up_after_seconds": ("Give up after, in seconds", retries.MAX_GIVE_UP_SECONDS),
    "attempts": ("Attempts, at most", retries.MAX_ATTEMPTS),
}


class RetryForm(OperationForm):
    """`add_retry` says what counts where a field is empty; None where that differs from tool to tool."""

    def add_retry(self, stated: Stated, below: Resolved | None) -> None:
        left: dict[str, str] = {}
        if below:
            for name, level in below.levels.items():
                left[name] = f"{_shown(name, getattr(below.policy, name))}, {_SAID_BY[level]}"
        empty = left.get("retry", "As each endpoint says")
        self.fields |= {
            "retry": forms.ChoiceField(
                choices=[("", empty), *retries.WHENS.items()],
                required=False,
                label="Send a failed call again",
                initial=stated.get("retry", ""),
                help_text="It does no harm when the vendor did not let the call in, or says that it failed,"
                " or when the tool only reads or can be repeated.",
            ),
            **{name: self._number(name, stated.get(name), left.get(name)) for name in _NUMBERS},
        }

    def retry_fields(self) -> list[BoundField]:
        return [self[name] for name in retries.RetryPolicy.__struct_fields__]

    def retry_errors(self) -> bool:
        return any(field.errors for field in self.retry_fields())

    def retry(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] or None for name in retries.RetryPolicy.__struct_fields__}

    def field_for(self, path: str) -> str:
        return super().field_for(path.removeprefix("retry."))

    @staticmethod
    def _number(name: str, value: int | None, left: str | None) -> forms.IntegerField:
        label, most = _NUMBERS[name]
        return forms.IntegerField(
            min_value=1,
            max_value=most,
            required=False,
            label=label,
            initial=value,
            help_text=f"Empty: {left or 'as each endpoint says'}.",
        )


def _shown(name: str, value: Any) -> str:
    return retries.WHENS[value] if name == "retry" else f"{value} s" if "seconds" in name else str(value)
