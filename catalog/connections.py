"""Connecting vendors: who they are, where they answer, and with which credential we ask.

Each function is one change by one person and writes its audit row in the same transaction. Removal
hides; tools, versions and what was published stay.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.text import slugify

from catalog import credentials, networks, pacing, protocols, search, setting_values
from catalog import policy as policies
from catalog.addresses import in_ascii
from catalog.errors import CatalogError, invalid
from catalog.models import Credential, Endpoint, Finding, Grant, Tool, Vendor
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE, RunStatus
from catalog.models.tools import ToolStatus
from catalog.models.vendors import CredentialKind
from catalog.oauth import clients
from catalog.protocols.errors import RefusedError
from catalog.sealing import Secret
from catalog.wire import complaint_about_authorities
from people import audit, late_edits, names
from people.models import User

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
RESERVED_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "content-type", "cookie"}
QUERY_NAME = re.compile(r"[A-Za-z0-9._~\[\]$-]{1,64}")
DETAILS: dict[str, tuple[str, ...]] = {
    CredentialKind.HEADER: ("header",),
    CredentialKind.BASIC: ("username",),
    CredentialKind.QUERY: ("parameter",),
    CredentialKind.JWT: ("issuer", "subject", "audience", "lifetime_seconds"),
}
LONGEST_INTERVAL = 7 * 24 * 60
HOW_IT_IS_READ = ("url", "credential_id", "interval_minutes", "settings", "authorities")
# How fast an endpoint may be asked, and who vouches for it (certificates in PEM).
REACH = ("requests_per_second", "requests_at_once", "authorities")
MOST_PER_SECOND, MOST_AT_ONCE = 1_000, 100

Row = TypeVar("Row", Vendor, Endpoint, Credential)


def _check_name(name: str, longest: int) -> None:
    if why := names.why_not(name, longest):
        raise invalid(name=why)


def _locked(row: Row, live: QuerySet[Row]) -> Row:
    """The row as it is now, and ours until the transaction ends; workers may go on pointing at it."""
    found = live.select_for_update(of=("self",), no_key=True).filter(pk=row.pk).first()
    if found is None:
        raise CatalogError(f"{row._meta.model_name}_removed", f"“{row}” has been removed.", status=409)
    return found


@transaction.atomic
def create_vendor(*, actor: User | None, name: str, slug: str = "", homepage: str = "") -> Vendor:
    """`slug` is made from the name when it is not given."""
    vendor = Vendor(name=name.strip(), slug=slug or _slug_for(name), homepage=homepage.strip())
    _check_vendor(vendor)
    try:
        with transaction.atomic():
            vendor.save()
    except IntegrityError as exc:
        way_out = "Choose another short name." if slug else "Choose that one, or give this one another name."
        message = f"There is a vendor “{vendor.slug}” already. {way_out}"
        raise CatalogError("slug_taken", message, fields={"slug": message}, status=409) from exc
    audit.record(actor, "connect", vendor, after=vendor_facts(vendor))
    return vendor


def _slug_for(name: str) -> str:
    """A name without any Latin letter gets one that says nothing rather than being refused."""
    return slugify(name).replace("_", "-")[:60].strip("-") or f"vendor-{secrets.token_hex(4)}"


@transaction.atomic
def update_vendor(
    vendor: Vendor, *, actor: User, expected: str = late_edits.ANY_STATE, **changes: str
) -> Vendor:
    """`expected` is the state that the editor started from (people/late_edits.py); so it is below."""
    vendor = _locked(vendor, Vendor.objects.live())
    before = vendor_facts(vendor)
    for field in changes.keys() & {"name", "homepage"}:
        setattr(vendor, field, changes[field].strip())
    _check_vendor(vendor)
    late_edits.check(vendor, expected, now=before, wanted=vendor_facts(vendor))
    if (after := vendor_facts(vendor)) != before:
        vendor.save(update_fields=["name", "homepage"])
        audit.record(actor, "edit", vendor, before=before, after=after)
        if after["name"] != before["name"]:
            transaction.on_commit(partial(_index_again, vendor), robust=True)
    return vendor


def _index_again(vendor: Vendor) -> None:
    """Tools are found by their vendor's name too."""
    for endpoint in vendor.endpoints.filter(removed_at=None).values_list("pk", flat=True):
        search.read_again(endpoint)


