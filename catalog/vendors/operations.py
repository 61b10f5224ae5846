"""Connecting vendors: who they are and where they answer. With which credential: catalog/credentials.

Each function is one change by one person and writes its audit row in the same transaction. Removal hides a
row. Tools, versions and releases stay.
"""

import hashlib
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, connection, models, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

import protocols
from catalog import bounds
from catalog.credentials import circuit_breaker
from catalog.credentials import operations as credential_operations
from catalog.locking import check_name, lock_row, origin_of
from catalog.models import Credential, Endpoint, Finding, Tool, Vendor, VendorRequest
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE, RunStatus
from catalog.models.tools import ItemKind, ToolStatus, lock_in_order
from catalog.models.vendors import OAuthKind
from catalog.notifications import outbox
from catalog.review import policy_changes
from catalog.rules import policy as policies
from catalog.rules import retries
from catalog.rules.retries import Stated
from catalog.twins import already_connected
from catalog.vendors import setting_values, vendor_requests
from core import slugs, unique_violations
from core.errors import DomainError, invalid
from core.outbound.addresses import in_ascii
from core.outbound.sockets import authorities_problem
from core.query_deadline import long_transaction
from people import audit
from people.audit import edit_conflicts
from people.models import User

HOW_IT_IS_READ = (
    *("protocol", "url", "credential_id", "interval_minutes", "settings", "authorities"),
    *("max_tools", "max_minutes", "max_megabytes", "max_reply_megabytes"),
)
# Rate limits, certificate authorities (PEM) and the limits of the list.
REACH = ("requests_per_second", "requests_at_once", "authorities", *bounds.FIELDS)
_NUMBERS = tuple(field for field in REACH if field != "authorities")

AGAIN: "models.BooleanField[bool, bool]" = models.BooleanField(
    blank=True, help_text="Connect an address a second time, with another credential."
)


@transaction.atomic
def create_vendor(*, actor: User | None, name: str, slug: str = "", homepage: str = "") -> Vendor:
    """Create a vendor. `slug` is made from the name when it is not given."""
    # A name without Latin letters gets a meaningless slug instead of being refused.
    base_slug = slug or slugs.from_name(name) or f"vendor-{secrets.token_hex(4)}"
    vendor = Vendor(name=name.strip(), slug=base_slug, homepage=homepage.strip())
    _check_vendor(vendor)
    try:
        with transaction.atomic():
            vendor.save()
    except IntegrityError as exc:
        if not unique_violations.is_taken(exc):
            raise
        if slug:
            template = _("There is a vendor “{vendor}” already. Choose another short name.")
        else:
            template = _(
                "There is a vendor “{vendor}” already. Choose that one, or give this one another name."
            )
        message = template.format(vendor=vendor.slug)
        raise DomainError("slug_taken", message, fields={"slug": message}, status=409) from exc
    audit.record(actor, "connect", vendor, after=vendor_facts(vendor))
    return vendor


@transaction.atomic
def vendor_of_address(*, actor: User | None, name: str, url: str) -> Vendor:
    """Return the vendor of this name that a failed try of the address has left; else a new one."""
    tried = Endpoint.objects.live().filter(url=in_ascii(url.strip()), tools=None)
    same_name = Vendor.objects.live().filter(name__iexact=name.strip(), endpoints__in=tried)
    return same_name.order_by("pk").first() or create_vendor(actor=actor, name=name)


@transaction.atomic
def update_vendor(
    vendor: Vendor, *, actor: User, expected: str = edit_conflicts.ANY_STATE, **changes: str
) -> Vendor:
    """Change a vendor. expected: the state that the editor started from; see `edit_conflicts`."""
    vendor = lock_row(vendor, Vendor.objects.live())
    before = vendor_facts(vendor)
    for field in changes.keys() & {"name", "homepage"}:
        setattr(vendor, field, changes[field].strip())
    _check_vendor(vendor)
    edit_conflicts.check(vendor, expected, now=before, submitted=vendor_facts(vendor))
    if (after := vendor_facts(vendor)) != before:
        if after["name"] != before["name"]:
            vendor.renamed_at = timezone.now()  # its tools are found by this name once they are indexed again
        vendor.save(update_fields=["name", "homepage", "renamed_at"])
        audit.record(actor, "edit", vendor, before=before, after=after)
    return vendor


