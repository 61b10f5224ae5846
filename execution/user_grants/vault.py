"""Secrets that tools of an endpoint need by name. Administrators enter them.

A value is sent only to the endpoint's origin, in calls of tools that need it, and is never shown again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.models import Endpoint, EndpointSecret, ToolVersion
from core import encryption
from core.encryption import Secret
from core.errors import DomainError, invalid
from core.outbound.policy import origin_of
from people import audit
from people.models import User
from protocols.base import Needs

FIELD = "catalog.endpointsecret.sealed"
MAX_LENGTH, MAX_NAME_LENGTH, MAX_SECRETS = 8_000, 500, 100
MAX_TOOLS_READ, SHOWN = 500, 5


def names(endpoint: Endpoint) -> list[str]:
    """Return the names of the secrets for the endpoint's current address."""
    return list(_secrets_of_address(endpoint).values_list("name", flat=True))


def names_by_endpoint(endpoints: Collection[Endpoint]) -> dict[int, list[str]]:
    """Return the names of the stored secrets by endpoint, in one query."""
    origins = {endpoint.pk: origin_of(endpoint.credential_url, may_ask=True) for endpoint in endpoints}
    names: dict[int, list[str]] = {}
    if not origins:
        return names
    rows = EndpointSecret.objects.filter(endpoint__in=origins)
    for endpoint, name, origin in rows.values_list("endpoint", "name", "origin"):
        if origin == origins[endpoint]:
            names.setdefault(endpoint, []).append(name)
    return names


def decrypt_secrets(endpoint: Endpoint, names: Iterable[str]) -> dict[str, str]:
    """Return the decrypted secrets by name, for one conversation. Raises UndecryptableError."""
    names = list(names)
    values = {}
    for row in _secrets_of_address(endpoint).filter(name__in=names) if names else ():
        values[row.name] = encryption.decrypt(row.sealed, row=row.pk, field=FIELD, name=row.name).reveal()
    return values


def _secrets_of_address(endpoint: Endpoint) -> QuerySet[EndpointSecret]:
    # Secrets for an earlier address are not sent to this one.
    origin = origin_of(endpoint.credential_url, may_ask=True)
    return EndpointSecret.objects.filter(endpoint=endpoint, origin=origin)


@transaction.atomic
def set_secret(endpoint: Endpoint, *, actor: User, name: str, value: str) -> EndpointSecret:
    """Store a secret, or replace the one with this name. Raises DomainError."""
    # Serializes administrators who enter the same name.
    Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    faults = {}
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        faults["name"] = _("Enter the name by which tools ask for it, up to {maximum} characters.").format(
            maximum=MAX_NAME_LENGTH
        )
    if not value.strip() or len(value) > MAX_LENGTH or "\0" in value:
        faults["value"] = _("Enter the secret, up to {maximum} characters.").format(
            maximum=number_format(MAX_LENGTH, force_grouping=True)
        )
    if faults:
        raise invalid(**faults)
    secrets = EndpointSecret.objects.filter(endpoint=endpoint)
    existing = secrets.filter(name=name).first()
    if existing is None and secrets.count() >= MAX_SECRETS:
        message = _("An endpoint can have up to {maximum} secrets. Delete one first.").format(
            maximum=MAX_SECRETS
        )
        raise DomainError("too_many_secrets", message, status=409)
    row = existing or EndpointSecret(endpoint=endpoint, name=name)
    before = {"fingerprint": existing.fingerprint, "origin": existing.origin} if existing else None
    row.sealed = encryption.encrypt(Secret(value), row=row.pk, field=FIELD)
    row.fingerprint = encryption.fingerprint(Secret(value))
    row.origin = origin_of(endpoint.credential_url, may_ask=True)
    row.set_at, row.set_by = timezone.now(), actor
    row.save()
    after = {"fingerprint": row.fingerprint, "origin": row.origin}
    facts = {"endpoint": endpoint.pk} if before is None else {}
    audit.record(actor, "replace" if before else "enter", row, before=before, after=after | facts)
    # With the columns that the database set, including the key id.
    return EndpointSecret.objects.get(pk=row.pk)


@transaction.atomic
def forget(row: EndpointSecret, *, actor: User) -> None:
    facts = {"endpoint": row.endpoint_id, "fingerprint": row.fingerprint}
    audit.record(actor, "forget", row, before=facts)
    row.delete()


@dataclass(frozen=True, slots=True)
class Need:
    """A secret that tools require. tools: the first tools that require it."""

    name: str
    tools: tuple[str, ...]
    is_there: bool


def find_needs(endpoint: Endpoint) -> list[Need]:
    """Return the secrets that the current versions of the endpoint's tools require, by name."""
    tools_by_name: dict[str, list[str]] = {}
    for tool, needs in _tools_with_needs(endpoint, '"secrets":'):
        for name in needs.secrets:
            tools_by_name.setdefault(name, []).append(tool)
    stored_names = set(names(endpoint)) if tools_by_name else set()
    return [
        Need(name, tuple(tools[:SHOWN]), name in stored_names)
        for name, tools in sorted(tools_by_name.items())
    ]


def providers_named(endpoint: Endpoint) -> list[str]:
    """Return the providers at which tools of the endpoint need an authorization of their user."""
    return sorted(
        {
            name
            for _unused, needs in _tools_with_needs(endpoint, '"authorization":')
            for name in needs.providers
        }
    )


def _tools_with_needs(endpoint: Endpoint, member: str) -> Iterator[tuple[str, Needs]]:
    protocol = endpoint.build_protocol()
    if not protocol.takes_context:
        return
    # Few tools need secrets, and an endpoint may have many tools.
    asking = ToolVersion.objects.filter(current_of__endpoint=endpoint, signature__contains=member)
    for version in asking.defer("raw").order_by("pk")[:MAX_TOOLS_READ]:
        signature = version.decoded()
        yield signature.name, protocol.needs(signature)


def secrets_of(endpoint: Endpoint) -> list[EndpointSecret]:
    return list(endpoint.secrets.select_related("set_by"))


def is_usable(row: EndpointSecret, endpoint: Endpoint) -> bool:
    return row.origin == origin_of(endpoint.credential_url, may_ask=True)
