"""The OAuth client with which users of an endpoint's tools authorize at a provider. An administrator chooses
it.

The client is a credential of the kind `oauth_users` that was entered for the endpoint's address. Its tokens
are sent only there.
"""

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Credential, Endpoint, ProviderClient
from catalog.models.vendors import OAuthKind
from core.errors import DomainError, invalid
from core.outbound.policy import origin_of
from people import audit
from people.models import User

MAX_PROVIDERS = 50
WRONG_CREDENTIAL = gettext_lazy(
    "Choose a credential “for each user of an agent” that was entered for this address."
)


def clients(endpoint: Endpoint) -> dict[str, Credential]:
    """Return the credentials by provider, without those for an earlier address of the endpoint."""
    origin = origin_of(endpoint.credential_url, may_ask=True)
    rows = ProviderClient.objects.filter(endpoint=endpoint, credential__removed_at=None)
    valid_rows = rows.filter(credential__origin=origin).select_related("credential__grant")
    return {row.provider: row.credential for row in valid_rows}


def choices(endpoint: Endpoint) -> list[Credential]:
    origin = origin_of(endpoint.credential_url, may_ask=True)
    rows = Credential.objects.filter(removed_at=None, kind=OAuthKind.USERS, origin=origin)
    return list(rows)


@transaction.atomic
def choose(endpoint: Endpoint, *, actor: User, provider: str, credential: Credential) -> ProviderClient:
    """Use the client of `credential` at `provider` from now on. Raises DomainError."""
    Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    if not provider.strip() or len(provider) > 500 or not provider.isprintable():
        raise invalid(provider=_("Enter the provider as the vendor names it, up to 500 characters."))
    if credential not in choices(endpoint):
        raise invalid(credential=str(WRONG_CREDENTIAL))
    row = ProviderClient.objects.filter(endpoint=endpoint, provider=provider).first()
    if row is None and ProviderClient.objects.filter(endpoint=endpoint).count() >= MAX_PROVIDERS:
        message = _("An endpoint can have clients at up to {maximum} providers. Remove one first.").format(
            maximum=MAX_PROVIDERS
        )
        raise DomainError("too_many_providers", message, status=409)
    before = {"credential": str(row.credential_id)} if row else None
    row = row or ProviderClient(endpoint=endpoint, provider=provider)
    row.credential = credential
    row.save()
    after = {"credential": str(credential.pk), "endpoint": endpoint.pk}
    audit.record(actor, "choose", row, before=before, after=after)
    return row


@transaction.atomic
def forget(row: ProviderClient, *, actor: User) -> None:
    facts = {"endpoint": row.endpoint_id, "credential": str(row.credential_id)}
    audit.record(actor, "forget", row, before=facts)
    row.delete()