@transaction.atomic
def remove_vendor(vendor: Vendor, *, actor: User, why: str = "", with_credentials: bool = False) -> None:
    """Removes its endpoints too. What agents have pinned and published stays."""
    vendor = _locked(vendor, Vendor.objects.live())
    for endpoint in vendor.endpoints.filter(removed_at=None):
        remove_endpoint(endpoint, actor=actor, why=why, with_credentials=with_credentials)
    vendor.removed_at = timezone.now()
    vendor.save(update_fields=["removed_at"])
    audit.record(actor, "remove", vendor, before=vendor_facts(vendor), why=why)


def _check_vendor(vendor: Vendor) -> None:
    _check_name(vendor.name, 120)
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?", vendor.slug):
        raise invalid(slug="Use small letters, digits and hyphens, up to 60 characters.")
    if len(vendor.homepage) > 500:
        raise invalid(homepage="Give a web address of up to 500 characters.")
    if vendor.homepage:
        try:
            URLValidator(["http", "https"])(vendor.homepage)
        except ValidationError as exc:
            raise invalid(homepage="Give a web address that starts with https://.") from exc


def vendor_facts(vendor: Vendor) -> dict[str, Any]:
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
    policy: Mapping[str, str] | None = None,
    **reach: Any,
) -> Endpoint:
    """Checked, saved and due at once; the caller asks for the first run. `reach`: see REACH."""
    endpoint = Endpoint(
        vendor=_locked(vendor, Vendor.objects.live()),
        protocol=protocol,
        url=in_ascii(url.strip()),
        name=name.strip(),
        credential=credential,
        interval_minutes=interval_minutes,
        settings=dict(settings or {}),
        policy=_checked_policy({}, policy or {}),
        **reach,
    )
    _check_endpoint(endpoint)
    endpoint.save()
    _keep_documents(endpoint)
    audit.record(actor, "connect", endpoint, after=endpoint_facts(endpoint))
    return endpoint


@transaction.atomic
def draft_endpoint(
    *,
    protocol: str,
    url: str,
    credential: Credential | None = None,
    settings: Mapping[str, Any] | None = None,
    authorities: str = "",
    instead_of: Endpoint | None = None,
) -> Endpoint:
    """What would be saved, checked in the same way; a credential may be a draft as well.

    With `instead_of`, documents that this endpoint keeps need not be given again.
    """
    endpoint = Endpoint(
        protocol=protocol,
        url=in_ascii(url.strip()),
        settings=dict(settings or {}),
        authorities=authorities,
    )
    if credential and not credential._state.adding:
        endpoint.credential = credential
    _check_endpoint(endpoint, kept=instead_of.settings if instead_of else {})
    endpoint.credential = credential
    if instead_of:
        endpoint.unsaved_documents = instead_of.documents() | dict(endpoint.unsaved_documents)
    return endpoint


@transaction.atomic
def update_endpoint(
    endpoint: Endpoint, *, actor: User, expected: str = late_edits.ANY_STATE, **changes: Any
) -> Endpoint:
    """Moving to another origin takes the credential off: it was entered for the old address only."""
    endpoint = _locked(endpoint, Endpoint.objects.live().select_related("vendor", "credential"))
    before = endpoint_facts(endpoint)
    if "policy" in changes:
        endpoint.policy = _checked_policy(endpoint.policy, changes["policy"])
    kept = endpoint.settings
    for field in changes.keys() & {"credential", "interval_minutes", "settings", "is_paused", *REACH}:
        setattr(endpoint, field, changes[field])
    if "url" in changes:
        endpoint.url = in_ascii(changes["url"].strip())
    if "name" in changes:
        endpoint.name = changes["name"].strip()
    _check_endpoint(endpoint, keeps_credential="credential" in changes, kept=kept)
    after = endpoint_facts(endpoint)
    late_edits.check(endpoint, expected, now=before, wanted=after)
    if after == before:
        return endpoint
    if any(before[fact] != after[fact] for fact in HOW_IT_IS_READ) or before["is_paused"]:
        endpoint.next_due_at = timezone.now()
        endpoint.memory = {}
        pacing.note_answer(endpoint)
    endpoint.save(
        update_fields=[
            *("url", "name", "credential", "interval_minutes", "settings"),
            *("is_paused", "policy", "next_due_at", "memory"),
            *REACH,
        ]
    )
    _keep_documents(endpoint)
    audit.record(actor, "edit", endpoint, before=before, after=after)
    return endpoint


