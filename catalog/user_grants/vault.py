"""Secrets that tools of an endpoint ask for by name, as an administrator entered them.

A value goes to the endpoint's origin alone, in calls of tools that need it, and is never shown again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

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
    """Of what is there for the address that the endpoint has now."""
    return list(_here(endpoint).values_list("name", flat=True))


def names_by_endpoint(endpoints: Collection[Endpoint]) -> dict[int, list[str]]:
    """The same for several, in one query."""
    origins = {each.pk: origin_of(each.credential_url, may_ask=True) for each in endpoints}
    found: dict[int, list[str]] = {}
    rows = EndpointSecret.objects.filter(endpoint__in=origins) if origins else EndpointSecret.objects.none()
    for endpoint, name, origin in rows.values_list("endpoint", "name", "origin"):
        if origin == origins[endpoint]:
            found.setdefault(endpoint, []).append(name)
    return found


def opened(endpoint: Endpoint, wanted: Iterable[str]) -> dict[str, str]:
    """Decrypted for one conversation. Raises UndecryptableError."""
    wanted = list(wanted)
    found = {}
    for row in _here(endpoint).filter(name__in=wanted) if wanted else ():
        found[row.name] = encryption.decrypt(row.sealed, row=row.pk, field=FIELD, name=row.name).reveal()
    return found


def _here(endpoint: Endpoint) -> QuerySet[EndpointSecret]:
    # What was entered for another address is not sent to this one.
    origin = origin_of(endpoint.credential_url, may_ask=True)
    return EndpointSecret.objects.filter(endpoint=endpoint, origin=origin)


@transaction.atomic
def put(endpoint: Endpoint, *, actor: User, name: str, value: str) -> EndpointSecret:
    """Enters a secret, or replaces the one of this name. Raises DomainError."""
    # One administrator at a time, so that two do not enter the same name.
    Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    _check(name, value)
    kept = EndpointSecret.objects.filter(endpoint=endpoint)
    found = kept.filter(name=name).first()
    if found is None and kept.count() >= MAX_SECRETS:
        message = f"An endpoint has up to {MAX_SECRETS} secrets. Forget one first."
        raise DomainError("too_many_secrets", message, status=409)
    row = found or EndpointSecret(endpoint=endpoint, name=name)
    before = {"fingerprint": found.fingerprint, "origin": found.origin} if found else None
    row.sealed = encryption.encrypt(Secret(value), row=row.pk, field=FIELD)
    row.fingerprint = encryption.fingerprint(Secret(value))
    row.origin = origin_of(endpoint.credential_url, may_ask=True)
    row.set_at, row.set_by = timezone.now(), actor
    row.save()
    after = {"fingerprint": row.fingerprint, "origin": row.origin}
    facts = {"endpoint": endpoint.pk} if before is None else {}
    audit.record(actor, "replace" if before else "enter", row, before=before, after=after | facts)
    # What the database has written, with the id of its key.
    return EndpointSecret.objects.get(pk=row.pk)


@transaction.atomic
def forget(row: EndpointSecret, *, actor: User) -> None:
    facts = {"endpoint": row.endpoint_id, "fingerprint": row.fingerprint}
    audit.record(actor, "forget", row, before=facts)
    row.delete()


def _check(name: str, value: str) -> None:
    faults = {}
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        faults["name"] = f"Give the name by which tools ask for it, up to {MAX_NAME_LENGTH} characters."
    if not value.strip() or len(value) > MAX_LENGTH or "\0" in value:
        faults["value"] = f"Enter the secret, up to {MAX_LENGTH:,} characters."
    if faults:
        raise invalid(**faults)


@dataclass(frozen=True, slots=True)
class Need:
    """A secret that tools ask for; `tools` are some of them."""

    name: str
    tools: tuple[str, ...]
    is_there: bool


def needed(endpoint: Endpoint) -> list[Need]:
    """What tools of the endpoint ask for in their current versions, by name."""
    found: dict[str, list[str]] = {}
    for tool, needs in _asking(endpoint, '"secrets":'):
        for name in needs.secrets:
            found.setdefault(name, []).append(tool)
    there = set(names(endpoint)) if found else set()
    return [Need(name, tuple(tools[:SHOWN]), name in there) for name, tools in sorted(found.items())]


def providers_named(endpoint: Endpoint) -> list[str]:
    """The providers at which tools of the endpoint want an authorization of their user."""
    return sorted({name for _, needs in _asking(endpoint, '"authorization":') for name in needs.providers})


def _asking(endpoint: Endpoint, member: str) -> Iterator[tuple[str, Needs]]:
    protocol = endpoint.speak()
    if not protocol.takes_context:
        return
    # Few tools ask for any, and a list of them all is long.
    asking = ToolVersion.objects.filter(current_of__endpoint=endpoint, signature__contains=member)
    for version in asking.defer("raw").order_by("pk")[:MAX_TOOLS_READ]:
        signature = version.decoded()
        yield signature.name, protocol.needs(signature)


def secrets_of(endpoint: Endpoint) -> list[EndpointSecret]:
    return list(endpoint.secrets.select_related("set_by"))


def is_usable(row: EndpointSecret, endpoint: Endpoint) -> bool:
    return row.origin == origin_of(endpoint.credential_url, may_ask=True)
