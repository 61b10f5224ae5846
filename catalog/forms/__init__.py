"""Forms for vendors, endpoints and credentials. The operations contain the rules."""

from collections.abc import Iterator
from typing import Any, cast

from django import forms
from django.forms import BoundField
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

import protocols
from catalog.credentials import kinds
from catalog.credentials import operations as credential_operations
from catalog.credentials.kinds.base import Detail
from catalog.credentials.oauth import clients
from catalog.forms.policy_fields import PREFIX
from catalog.forms.reach_fields import ReachForm
from catalog.forms.setting_fields import DocumentField, setting_field
from catalog.models import Credential, Endpoint, EndpointSecret, Vendor, VendorRequest
from catalog.models.vendors import OAuthKind
from catalog.rules import retries
from catalog.vendors import operations as vendor_operations
from core.outbound.addresses import without_keys
from people.audit.edit_conflicts import Difference
from people.forms import ModelOperationForm, OperationForm, form_field
from protocols.base import Protocol

INTERVALS: dict[int, str | Promise] = {
    5: gettext_lazy("Every 5 minutes"),
    15: gettext_lazy("Every 15 minutes"),
    60: gettext_lazy("Every hour"),
    360: gettext_lazy("Every 6 hours"),
    1_440: gettext_lazy("Once a day"),
    10_080: gettext_lazy("Once a week"),
}
NEW = "new"
NEW_SECRET = forms.PasswordInput(attrs={"autocomplete": "new-password"})
FOR_ENDPOINTS = Credential.objects.filter(removed_at=None).exclude(kind=OAuthKind.USERS)


class VendorForm(ModelOperationForm):
    class Meta:
        model = Vendor
        fields = ("name", "homepage")
        field_classes = {"homepage": forms.CharField}
        widgets = {"homepage": forms.URLInput}


def interval_field(minutes: int = 60) -> forms.TypedChoiceField:
    """Return the field for the usual intervals, and for `minutes` if REST has set another one."""
    declared_field = Endpoint._meta.get_field("interval_minutes")
    choices: dict[int, str | Promise] = {
        minutes: _("Every minute") if minutes == 1 else _("Every {minutes} minutes").format(minutes=minutes),
        **INTERVALS,
    }
    return forms.TypedChoiceField(
        choices=sorted(choices.items()),
        coerce=int,
        initial=minutes,
        label=declared_field.verbose_name,
        help_text=declared_field.help_text,
    )


class CredentialChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # not generic at run time
    def label_from_instance(self, obj: Credential) -> str:
        return _("{credential} (for {origin})").format(credential=obj.name, origin=obj.origin)


class AddressWidget(forms.URLInput):
    """A URL input that renders its value after an error without passwords or keys."""

    def format_value(self, value: Any) -> str | None:
        return without_keys(value) if isinstance(value, str) else None


class SourceInput(forms.Textarea):
    """The field for an address or a pasted document. It never shows a document or a key again."""

    def __init__(self) -> None:
        placeholder = "https://api.example.com/mcp"
        attributes = {"spellcheck": "false", "placeholder": placeholder, "class": "mono", "data-enter": ""}
        super().__init__({"rows": 1, **attributes})

    def format_value(self, value: Any) -> str | None:
        is_address = (
            isinstance(value, str) and value.strip()[:1] not in ("{", "[") and "\n" not in value.strip()
        )
        return without_keys(value) if is_address else None


