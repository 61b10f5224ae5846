"""Connecting vendors: who they are, where they answer, and with which credential we ask.

Each function is one change by one person and writes its audit row in the same transaction. Removal
hides; tools, versions and what was published stay.
"""

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, transaction
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.text import slugify

from catalog import credentials, protocols
from catalog.addresses import check_url
from catalog.credentials import Secret, origin_of
from catalog.errors import CatalogError
from catalog.models import Credential, Endpoint, Tool, Vendor
from catalog.models.runs import ACTIVE
from catalog.models.tools import ToolStatus
from catalog.models.vendors import CredentialKind
from catalog.protocols.base import Setting
from catalog.protocols.errors import RefusedError
from people import audit
from people.models import User

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
RESERVED_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "content-type", "cookie"}
LONGEST_INTERVAL = 7 * 24 * 60


def _invalid(**fields: str) -> CatalogError:
    return CatalogError("invalid", "Please correct what is marked.", fields=fields)


@transaction.atomic
def create_vendor(*, actor: User | None, name: str, slug: str = "", homepage: str = "") -> Vendor:
    """`slug` is made from the name when it is not given."""
    vendor = Vendor(name=name.strip(), slug=slug or slugify(name)[:60], homepage=homepage)
    _check_vendor(vendor)
    _save_vendor(vendor)
    audit.record(actor, "connect", vendor, after=_vendor_facts(vendor))
    return vendor


@transaction.atomic
def update_vendor(vendor: Vendor, *, actor: User, **changes: str) -> Vendor:
    before = _vendor_facts(vendor)
    for field in changes.keys() & {"name", "homepage"}:
        setattr(vendor, field, changes[field].strip())
    _check_vendor(vendor)
    _save_vendor(vendor)
    audit.record(actor, "edit", vendor, before=before, after=_vendor_facts(vendor))
    return vendor


@transaction.atomic
def remove_vendor(vendor: Vendor, *, actor: User) -> None:
    """Removes its endpoints too. What agents have pinned and published stays."""
    for endpoint in vendor.endpoints.filter(removed_at=None):
        remove_endpoint(endpoint, actor=actor)
    vendor.removed_at = timezone.now()
    vendor.save(update_fields=["removed_at"])
    audit.record(actor, "remove", vendor, before=_vendor_facts(vendor))


def _check_vendor(vendor: Vendor) -> None:
    if not vendor.name or len(vendor.name) > 120:
        raise _invalid(name="Give a name of up to 120 characters.")
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?", vendor.slug):
        raise _invalid(slug="Use small letters, digits and hyphens, up to 60 characters.")
    if vendor.homepage:
        try:
            URLValidator(["http", "https"])(vendor.homepage)
        except ValidationError as exc:
            raise _invalid(homepage="Give a web address that starts with https://.") from exc


def _save_vendor(vendor: Vendor) -> None:
    try:
        with transaction.atomic():
            vendor.save()
    except IntegrityError as exc:
        raise CatalogError(
            "slug_taken",
            f"There is a vendor “{vendor.slug}” already.",
            fields={"slug": "Choose another short name."},
            status=409,
        ) from exc


def _vendor_facts(vendor: Vendor) -> dict[str, Any]:
    return {"name": vendor.name, "slug": vendor.slug, "homepage": vendor.homepage}


@transaction.atomic
def create_endpoint(
    *,
    actor: User | None,
    vendor: Vendor,
    protocol: str,
    url: str,
    name: str = "",
    credential: Credential | None = None,
    interval_minutes: int = 60,
    settings: Mapping[str, Any] | None = None,
) -> Endpoint:
    """Checked, saved and due at once; the caller asks for the first run."""
    endpoint = Endpoint(
        vendor=vendor,
        protocol=protocol,
        url=url.strip(),
        name=name.strip(),
        credential=credential,
        interval_minutes=interval_minutes,
        settings=dict(settings or {}),
    )
    _check_endpoint(endpoint)
    endpoint.save()
    audit.record(actor, "connect", endpoint, after=_endpoint_facts(endpoint))
    return endpoint


@transaction.atomic
def update_endpoint(endpoint: Endpoint, *, actor: User, **changes: Any) -> Endpoint:
    """Moving to another origin takes the credential off: it was entered for the old address only."""
    before = _endpoint_facts(endpoint)
    for field in changes.keys() & {"url", "name", "credential", "interval_minutes", "settings", "is_paused"}:
        setattr(endpoint, field, changes[field])
    _check_endpoint(endpoint, keeps_credential="credential" in changes)
    if "interval_minutes" in changes or (before["is_paused"] and not endpoint.is_paused):
        endpoint.next_due_at = timezone.now()
    endpoint.save()
    audit.record(actor, "edit", endpoint, before=before, after=_endpoint_facts(endpoint))
    return endpoint


@transaction.atomic
def remove_endpoint(endpoint: Endpoint, *, actor: User) -> None:
    """Stops reading it and withdraws its tools. Pins and releases go on."""
    endpoint.removed_at = timezone.now()
    endpoint.save(update_fields=["removed_at"])
    endpoint.runs.filter(status__in=ACTIVE).update(
        status="failed",
        finished_at=timezone.now(),
        error_code="ENDPOINT_REMOVED",
        error_message="The endpoint was removed while this run was active. Nothing was written.",
    )
    Tool.objects.filter(endpoint=endpoint, status=ToolStatus.ACTIVE).update(status=ToolStatus.WITHDRAWN)
    audit.record(actor, "remove", endpoint, before=_endpoint_facts(endpoint))