@transaction.atomic
def remove_endpoint(
    endpoint: Endpoint, *, actor: User, why: str = "", with_credentials: bool = False
) -> None:
    """Stops reading it and withdraws its tools; its findings wait for nobody. Pins and releases go on.

    `with_credentials` forgets its secret too, if no other endpoint uses it.
    """
    now = timezone.now()
    # The run before the endpoint, as workers lock them, so that neither waits for the other for ever.
    endpoint.runs.filter(status__in=ACTIVE).update(
        status=RunStatus.FAILED,
        finished_at=now,
        error_code="ENDPOINT_REMOVED",
        error_message="The endpoint was removed while this run was active. Nothing was written.",
    )
    endpoint = _locked(
        endpoint, Endpoint.objects.filter(removed_at=None).select_related("vendor", "credential")
    )
    endpoint.removed_at = now
    endpoint.save(update_fields=["removed_at"])
    Tool.objects.filter(endpoint=endpoint, status=ToolStatus.ACTIVE).update(
        status=ToolStatus.WITHDRAWN, changed_at=now
    )
    Finding.objects.filter(endpoint=endpoint, state=FindingState.OPEN).update(state=FindingState.NOTED)
    audit.record(actor, "remove", endpoint, before=endpoint_facts(endpoint), why=why)
    credential = endpoint.credential
    if with_credentials and credential and not credential.endpoints.filter(removed_at=None).exists():
        remove_credential(credential, actor=actor, why=why)


def _keep_documents(endpoint: Endpoint) -> None:
    for name, text in endpoint.unsaved_documents.items():
        endpoint.stored_documents.update_or_create(name=name, defaults={"text": text})
    endpoint.stored_documents.exclude(name__in=endpoint.settings).delete()


def _check_endpoint(
    endpoint: Endpoint, *, keeps_credential: bool = True, kept: Mapping[str, Any] = MappingProxyType({})
) -> None:
    if endpoint.protocol not in dict(protocols.choices()):
        known = ", ".join(name for name, _ in protocols.choices())
        raise invalid(protocol=f"Choose one of: {known}.")
    _origin_of(endpoint.url)
    if endpoint.name:
        _check_name(endpoint.name, 120)
    if not 1 <= endpoint.interval_minutes <= LONGEST_INTERVAL:
        raise invalid(interval_minutes="Read between once a minute and once a week (1 to 10,080 minutes).")
    _check_reach(endpoint)
    asked = protocols.get(endpoint.protocol).settings
    endpoint.take_settings(setting_values.checked(asked, endpoint.settings, kept))
    stated_in = "url" if endpoint.credential_url == endpoint.url else "settings"
    origin = _origin_of(endpoint.credential_url, stated_in)
    _check_binding(endpoint, origin, keeps_credential=keeps_credential)


def _check_reach(endpoint: Endpoint) -> None:
    if not 1 <= endpoint.requests_per_second <= MOST_PER_SECOND:
        raise invalid(requests_per_second=f"Choose a number from 1 to {MOST_PER_SECOND:,}.")
    if not 1 <= endpoint.requests_at_once <= MOST_AT_ONCE:
        raise invalid(requests_at_once=f"Choose a number from 1 to {MOST_AT_ONCE}.")
    endpoint.authorities = endpoint.authorities.strip()
    if complaint := complaint_about_authorities(endpoint.authorities):
        raise invalid(authorities=complaint)


