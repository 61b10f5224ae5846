"""Form fields for the requests to an endpoint: rate limits, certificate authorities and size limits."""

from typing import Any

from django import forms
from django.forms import BoundField

from catalog.forms.policy_fields import PolicyForm
from catalog.models import Endpoint
from catalog.vendors.operations import REACH
from people.forms import ModelOperationForm


class ReachForm(PolicyForm, ModelOperationForm):
    """The settings of requests to an endpoint. An empty number means the default, and empty certificates mean
    the well-known ones.
    """

    class Meta:
        model = Endpoint
        fields: tuple[str, ...] = REACH
        widgets: dict[str, Any] = {
            "authorities": forms.Textarea(
                attrs={"rows": 3, "spellcheck": "false", "placeholder": "-----BEGIN CERTIFICATE-----"}
            )
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in REACH:
            self.fields[name].required = False

    def reach(self) -> dict[str, Any]:
        defaults = Endpoint()
        return {name: self.cleaned_data[name] or getattr(defaults, name) for name in REACH}

    def reach_fields(self) -> list[BoundField]:
        return [self[name] for name in REACH]

    def reach_errors(self) -> bool:
        return any(field.errors for field in self.reach_fields())

    def plain_fields(self) -> list[BoundField]:
        return [field for field in super().plain_fields() if field.name not in REACH]