def _check_endpoint(endpoint: Endpoint, *, keeps_credential: bool = True) -> None:
    if endpoint.protocol not in dict(protocols.choices()):
        names = ", ".join(name for name, _ in protocols.choices())
        raise _invalid(protocol=f"Choose one of: {names}.")
    try:
        check_url(endpoint.url, credentials.outbound_policy())
    except RefusedError as exc:
        raise _invalid(url=exc.message) from exc
    if len(endpoint.name) > 120:
        raise _invalid(name="Give a name of up to 120 characters.")
    if not 1 <= endpoint.interval_minutes <= LONGEST_INTERVAL:
        raise _invalid(interval_minutes="Read between once a minute and once a week (1 to 10,080 minutes).")
    endpoint.settings = _checked_settings(protocols.get(endpoint.protocol).settings, endpoint.settings)
    _check_binding(endpoint, keeps_credential=keeps_credential)


def _check_binding(endpoint: Endpoint, *, keeps_credential: bool) -> None:
    credential = endpoint.credential
    if credential is None or credential.origin == origin_of(endpoint.url):
        return
    if keeps_credential:
        raise _invalid(credential=f"“{credential}” was entered for {credential.origin} and stays there.")
    endpoint.credential = None


def _checked_settings(known: tuple[Setting, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := given.keys() - {setting.name for setting in known}:
        raise _invalid(settings=f"There is no setting “{sorted(unknown)[0][:60]}” here.")
    return {s.name: _checked_setting(s, given[s.name]) for s in known if given.get(s.name) not in (None, "")}


def _checked_setting(setting: Setting, value: Any) -> Any:
    expected = {"text": str, "integer": int, "boolean": bool}[setting.kind]
    if not isinstance(value, expected) or (setting.kind == "integer" and isinstance(value, bool)):
        raise _invalid(settings=f"“{setting.label}” takes {setting.kind} values.")
    low, high = setting.minimum, setting.maximum
    if isinstance(value, int) and ((low is not None and value < low) or (high is not None and value > high)):
        raise _invalid(settings=f"“{setting.label}” takes a number from {low} to {high}.")
    return value


def _endpoint_facts(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "vendor": endpoint.vendor.slug,
        "protocol": endpoint.protocol,
        "url": endpoint.url,
        "name": endpoint.name,
        "credential": endpoint.credential.name if endpoint.credential else None,
        "interval_minutes": endpoint.interval_minutes,
        "settings": endpoint.settings,
        "is_paused": endpoint.is_paused,
    }


@transaction.atomic
def create_credential(
    *, actor: User, name: str, kind: str, url: str, secret: str, header: str = "", username: str = ""
) -> Credential:
    """`url` is any address of the origin that the secret may be sent to; it goes nowhere else."""
    try:
        check_url(url, credentials.outbound_policy())
    except RefusedError as exc:
        raise _invalid(url=exc.message) from exc
    credential = Credential(
        name=name.strip(), kind=kind, header=header, username=username, origin=origin_of(url), set_by=actor
    )
    _check_credential(credential)
    _seal(credential, secret)
    credential.save()
    audit.record(actor, "enter", credential, after=_credential_facts(credential))
    return credential


@transaction.atomic
def replace_secret(credential: Credential, *, actor: User, secret: str) -> Credential:
    before = _credential_facts(credential)
    _seal(credential, secret)
    credential.set_at, credential.set_by = timezone.now(), actor
    credential.save()
    audit.record(actor, "replace", credential, before=before, after=_credential_facts(credential))
    return credential


@transaction.atomic
def remove_credential(credential: Credential, *, actor: User) -> None:
    """Forgets the secret. Refused while an endpoint uses it."""
    if used := credential.endpoints.filter(removed_at=None).first():
        raise CatalogError(
            "credential_in_use",
            f"The endpoint “{used}” uses it. Give that endpoint another credential first.",
            status=409,
        )
    before = _credential_facts(credential)
    credential.removed_at, credential.sealed = timezone.now(), ""
    credential.save(update_fields=["removed_at", "sealed"])
    audit.record(actor, "remove", credential, before=before)


def _check_credential(credential: Credential) -> None:
    if not credential.name or len(credential.name) > 100:
        raise _invalid(name="Give a name of up to 100 characters.")
    match credential.kind:
        case CredentialKind.HEADER:
            name = credential.header
            if not HEADER_NAME.fullmatch(name) or name.lower() in RESERVED_HEADERS:
                raise _invalid(header="Give the name of one request header, such as X-Api-Key.")
        case CredentialKind.BASIC:
            if not credential.username or len(credential.username) > 200 or ":" in credential.username:
                raise _invalid(username="Give the user name, without a colon.")
        case CredentialKind.BEARER:
            pass
        case _:
            raise _invalid(kind=f"Choose one of: {', '.join(CredentialKind.values)}.")


def _seal(credential: Credential, secret: str) -> None:
    if not secret or len(secret) > 8_000 or not secret.isprintable() or not secret.isascii():
        raise _invalid(secret="Enter the secret on one line, with plain characters only.")  # noqa: S106
    credentials.seal(credential, Secret(secret))


def _credential_facts(credential: Credential) -> dict[str, Any]:
    return {
        "name": credential.name,
        "kind": credential.kind,
        "origin": credential.origin,
        "header": credential.header,
        "username": credential.username,
        "fingerprint": credential.fingerprint,
    }


def vendors_with_counts() -> QuerySet[Vendor]:
    """Live vendors with how many live endpoints and active tools each has."""
    tools = Tool.objects.filter(endpoint__vendor=OuterRef("pk"), status=ToolStatus.ACTIVE)
    return Vendor.objects.live().annotate(
        endpoint_count=Count("endpoints", filter=Q(endpoints__removed_at=None)),
        tool_count=Coalesce(
            Subquery(tools.values("endpoint__vendor").annotate(n=Count("pk")).values("n")), 0
        ),
    )
