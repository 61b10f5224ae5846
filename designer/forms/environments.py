from typing import Any

from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from designer.environments import environments
from designer.models import Environment
from people.forms import ModelOperationForm


class EnvironmentForm(ModelOperationForm):
    class Meta:
        model = Environment
        fields = ("name", "is_default")
        labels = {"name": _("New environment")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rule = RegexValidator(f"^{environments.NAME.pattern}$", environments.NAME_RULE)
        self.fields["name"].validators.append(rule)