@long_transaction()
def remove_vendor(vendor: Vendor, *, actor: User, why: str = "", with_credentials: bool = False) -> None:
    """Remove the vendor and its endpoints. Pins and releases of agents stay."""
    vendor = lock_row(vendor, Vendor.objects.live())
    for endpoint in vendor.endpoints.filter(removed_at=None):
        remove_endpoint(endpoint, actor=actor, why=why, with_credentials=with_credentials)
    vendor.removed_at = timezone.now()
    vendor.save(update_fields=["removed_at"])
    audit.record(actor, "remove", vendor, before=vendor_facts(vendor), why=why)


def _check_vendor(vendor: Vendor) -> None:
    check_name(vendor.name, 120)
    vendor.slug = slugs.parse_slug(vendor.slug)
    if len(vendor.homepage) > 500:
        raise invalid(homepage=_("Enter a web address of up to 500 characters."))
    if vendor.homepage:
        try:
            URLValidator(["http", "https"])(vendor.homepage)
        except ValidationError as exc:
            raise invalid(homepage=_("Enter a web address that starts with https://.")) from exc


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
    retry: Stated | None = None,
    again: bool = False,
    vendor_request: VendorRequest | None = None,
    **reach: Any,
) -> Endpoint:
    """Validate and save an endpoint that is due at once. The caller requests the first run. `reach`: see
    REACH.

    It answers requests for its address, and `vendor_request`, whose address may have been corrected.

    An address that is connected already is refused, unless `again` is set for another credential or other
    settings.

    Without a sign-in for its credential it is paused until there is one: `onboarding.start_waiting_runs`.
    """
    endpoint = Endpoint(
        vendor=lock_row(vendor, Vendor.objects.live()),
        protocol=protocol,
        url=in_ascii(url.strip()),
        name=name.strip(),
        credential=credential,
        interval_minutes=interval_minutes,
        settings=dict(settings or {}),
        policy=_checked_policy({}, policy or {}),
        retry=retries.change_policy({}, retry or {}),
        **reach,
    )
    _check_endpoint(endpoint)
    _check_twins(endpoint, again=again)
    endpoint.is_paused = credential is not None and credential.awaits_sign_in
    endpoint.save()
    _keep_documents(endpoint)
    audit.record(actor, "connect", endpoint, after=endpoint_facts(endpoint))
    vendor_requests.approve(endpoint, actor=actor, vendor_request=vendor_request)
    return endpoint


@transaction.atomic
def draft_endpoint(
    *,
    protocol: str,
    url: str,
    credential: Credential | None = None,
    settings: Mapping[str, Any] | None = None,
    instead_of: Endpoint | None = None,
    **reach: Any,
) -> Endpoint:
    """Return the validated endpoint that would be saved. A credential may be a draft too. `reach`: see REACH.

    instead_of: an endpoint whose stored documents are used unless others are given.
    """
    endpoint = Endpoint(
        protocol=protocol,
        url=in_ascii(url.strip()),
        settings=dict(settings or {}),
        **reach,
    )
    if credential and not credential._state.adding:
        endpoint.credential = credential
    _check_endpoint(endpoint, stored_settings=instead_of.settings if instead_of else {})
    endpoint.credential = credential
    if instead_of:
        endpoint.unsaved_documents = instead_of.documents() | dict(endpoint.unsaved_documents)
    return endpoint


@transaction.atomic
def update_endpoint(
    endpoint: Endpoint,
    *,
    actor: User,
    expected: str = edit_conflicts.ANY_STATE,
    again: bool = False,
    **changes: Any,
) -> Endpoint:
    """Change an endpoint. Another origin removes the credential, which is only for the old one. A new address
    answers the requests for it.

    again: as for `create_endpoint`.
    """
    endpoint = lock_row(endpoint, Endpoint.objects.live().select_related("vendor", "credential"))
    before = endpoint_facts(endpoint)
    stored_settings = endpoint.settings
    _set_fields(endpoint, changes)
    _check_endpoint(endpoint, keeps_credential="credential" in changes, stored_settings=stored_settings)
    if (endpoint.url, endpoint.protocol) != (before["url"], before["protocol"]):
        _check_twins(endpoint, again=again)
    after = endpoint_facts(endpoint)
    edit_conflicts.check(endpoint, expected, now=before, submitted=after)
    if after == before:
        return endpoint
    if any(before[fact] != after[fact] for fact in HOW_IT_IS_READ) or before["is_paused"]:
        endpoint.next_due_at = Now()  # the database's clock decides what is due
        endpoint.memory = {}
        circuit_breaker.reset(endpoint)
    endpoint.save(
        update_fields=[
            *("protocol", "url", "name", "credential", "interval_minutes", "settings"),
            *("is_paused", "policy", "retry", "next_due_at", "memory"),
            *REACH,
        ]
    )
    endpoint.refresh_from_db(fields=["next_due_at"])
    _keep_documents(endpoint)
    if after["policy"] != before["policy"]:
        after |= policy_changes.apply_to_waiting(endpoint)
    audit.record(actor, "edit", endpoint, before=before, after=after)
    if endpoint.url != before["url"]:
        vendor_requests.approve(endpoint, actor=actor)
    return endpoint


