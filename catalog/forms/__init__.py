"""What a person types about vendors, endpoints and credentials. The rules live in the operations."""

from collections.abc import Iterator
from typing import Any, cast

from django import forms
from django.forms import BoundField
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat

import protocols
from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import clients
from catalog.credentials.sessions import DEFAULT_LIFE_SECONDS, MAX_LIFE_SECONDS
from catalog.forms.policy_fields import PREFIX
from catalog.forms.reach_fields import ReachForm
from catalog.forms.setting_fields import DocumentField, setting_field
from catalog.models import Credential, Endpoint, Vendor, VendorRequest
from catalog.models.vendors import CredentialKind
from catalog.rules import retries
from catalog.vendors import operations as vendor_operations
from core.outbound.addresses import without_keys
from people.audit.edit_conflicts import Difference
from people.forms import OperationForm
from protocols.base import Protocol

INTERVALS = {
    5: "Every 5 minutes",
    15: "Every 15 minutes",
    60: "Every hour",
    360: "Every 6 hours",
    1_440: "Once a day",
    10_080: "Once a week",
}
NEW = "new"
FOR_ENDPOINTS = Credential.objects.filter(removed_at=None).exclude(kind=CredentialKind.OAUTH_USERS)


class VendorForm(OperationForm):
    name = forms.CharField(max_length=120)
    homepage = forms.CharField(
        max_length=500, required=False, widget=forms.URLInput, help_text="Where a person can read about them."
    )


def interval_field(minutes: int = 60) -> forms.TypedChoiceField:
    """The usual intervals, and the one in use when another was set over REST."""
    choices = {minutes: "Every minute" if minutes == 1 else f"Every {minutes} minutes"} | INTERVALS
    return forms.TypedChoiceField(
        choices=sorted(choices.items()),
        coerce=int,
        initial=minutes,
        label="Read again",
        help_text="How often Pegboard looks for new and changed tools.",
    )


class CredentialChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # not generic at run time
    def label_from_instance(self, obj: Credential) -> str:
        return f"{obj.name} (for {obj.origin})"


class AddressInput(forms.URLInput):
    """Shown again after a mistake, without a password or a key that was typed into the address."""

    def format_value(self, value: Any) -> str | None:
        return without_keys(value) if isinstance(value, str) else None


class EndpointForm(ReachForm):
    """Settings of one endpoint; those of its protocol are drawn from what the protocol declares."""

    name = forms.CharField(
        max_length=120, required=False, help_text="To tell it apart when a vendor has several."
    )
    url = forms.CharField(max_length=2048, label="Address", widget=AddressInput)
    credential = CredentialChoice(queryset=FOR_ENDPOINTS, required=False, empty_label="None")
    again = forms.BooleanField(required=False)

    def __init__(self, *args: Any, endpoint: Endpoint, **kwargs: Any) -> None:
        kwargs["initial"] = {
            "name": endpoint.name,
            "url": endpoint.url,
            "credential": endpoint.credential_id,
            **{name: getattr(endpoint, name) for name in vendor_operations.REACH},
            **{f"setting-{name}": value for name, value in endpoint.settings.items()},
        }
        super().__init__(*args, **kwargs)
        self.fields["interval_minutes"] = interval_field(endpoint.interval_minutes)
        self.protocol = protocols.get(endpoint.protocol)
        self.stored = endpoint.settings
        for setting in self.protocol.settings:
            self.fields[f"setting-{setting.name}"] = setting_field(setting)
            if setting.kind == "document" and setting.name in self.stored:
                name = setting.name
                kept = f"One of {filesizeformat(self.stored[name]['bytes'])} is stored."
                self.fields[f"setting-{name}"].help_text = f"{kept} Enter another to replace it."
                self.fields[f"forget-{name}"] = forms.BooleanField(
                    required=False, label="Forget the stored one"
                )
        self.add_policy(endpoint.policy)
        self.add_retry(endpoint.retry, retries.resolved(endpoint={}))

    def plain_fields(self) -> list[BoundField]:
        return [field for field in super().plain_fields() if field.name != "again"]

    def changes(self) -> dict[str, Any]:
        plain = ("name", "url", "credential", "interval_minutes")
        stated = {name: self.cleaned_data[name] for name in (*plain, "again")}
        settings = {setting.name: self._setting(setting.name) for setting in self.protocol.settings}
        return stated | self.reach() | {"settings": settings, "policy": self.policy(), "retry": self.retry()}

    def field_for(self, path: str) -> str:
        if path == "credential_id":
            return "credential"
        if path == "credential":  # its name, which says to people what the id says to programs
            return ""
        return super().field_for(path.replace("settings.", "setting-", 1).replace("policy.", PREFIX, 1))

    def late_rows(self) -> list[tuple[str, Difference]]:
        rows = super().late_rows()
        return [(label.capitalize(), each) for label, each in rows if each.path != "credential_id"]

    def _setting(self, name: str) -> Any:
        given = self.cleaned_data[f"setting-{name}"]
        is_kept = isinstance(self.fields[f"setting-{name}"], DocumentField) and not given
        if is_kept and not self.cleaned_data.get(f"forget-{name}"):
            return self.stored.get(name)
        return given