class EndpointForm(ReachForm):
    """The settings of an endpoint. Its protocol declares the fields named "setting-..."."""

    credential = CredentialChoice(queryset=FOR_ENDPOINTS, required=False, empty_label=gettext_lazy("None"))
    again = form_field(vendor_operations.AGAIN)

    class Meta(ReachForm.Meta):
        fields = ("name", "url", *ReachForm.Meta.fields)
        widgets = ReachForm.Meta.widgets | {"url": AddressWidget}

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
                self.fields[f"setting-{name}"].help_text = _(
                    "One of {size} is stored. Enter another to replace it."
                ).format(size=filesizeformat(self.stored[name]["bytes"]))
                self.fields[f"forget-{name}"] = forms.BooleanField(
                    required=False, label=_("Delete the stored one")
                )
        self.add_policy(endpoint.policy)
        self.add_retry(endpoint.retry, retries.resolve_policy(endpoint={}))

    def plain_fields(self) -> list[BoundField]:
        return [field for field in super().plain_fields() if field.name != "again"]

    def changes(self) -> dict[str, Any]:
        plain = ("name", "url", "credential", "interval_minutes")
        stated = {name: self.cleaned_data[name] for name in (*plain, "again")}
        settings = {}
        for name in [setting.name for setting in self.protocol.settings]:
            value = self.cleaned_data[f"setting-{name}"]
            is_unchanged = isinstance(self.fields[f"setting-{name}"], DocumentField) and not value
            # A stored document stays until another one is entered, or it is deleted.
            is_kept = is_unchanged and not self.cleaned_data.get(f"forget-{name}")
            settings[name] = self.stored.get(name) if is_kept else value
        return stated | self.reach() | {"settings": settings, "policy": self.policy(), "retry": self.retry()}

    def field_for(self, path: str) -> str:
        if path == "credential_id":
            return "credential"
        if path == "credential":  # the name of `credential_id`, for people
            return ""
        return super().field_for(path.replace("settings.", "setting-", 1).replace("policy.", PREFIX, 1))

    def late_rows(self) -> list[tuple[str, Difference]]:
        rows = super().late_rows()
        return [
            (label.capitalize(), difference)
            for label, difference in rows
            if difference.path != "credential_id"
        ]