def _checked_policy(held: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """What differs from the default, so that a new class of change gets its default everywhere."""
    for name, action in changes.items():
        if name not in policies.CLASSES:
            raise invalid(policy=f"There is no class of change “{name[:60]}”.")
        if action not in policies.ACTIONS:
            raise invalid(policy=f"For “{name}”, choose one of: {', '.join(policies.ACTIONS)}.")
    stated = {**held, **changes}
    return {
        name: stated[name] for name, action in policies.DEFAULT.items() if stated.get(name, action) != action
    }


def _origin_of(url: str, stated_in: str = "url") -> str:
    try:
        return networks.origin_of(url)
    except RefusedError as exc:
        raise invalid(**{stated_in: exc.message}) from exc


def _check_binding(endpoint: Endpoint, origin: str, *, keeps_credential: bool) -> None:
    if endpoint.credential is None:
        return
    credential = _locked(endpoint.credential, Credential.objects.filter(removed_at=None))
    if credential.origin == origin:
        return
    if keeps_credential:
        raise invalid(credential=f"“{credential}” was entered for {credential.origin} and stays there.")
    endpoint.credential = None


def endpoint_facts(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "vendor": endpoint.vendor.slug,
        "protocol": endpoint.protocol,
        "url": endpoint.url,
        "name": endpoint.name,
        "credential": endpoint.credential.name if endpoint.credential else None,
        "credential_id": str(endpoint.credential_id) if endpoint.credential_id else None,
        "interval_minutes": endpoint.interval_minutes,
        "settings": endpoint.settings,
        "is_paused": endpoint.is_paused,
        "policy": dict(policies.whole(endpoint.policy)),
        "requests_per_second": endpoint.requests_per_second,
        "requests_at_once": endpoint.requests_at_once,
        "authorities": _digest_of(endpoint.authorities),
    }


def _digest_of(authorities: str) -> str:
    return f"sha256:{hashlib.sha256(authorities.encode()).hexdigest()}" if authorities else ""


@transaction.atomic
def create_credential(
    *, actor: User, name: str, kind: str, url: str, secret: str, **details: Any
) -> Credential:
    """`url` is any address of the origin that the secret may be sent to; it goes nowhere else.

    Of `details`, those that DETAILS lists for the kind are kept. With OAuth those of `clients.DETAILS`; there
    `secret` is the client's, goes to the token endpoint alone, and is "" for a public client.
    """
    credential = draft_credential(name=name, kind=kind, url=url, secret=secret, **details)
    credential.set_by = actor
    credential.save()
    if clients.uses_oauth(credential):
        credential.grant.save()
    audit.record(actor, "enter", credential, after=credential_facts(credential))
    return credential


def draft_credential(*, name: str, kind: str, url: str, secret: str, **details: Any) -> Credential:
    """What `create_credential` would save, checked and sealed."""
    credential = Credential(
        name=name.strip(),
        kind=kind,
        **{name: details[name] for name in DETAILS.get(kind, ()) if details.get(name)},
        origin=_origin_of(in_ascii(url.strip())),
    )
    _check_credential(credential)
    if clients.uses_oauth(credential):
        clients.draft(credential, url, details)
    _seal(credential, secret)
    return credential


@transaction.atomic
def update_client(
    credential: Credential,
    *,
    actor: User,
    secret: str = "",
    expected: str = late_edits.ANY_STATE,
    **changes: Any,
) -> Credential:
    """Changes what `clients.DETAILS` lists of an OAuth client, and its secret when one is given.

    A secret goes to no other token server than the one it was entered for, and tokens belong to one client:
    what does not fit any more is forgotten, and the credential asks for it again.
    """
    credential = _locked(credential, Credential.objects.filter(removed_at=None))
    if not clients.uses_oauth(credential):
        raise CatalogError("no_client", "This credential has no settings of OAuth.", status=409)
    grant = Grant.objects.select_for_update().get(credential=credential)
    credential.grant = grant
    before = credential_facts(credential)
    clients.change(grant, changes, has_new_secret=bool(secret))
    if secret:
        _seal(credential, secret)
        credential.set_at, credential.set_by = timezone.now(), actor
        credential.save(update_fields=["sealed", "fingerprint", "set_at", "set_by"])
        clients.try_again(credential)
    after = credential_facts(credential)
    late_edits.check(credential, expected, now=before, wanted=after)
    if after != before:
        audit.record(actor, "edit", credential, before=before, after=after)
    return credential


@transaction.atomic
def sign_out(credential: Credential, *, actor: User) -> None:
    """Forgets the tokens of an OAuth credential, and whoever is renewing them writes nothing."""
    credential = _locked(credential, Credential.objects.filter(removed_at=None))
    if clients.uses_oauth(credential):
        clients.forget_tokens(
            Grant.objects.select_for_update().get(credential=credential), "a person signed it out"
        )
        audit.record(actor, "sign out", credential)


@transaction.atomic
def replace_secret(credential: Credential, *, actor: User, secret: str) -> Credential:
    credential = _locked(credential, Credential.objects.filter(removed_at=None))
    before = credential_facts(credential)
    _seal(credential, secret)
    credential.set_at, credential.set_by = timezone.now(), actor
    credential.used_at = credential.refused_at = None
    credential.save(update_fields=["sealed", "fingerprint", "set_at", "set_by", "used_at", "refused_at"])
    clients.try_again(credential)
    audit.record(actor, "replace", credential, before=before, after=credential_facts(credential))
    return credential


@transaction.atomic
def remove_credential(credential: Credential, *, actor: User, why: str = "") -> None:
    """Forgets the secret, and tokens. Refused while an endpoint uses it."""
    credential = _locked(credential, Credential.objects.filter(removed_at=None))
    if used := credential.endpoints.filter(removed_at=None).first():
        raise CatalogError(
            "credential_in_use",
            f"The endpoint “{used}” uses it. Give that endpoint another credential first.",
            status=409,
        )
    before = credential_facts(credential)
    credential.removed_at, credential.sealed = timezone.now(), ""
    credential.save(update_fields=["removed_at", "sealed"])
    clients.destroy(credential)
    audit.record(actor, "remove", credential, before=before, why=why)


def _check_credential(credential: Credential) -> None:
    _check_name(credential.name, 100)
    match credential.kind:
        case CredentialKind.HEADER:
            name = credential.header
            if not HEADER_NAME.fullmatch(name) or name.lower() in RESERVED_HEADERS:
                raise invalid(header="Give the name of one request header, such as X-Api-Key.")
        case CredentialKind.BASIC:
            if not credential.username or len(credential.username) > 200 or ":" in credential.username:
                raise invalid(username="Give the user name, without a colon.")
        case CredentialKind.QUERY:
            if not QUERY_NAME.fullmatch(credential.parameter):
                raise invalid(parameter="Give the name of one query parameter, such as api_key.")
        case CredentialKind.JWT:
            _check_token(credential)
        case CredentialKind.BEARER | CredentialKind.OAUTH_CLIENT | CredentialKind.OAUTH_CODE:
            pass
        case _:
            raise invalid(kind=f"Choose one of: {', '.join(CredentialKind.values)}.")


def _check_token(credential: Credential) -> None:
    for name in ("issuer", "subject", "audience"):
        value = getattr(credential, name)
        if len(value) > 200 or not value.isprintable():
            raise invalid(**{name: "Give up to 200 characters on one line."})
    life = credential.lifetime_seconds or credentials.USUAL_LIFE
    if not 30 <= life <= credentials.LONGEST_LIFE:
        raise invalid(lifetime_seconds="A token lives from 30 seconds to 15 minutes (900).")
    credential.lifetime_seconds = life


def _seal(credential: Credential, secret: str) -> None:
    if _takes_no_secret(credential, secret):
        return
    if not secret.strip() or len(secret) > 8_000 or not secret.isprintable() or not secret.isascii():
        raise invalid(secret="Enter the secret on one line, with plain characters only.")  # noqa: S106
    credentials.seal(credential, Secret(secret))


def _takes_no_secret(credential: Credential, secret: str) -> bool:
    """A public client of OAuth has none; one that is entered all the same is refused rather than kept."""
    if not clients.uses_oauth(credential) or clients.has_secret(credential.grant):
        return False
    if secret:
        raise invalid(secret="A client without authentication has no secret. Leave this empty.")  # noqa: S106
    return True


def credential_facts(credential: Credential) -> dict[str, Any]:
    details = {name: getattr(credential, name) for names in DETAILS.values() for name in names}
    if clients.uses_oauth(credential):
        details |= clients.facts(credential.grant)
    return {
        "name": credential.name,
        "kind": credential.kind,
        "origin": credential.origin,
        **{name: value for name, value in details.items() if value},
        "fingerprint": credential.fingerprint,
    }


def vendors_with_counts() -> QuerySet[Vendor]:
    """Live vendors with how many live endpoints and active tools each has."""
    endpoints = Endpoint.objects.filter(vendor=OuterRef("pk"), removed_at=None)
    tools = Tool.objects.filter(endpoint__vendor=OuterRef("pk"), status=ToolStatus.ACTIVE)
    return Vendor.objects.live().annotate(
        endpoint_count=_count(endpoints.values("vendor")), tool_count=_count(tools.values("endpoint__vendor"))
    )


def _count(grouped: QuerySet[Any, Any]) -> Coalesce:
    """Beside each row and not in a join, where the counts would multiply each other's work."""
    return Coalesce(Subquery(grouped.order_by().annotate(n=Count("pk")).values("n")), 0)