class CredentialDetailsForm(OperationForm):
    """What the kinds of credentials ask for beside the secret; the page shows those of the chosen one."""

    header = forms.CharField(max_length=64, required=False, label="Header name", initial="X-Api-Key")
    parameter = forms.CharField(
        max_length=64,
        required=False,
        label="Name in the address",
        initial="api_key",
        help_text="The query parameter that carries the key. It is struck out wherever an address is shown.",
    )
    username = forms.CharField(max_length=200, required=False, label="User name")
    issuer = forms.CharField(max_length=200, required=False, label="Issuer (iss)")
    subject = forms.CharField(max_length=200, required=False, label="Subject (sub)")
    audience = forms.CharField(
        max_length=200, required=False, label="Audience (aud)", help_text="If the vendor checks it."
    )
    lifetime_seconds = forms.IntegerField(
        required=False,
        min_value=30,
        max_value=MAX_LIFE_SECONDS,
        initial=DEFAULT_LIFE_SECONDS,
        label="Seconds a token lives",
        help_text="A new one is signed with the secret for each conversation.",
    )

    def details(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in CredentialDetailsForm.base_fields}


class CredentialChangeForm(CredentialDetailsForm):
    """The name of one that is there, and what its kind asks for beside the secret."""

    name = forms.CharField(max_length=100, help_text="So that others recognise it.")
    field_order = ["name"]

    def __init__(self, *args: Any, credential: Credential, **kwargs: Any) -> None:
        held = credential_operations.details_of(credential)
        kwargs["initial"] = {name: getattr(credential, name) for name in ("name", *held)}
        super().__init__(*args, **kwargs)
        for name in self.fields.keys() - {"name", *held}:
            del self.fields[name]


class CredentialForm(CredentialDetailsForm):
    name = forms.CharField(max_length=100, help_text="So that others recognise it.")
    url = forms.CharField(
        max_length=2048,
        label="Address it is for",
        widget=AddressInput,
        help_text="The vendor's. What is made from the secret is sent to this address and nowhere else.",
    )
    kind = forms.ChoiceField(choices=CredentialKind.choices)
    secret = forms.CharField(
        max_length=8_000,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted. It cannot be read back, not even by you.",
    )

    @property
    def is_oauth(self) -> bool:
        return self["kind"].value() in clients.KINDS

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.is_oauth and not cleaned.get("secret"):
            self.add_error("secret", "Enter the secret.")
        return cleaned


class KeyForm(OperationForm):
    """Nothing to enter: another key is made."""