def _set_fields(endpoint: Endpoint, changes: Mapping[str, Any]) -> None:
    if changes.get("protocol", endpoint.protocol) != endpoint.protocol:
        if endpoint.tools.exists():
            message = _(
                "Tools were synced with this protocol. To use another one, connect the address again."
            )
            raise DomainError("protocol_fixed", message, fields={"protocol": message}, status=409)
        # The settings are those of the new protocol, as it has them by default.
        endpoint.protocol, endpoint.settings = changes["protocol"], {}
    if "policy" in changes:
        endpoint.policy = _checked_policy(endpoint.policy, changes["policy"])
    if "retry" in changes:
        endpoint.retry = retries.change_policy(endpoint.retry, changes["retry"])
    for field in changes.keys() & {"credential", "interval_minutes", "settings", "is_paused", *REACH}:
        setattr(endpoint, field, changes[field])
    if "url" in changes:
        endpoint.url = in_ascii(changes["url"].strip())
    if "name" in changes:
        endpoint.name = changes["name"].strip()


@long_transaction()
def remove_endpoint(
    endpoint: Endpoint, *, actor: User, why: str = "", with_credentials: bool = False
) -> None:
    """Stop the enumeration of an endpoint and withdraw its tools. Its findings need no decision any more.
    Pins and releases stay.

    with_credentials: delete its credential too, if no other endpoint uses it.
    """
    now = timezone.now()
    # The run before the endpoint, as workers lock them, so that neither waits for the other for ever.
    endpoint.runs.filter(status__in=ACTIVE).update(
        status=RunStatus.FAILED,
        finished_at=now,
        error_code="ENDPOINT_REMOVED",
        error_message="The endpoint was removed during this sync. Nothing was stored.",
    )
    endpoint = lock_row(
        endpoint, Endpoint.objects.filter(removed_at=None).select_related("vendor", "credential")
    )
    endpoint.removed_at = now
    endpoint.save(update_fields=["removed_at"])
    active = Tool.objects.filter(endpoint=endpoint, status=ToolStatus.ACTIVE)
    lock_in_order(active)
    if active.update(status=ToolStatus.WITHDRAWN, changed_at=now):
        outbox.report_withdrawn_tools(f"endpoint:{endpoint.pk}")
    Finding.objects.filter(endpoint=endpoint, state=FindingState.OPEN).update(state=FindingState.NOTED)
    audit.record(actor, "remove", endpoint, before=endpoint_facts(endpoint), why=why)
    credential = endpoint.credential
    if with_credentials and credential and not credential.endpoints.filter(removed_at=None).exists():
        credential_operations.remove_credential(credential, actor=actor, why=why)


def _keep_documents(endpoint: Endpoint) -> None:
    for name, text in endpoint.unsaved_documents.items():
        endpoint.stored_documents.update_or_create(name=name, defaults={"text": text})
    endpoint.stored_documents.exclude(name__in=endpoint.settings).delete()


