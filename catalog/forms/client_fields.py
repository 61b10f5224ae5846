"""Form fields for an OAuth client: what `catalog.credentials.oauth.clients` takes, as a person types it."""

from typing import Any, cast

from django import forms
from django.http import QueryDict

from catalog.credentials.oauth.clients import DETAILS
from catalog.forms.setting_fields import LinesField
from core.oauth.client import ClientAuthentication
from people.forms import ExplainedChoiceField, OperationForm

WAYS = [
    (
        ClientAuthentication.BASIC,
        "In a header",
        "client_secret_basic. Every server should take it; most do.",
    ),
    (ClientAuthentication.POST, "In the body", "client_secret_post. For servers that ask for it."),
    (
        ClientAuthentication.KEY,
        "With a key of Pegboard",
        "private_key_jwt. Pegboard makes the key and shows its public part, which you give to the server.",
    ),
    (ClientAuthentication.NONE, "Not at all", "A public client. It has an id and no secret."),
]


class ParametersField(LinesField):
    """A mapping of texts, typed as one name=value a line."""

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
    """Empty fields are for the operation to judge, since what is needed depends on the kind."""

    token_url = forms.CharField(
        max_length=2_048,
        required=False,
        label="Token address",
        widget=forms.URLInput,
        help_text="Where tokens are asked for. The client secret goes there and nowhere else.",
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
        label="Address for ending tokens",
        widget=forms.URLInput,
        help_text="Told when tokens are forgotten here (RFC 7009). Beside the token address, or empty.",
    )
    issuer = forms.CharField(
        max_length=500,
        required=False,
        label="Issuer",
        help_text="How the authorization server calls itself. It is compared letter by letter.",
    )
    states_issuer = forms.BooleanField(required=False, label="Refuse a reply that does not name the issuer")
    client_id = forms.CharField(max_length=500, required=False, label="Client id")
    client_authentication = ExplainedChoiceField(
        WAYS, initial=ClientAuthentication.BASIC, label="How the client proves who it is"
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
        max_length=500, required=False, label="Audience", help_text="If the vendor asks for it."
    )
    parameters = ParametersField(
        required=False, label="More parameters", help_text="One name=value on each line, as the vendor says."
    )

    @property
    def rare_errors(self) -> bool:
        """Whether something is wrong in what is folded away."""
        return bool({"revocation_url", "issuer", "resource", "audience", "parameters"} & self.errors.keys())

    def facts(self) -> dict[str, Any]:
        """Everything, as it replaces what is there."""
        return {name: self.cleaned_data[name] for name in DETAILS}

    def given(self) -> dict[str, Any]:
        """What was filled in; the rest gets its default."""
        return {name: value for name, value in self.facts().items() if value not in ("", {})}

    def take(self, found: dict[str, Any]) -> None:
        """Puts what a lookup found into the fields that it names."""
        self.data = data = cast(QueryDict, self.data).copy()
        for name in DETAILS:
            if name in found:
                data[self.add_prefix(name)] = found[name]
        if not found.get("states_issuer"):
            data.pop(self.add_prefix("states_issuer"), None)


class ClientChangeForm(ClientForm):
    """Those of a credential that is there, and what it is called."""

    name = forms.CharField(max_length=100, help_text="So that others recognise it.")
