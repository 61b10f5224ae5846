"""Form fields for an OAuth client, as `catalog.credentials.oauth.clients` accepts it."""

from typing import Any, cast

from django import forms
from django.http import QueryDict

from catalog.credentials.oauth.clients import DETAILS
from catalog.forms.setting_fields import LinesField
from core.oauth.client import ClientAuthentication
from people.forms import ExplainedChoiceField, OperationForm

AUTHENTICATION_METHODS = [
    (
        ClientAuthentication.BASIC,
        "In a header",
        "client_secret_basic. Most servers accept it.",
    ),
    (ClientAuthentication.POST, "In the body", "client_secret_post. For servers that require it."),
    (
        ClientAuthentication.KEY,
        "With a key of Pegboard",
        "private_key_jwt. Pegboard creates the key and shows its public part, which you register at the "
        "server.",
    ),
    (ClientAuthentication.NONE, "Not at all", "A public client. It has an id and no secret."),
]


class ParametersField(LinesField):
    """A mapping of texts, entered as one name=value per line."""

    def to_python(self, value: Any) -> Any:
        pairs = [line.partition("=") for line in super().to_python(value)]
        if any(not name.strip() or not equals for name, equals, _ in pairs):
            raise forms.ValidationError("Write one name=value on each line.")
        return {name.strip(): text.strip() for name, _, text in pairs}

    def prepare_value(self, value: Any) -> Any:
        return (
            "\n".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else value
        )


class ClientForm(OperationForm):
    """The facts of a client. The operation decides which of them its kind requires."""

    token_url = forms.CharField(
        max_length=2_048,
        required=False,
        label="Token address",
        widget=forms.URLInput,
        help_text="The token endpoint. The client secret is sent only to this address.",
    )
    authorization_url = forms.CharField(
        max_length=2_048,
        required=False,
        label="Sign-in address",
        widget=forms.URLInput,
        help_text="Where your browser goes to sign in (the authorization endpoint).",
    )
    revocation_url = forms.CharField(
        max_length=2_048,
        required=False,
        label="Revocation address",
        widget=forms.URLInput,
        help_text="Notified when Pegboard deletes tokens (RFC 7009). At the same host as the token "
        "address, or "
        "empty.",
    )
    issuer = forms.CharField(
        max_length=500,
        required=False,
        label="Issuer",
        help_text="The identifier of the authorization server. Pegboard compares it exactly.",
    )
    states_issuer = forms.BooleanField(required=False, label="Refuse a reply that does not name the issuer")
    client_id = forms.CharField(max_length=500, required=False, label="Client id")
    client_authentication = ExplainedChoiceField(
        AUTHENTICATION_METHODS, initial=ClientAuthentication.BASIC, label="How the client proves who it is"
    )
    scope = forms.CharField(
        max_length=2_000, required=False, label="Scopes", help_text="With spaces between them."
    )
    resource = forms.CharField(
        max_length=2_048,
        required=False,
        label="Resource",
        help_text="What the tokens are for (RFC 8707), usually the vendor's address.",
    )
    audience = forms.CharField(
        max_length=500, required=False, label="Audience", help_text="If the vendor requires it."
    )
    parameters = ParametersField(
        required=False,
        label="More parameters",
        help_text="One name=value on each line, as the vendor documents them.",
    )

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

    name = forms.CharField(max_length=100, help_text="So that others recognise it.")
