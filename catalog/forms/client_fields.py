"""Form fields for an OAuth client, as `catalog.credentials.oauth.clients` accepts it."""

from typing import Any, cast

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials.oauth.clients import DETAILS
from catalog.forms.setting_fields import LinesField
from catalog.models import Credential, Grant
from core.oauth.client import ClientAuthentication
from people.forms import ExplainedChoiceField, ModelOperationForm, form_field

AUTHENTICATION_METHODS = [
    (
        ClientAuthentication.BASIC,
        gettext_lazy("In a header"),
        gettext_lazy("client_secret_basic. Most servers accept it."),
    ),
    (
        ClientAuthentication.POST,
        gettext_lazy("In the body"),
        gettext_lazy("client_secret_post. For servers that require it."),
    ),
    (
        ClientAuthentication.KEY,
        gettext_lazy("With a key of Pegboard"),
        gettext_lazy(
            "private_key_jwt. Pegboard creates the key and shows its public part, which you register at the "
            "server."
        ),
    ),
    (
        ClientAuthentication.NONE,
        gettext_lazy("Not at all"),
        gettext_lazy("A public client. It has an id and no secret."),
    ),
]


class ParametersField(LinesField):
    """A mapping of texts, entered as one name=value per line."""

    def __init__(self, *, encoder: Any = None, decoder: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def to_python(self, value: Any) -> Any:
        pairs = [line.partition("=") for line in super().to_python(value)]
        if any(not name.strip() or not equals for name, equals, _unused in pairs):
            raise forms.ValidationError(_("Write one name=value on each line."))
        return {name.strip(): text.strip() for name, _unused, text in pairs}

    def prepare_value(self, value: Any) -> Any:
        return (
            "\n".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else value
        )


class ClientForm(ModelOperationForm):
    """The facts of a client. The operation decides which of them its kind requires."""

    client_authentication = ExplainedChoiceField(
        AUTHENTICATION_METHODS,
        initial=ClientAuthentication.BASIC,
        label=Grant._meta.get_field("client_authentication").verbose_name,
    )

    class Meta:
        model = Grant
        fields = DETAILS
        field_classes = {"parameters": ParametersField}
        widgets = dict.fromkeys(("token_url", "authorization_url", "revocation_url"), forms.URLInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["token_url"].required = self.fields["client_id"].required = False

    @property
    def rare_errors(self) -> bool:
        """True if a field of the collapsed part is invalid."""
        return bool({"revocation_url", "issuer", "resource", "audience", "parameters"} & self.errors.keys())

    def facts(self) -> dict[str, Any]:
        """Return all fields, which replace the stored ones."""
        return {name: self.cleaned_data[name] for name in DETAILS}

    def entered_facts(self) -> dict[str, Any]:
        """Return the fields that are not empty. The others get their defaults."""
        return {name: value for name, value in self.facts().items() if value not in ("", {})}

    def fill(self, facts: dict[str, Any]) -> None:
        """Fill the fields with the facts of a discovery."""
        self.data = data = cast(QueryDict, self.data).copy()
        for name in DETAILS:
            if name in facts:
                data[self.add_prefix(name)] = facts[name]
        if not facts.get("states_issuer"):
            data.pop(self.add_prefix("states_issuer"), None)


class ClientChangeForm(ClientForm):
    """The facts of an existing credential, with its name."""

    name = form_field(Credential._meta.get_field("name"))