class SecretForm(OperationForm):
    secret = forms.CharField(
        max_length=8_000,
        label="New secret",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class EndpointSecretForm(OperationForm):
    name = forms.CharField(max_length=500, help_text="By which tools ask for it.")
    value = forms.CharField(
        max_length=8_000,
        label="Secret",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class ConnectForm(CredentialDetailsForm, ReachForm):
    """Everything needed to read a vendor for the first time, on one page."""

    asks_for_vendor = True

    @property
    def is_oauth(self) -> bool:
        return self["credential"].value() == NEW and self["kind"].value() in clients.KINDS

    vendor = forms.ModelChoiceField(
        queryset=Vendor.objects.live(), required=False, empty_label="A new vendor", to_field_name="slug"
    )
    vendor_name = forms.CharField(max_length=120, required=False, label="Name of the new vendor")
    protocol = forms.ChoiceField(choices=protocols.connectable)
    url = forms.CharField(max_length=2048, label="Address", widget=AddressInput)
    name = forms.CharField(
        max_length=120, required=False, help_text="To tell it apart when a vendor has several."
    )
    again = forms.BooleanField(required=False)
    vendor_request = forms.ModelChoiceField(
        queryset=VendorRequest.objects.all(), required=False, widget=forms.HiddenInput
    )
    credential = forms.ChoiceField()
    kind = forms.ChoiceField(
        choices=[each for each in CredentialKind.choices if each[0] != CredentialKind.OAUTH_USERS],
        required=False,
        label="Kind",
        help_text="Not sure? “Preview the tools” asks the vendor, and says what it wants.",
    )
    secret = forms.CharField(
        max_length=8_000,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted, and sent to this address only.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["interval_minutes"] = interval_field()
        stored = FOR_ENDPOINTS.all()
        cast(forms.ChoiceField, self.fields["credential"]).choices = [
            ("", "None: the tools are public"),
            *((str(row.pk), f"{row.name} (for {row.origin})") for row in stored),
            (NEW, "A new one"),
        ]
        self.fields["credential"].required = False
        self.fields["protocol"].initial = protocols.PROTOCOLS[0].name
        for protocol in protocols.PROTOCOLS:
            for setting in protocol.settings:
                field = setting_field(setting)
                field.required = False  # those of another protocol are not asked for
                self.fields[f"{protocol.name}-{setting.name}"] = field
        self.add_policy({})

    def protocol_cards(self) -> Iterator[tuple[type[Protocol], bool, list[BoundField]]]:
        chosen = self["protocol"].value()
        for protocol in protocols.PROTOCOLS:
            settings = [self[f"{protocol.name}-{setting.name}"] for setting in protocol.settings]
            yield protocol, protocol.name == chosen, settings

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.asks_for_vendor and not cleaned.get("vendor") and not cleaned.get("vendor_name"):
            self.add_error("vendor_name", "Say who offers these tools, or choose a vendor above.")
        if cleaned.get("credential") == NEW and not self.is_oauth and not cleaned.get("secret"):
            self.add_error("secret", "Enter the secret, or choose “None” above.")
        return cleaned

    def asked(self) -> dict[str, Any]:
        """For the page: the request that is to be answered. One that waits no longer leaves the form, or it
        could never be saved.
        """
        given = str(self["vendor_request"].value() or "")
        rows = VendorRequest.objects.select_related("asked_by", "answered_by", "endpoint__vendor")
        row = rows.filter(pk=given).first() if given.isdecimal() else None
        is_over = bool(given) and not (row and row.is_waiting)
        if is_over:
            self.initial.pop("vendor_request", None)
            self.data = data = cast(QueryDict, self.data).copy()
            data.pop("vendor_request", None)
        return {"asked": row, "is_over": is_over}

    def settings(self) -> dict[str, Any]:
        chosen = protocols.get(self.cleaned_data["protocol"])
        return {s.name: self.cleaned_data[f"{chosen.name}-{s.name}"] for s in chosen.settings}


class PreviewForm(ConnectForm):
    """The same before it is complete: what the vendor is called makes no difference to a preview."""

    asks_for_vendor = False