class CredentialDetailsForm(OperationForm):
    """The fields of each kind of credential, without the secret. The page shows the fields of the chosen
    kind."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, detail in kinds.DETAILS.items():
            options: dict[str, Any] = {
                "required": False,  # the operation checks the details of the chosen kind
                "label": detail.label,
                "help_text": detail.help,
                "initial": detail.initial,
            }
            if detail.is_number:
                self.fields[name] = forms.IntegerField(
                    min_value=detail.minimum, max_value=detail.maximum, **options
                )
            else:
                widget = forms.Textarea(attrs={"rows": 6, "class": "mono"}) if detail.is_long else None
                self.fields[name] = forms.CharField(max_length=detail.max_length, widget=widget, **options)
        self.order_fields(self.field_order)

    def credential_kinds(self) -> Iterator[tuple[str, list[tuple[Detail, BoundField]]]]:
        """Yield the help text of the secret and the details with their fields, in the order of the kinds."""
        for kind in kinds.ALL:
            yield str(kind.secret_help), [(detail, self[detail.name]) for detail in kind.details]

    def details(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in kinds.DETAILS}


class CredentialChangeForm(CredentialDetailsForm, ModelOperationForm):
    """The name of an existing credential and the fields of its kind, without the secret."""

    class Meta:
        model = Credential
        fields = ("name",)

    def __init__(self, *args: Any, credential: Credential, **kwargs: Any) -> None:
        details = credential_operations.details_of(credential)
        kwargs["initial"] = {"name": credential.name, **credential.details}
        super().__init__(*args, **kwargs)
        for name in self.fields.keys() - {"name", *details}:
            del self.fields[name]


class CredentialForm(CredentialDetailsForm, ModelOperationForm):
    url = form_field(credential_operations.ADDRESS, widget=AddressWidget)
    kind = forms.ChoiceField(choices=kinds.CHOICES)
    secret = form_field(credential_operations.SECRET, widget=NEW_SECRET)

    class Meta:
        model = Credential
        fields = ("name",)

    @property
    def is_oauth(self) -> bool:
        return self["kind"].value() in clients.KINDS

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.is_oauth and not cleaned.get("secret"):
            self.add_error("secret", _("Enter the secret."))
        return cleaned


class NewClientKeyForm(OperationForm):
    """A form without fields, which creates another key."""


class SecretForm(OperationForm):
    secret = form_field(
        credential_operations.SECRET,
        required=True,
        label=gettext_lazy("New secret"),
        help_text="",
        widget=NEW_SECRET,
    )


class EndpointSecretForm(ModelOperationForm):
    value = form_field(
        credential_operations.SECRET, required=True, strip=False, help_text="", widget=NEW_SECRET
    )

    class Meta:
        model = EndpointSecret
        fields = ("name",)


class ConnectForm(CredentialDetailsForm, ReachForm):
    """A page with everything that the first enumeration of a vendor needs."""

    requires_vendor = True

    @property
    def is_oauth(self) -> bool:
        return self["credential"].value() == NEW and self["kind"].value() in clients.KINDS

    vendor = forms.ModelChoiceField(
        queryset=Vendor.objects.live(),
        required=False,
        empty_label=gettext_lazy("A new vendor"),
        to_field_name="slug",
    )
    vendor_name = forms.CharField(
        max_length=120, required=False, label=gettext_lazy("Name of the new vendor")
    )
    detection = forms.UUIDField(required=False, widget=forms.HiddenInput)
    again = form_field(vendor_operations.AGAIN)
    vendor_request = forms.ModelChoiceField(
        queryset=VendorRequest.objects.all(), required=False, widget=forms.HiddenInput
    )
    credential = forms.ChoiceField()
    kind = forms.ChoiceField(
        choices=[choice for choice in kinds.CHOICES if choice[0] != OAuthKind.USERS],
        required=False,
        label=gettext_lazy("Kind"),
        help_text=gettext_lazy("Not sure? “Preview the tools” shows the kind that the vendor requires."),
    )
    secret = form_field(
        credential_operations.SECRET,
        help_text=gettext_lazy("Stored encrypted, and sent only to this address."),
        widget=NEW_SECRET,
    )

    class Meta(ReachForm.Meta):
        fields = ("protocol", "url", "name", *ReachForm.Meta.fields)
        widgets = ReachForm.Meta.widgets | {"url": SourceInput}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["interval_minutes"] = interval_field()
        stored = FOR_ENDPOINTS.all()
        cast(forms.ChoiceField, self.fields["credential"]).choices = [
            ("", _("None: the tools are public")),
            *(
                (str(row.pk), _("{credential} (for {origin})").format(credential=row.name, origin=row.origin))
                for row in stored
            ),
            (NEW, _("A new one")),
        ]
        self.fields["credential"].required = False
        cast(forms.ChoiceField, self.fields["protocol"]).choices = protocols.connectable()
        self.fields["protocol"].initial = protocols.PROTOCOLS[0].name
        for protocol in protocols.PROTOCOLS:
            for setting in protocol.settings:
                field = setting_field(setting)
                field.required = False  # required only for the chosen protocol
                self.fields[f"{protocol.name}-{setting.name}"] = field
        self.add_policy({})

    def protocol_cards(self) -> Iterator[tuple[type[Protocol], bool, list[BoundField]]]:
        selected_name = self["protocol"].value()
        for protocol in protocols.PROTOCOLS:
            settings = [self[f"{protocol.name}-{setting.name}"] for setting in protocol.settings]
            yield protocol, protocol.name == selected_name, settings

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.requires_vendor and not cleaned.get("vendor") and not cleaned.get("vendor_name"):
            self.add_error("vendor_name", _("Enter the name of the vendor, or choose one above."))
        if cleaned.get("credential") == NEW and not self.is_oauth and not cleaned.get("secret"):
            self.add_error("secret", _("Enter the secret, or choose “None” above."))
        return cleaned

    def vendor_request_context(self) -> dict[str, Any]:
        """Return the vendor request that this endpoint answers, for the page.

        A request that no longer waits is removed from the form, which could not be saved with it.
        """
        request_id = str(self["vendor_request"].value() or "")
        rows = VendorRequest.objects.select_related("asked_by", "answered_by", "endpoint__vendor")
        row = rows.filter(pk=request_id).first() if request_id.isdecimal() else None
        is_over = bool(request_id) and not (row and row.is_waiting)
        if is_over:
            self.initial.pop("vendor_request", None)
            self.data = data = cast(QueryDict, self.data).copy()
            data.pop("vendor_request", None)
        return {"asked": row, "is_over": is_over}

    def settings(self) -> dict[str, Any]:
        protocol = protocols.get(self.cleaned_data["protocol"])
        return {s.name: self.cleaned_data[f"{protocol.name}-{s.name}"] for s in protocol.settings}


class PreviewForm(ConnectForm):
    """The form for a preview, which needs no name of the vendor."""

    requires_vendor = False