def _check_endpoint(
    endpoint: Endpoint,
    *,
    keeps_credential: bool = True,
    stored_settings: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    if endpoint.protocol not in dict(protocols.connectable()):
        protocol_names = ", ".join(name for name, _unused in protocols.connectable())
        raise invalid(protocol=_("Choose one of: {choices}.").format(choices=protocol_names))
    origin_of(endpoint.url)
    if endpoint.name:
        check_name(endpoint.name, 120)
    if not 1 <= endpoint.interval_minutes <= bounds.highest("interval_minutes"):
        raise invalid(
            interval_minutes=_("Choose an interval between one minute and one week (1 to 10,080 minutes).")
        )
    _check_reach(endpoint)
    settings = protocols.get(endpoint.protocol).settings
    endpoint.take_settings(setting_values.validated_settings(settings, endpoint.settings, stored_settings))
    stated_in = "url" if endpoint.credential_url == endpoint.url else "settings"
    origin = origin_of(endpoint.credential_url, stated_in)
    if endpoint.credential is None:
        return
    credential = lock_row(endpoint.credential, Credential.objects.filter(removed_at=None))
    if credential.kind == OAuthKind.USERS:
        raise invalid(
            credential=_("“{credential}” is for users of agents, and not for the endpoint itself.").format(
                credential=credential
            )
        )
    if credential.origin == origin:
        return
    if keeps_credential:
        raise invalid(
            credential=_("“{credential}” was entered for {origin} and cannot be used elsewhere.").format(
                credential=credential, origin=credential.origin
            )
        )
    endpoint.credential = None


def _check_twins(endpoint: Endpoint, *, again: bool) -> None:
    # A user who connects an address again sees the existing endpoint and decides. The lock makes concurrent
    # requests for one address see each other.
    with connection.cursor() as cursor:  # two who connect one address at once see each other
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('core.outbound.addresses'))")
    existing = already_connected(endpoint)
    if not existing or (again and not existing[0].is_same):
        return
    message = existing[0].message
    raise DomainError("already_connected", message, fields={"url": message}, status=409)


def _check_reach(endpoint: Endpoint) -> None:
    for field in _NUMBERS:
        if not 1 <= getattr(endpoint, field) <= bounds.highest(field):
            maximum = number_format(bounds.highest(field), force_grouping=True)
            raise invalid(**{field: _("Choose a number from 1 to {maximum}.").format(maximum=maximum)})
    endpoint.authorities = endpoint.authorities.strip()
    if complaint := authorities_problem(endpoint.authorities):
        raise invalid(authorities=complaint)


def _checked_policy(stored_policy: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    # Only differences from the default, so that a new class of change has its default everywhere.
    for name, action in changes.items():
        if name not in policies.CLASSES:
            raise invalid(policy=_("There is no class of change “{change}”.").format(change=name[:60]))
        if action not in policies.ACTIONS:
            raise invalid(
                policy=_("For “{change}”, choose one of: {actions}.").format(
                    change=name, actions=", ".join(policies.ACTIONS)
                )
            )
    stated = {**stored_policy, **changes}
    return {
        name: stated[name] for name, action in policies.DEFAULT.items() if stated.get(name, action) != action
    }


def endpoint_facts(endpoint: Endpoint) -> dict[str, Any]:
    authorities = hashlib.sha256(endpoint.authorities.encode()).hexdigest()
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
        "policy": dict(policies.with_defaults(endpoint.policy)),
        "retry": endpoint.retry,
        "requests_per_second": endpoint.requests_per_second,
        "requests_at_once": endpoint.requests_at_once,
        "authorities": f"sha256:{authorities}" if endpoint.authorities else "",
        **{field: getattr(endpoint, field) for field in bounds.FIELDS},
    }


def vendors_with_counts() -> QuerySet[Vendor]:
    """Return live vendors, each with the numbers of its live endpoints and active tools."""
    endpoints = Endpoint.objects.filter(vendor=OuterRef("pk"), removed_at=None)
    items = Tool.objects.filter(endpoint__vendor=OuterRef("pk"), status=ToolStatus.ACTIVE)
    # As `EndpointQuerySet.with_item_counts` counts them.
    beside_tools = items.exclude(kind=ItemKind.TOOL)
    return Vendor.objects.live().annotate(
        endpoint_count=_count_grouped(endpoints.values("vendor")),
        tool_count=_count_grouped(items.values("endpoint__vendor"))
        - _count_grouped(beside_tools.values("endpoint__vendor")),
    )


def _count_grouped(grouped_rows: QuerySet[Any, Any]) -> Coalesce:
    # Beside each row and not in a join, where the counts would multiply each other's work.
    return Coalesce(Subquery(grouped_rows.order_by().annotate(n=Count("pk")).values("n")), 0)
