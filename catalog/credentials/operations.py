"""Operations on credentials by users: create, change, replace and remove.

Each function is one change by one user, audited in the same transaction. catalog/credentials/sessions.py
attaches credentials to requests.
"""

from contextlib import suppress
from typing import Any

from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials import kinds, sessions
from catalog.credentials.kinds.base import Kind
from catalog.credentials.oauth import clients, revocation, tokens
from catalog.credentials.oauth.clients import RegisteredClient
from catalog.credentials.oauth.revocation import Revocation
from catalog.locking import check_name, lock_row, origin_of
from catalog.models import Credential, Grant
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError, invalid
from core.outbound.addresses import MAX_URL_LENGTH, in_ascii
from people import audit
from people.audit import edit_conflicts
from people.models import User

ADDRESS: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Address of the vendor"),
    max_length=MAX_URL_LENGTH,
    help_text=gettext_lazy("The secret, and tokens that are derived from it, are sent only to this address."),
)
SECRET: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Secret"),
    max_length=8_000,
    blank=True,
    help_text=gettext_lazy("Stored encrypted and never shown again, not even to you."),
)


@transaction.atomic
def create_credential(
    *,
    actor: User,
    name: str,
    kind: str,
    url: str,
    secret: str = "",
    registered_client: RegisteredClient | None = None,
    **details: Any,
) -> Credential:
    """Create a credential. `url`: any address of the origin to which the secret may be sent.

    details: those of its kind (`kinds.KINDS`), or `clients.DETAILS` for OAuth.
    secret: for OAuth the client's, which is sent only to the token endpoint, "" for a public client.
    registered_client: a registered client, which replaces both.
    """
    if registered_client:
        client_details, secret = clients.from_registration(registered_client)
        details |= client_details
    credential = draft_credential(name=name, kind=kind, url=url, secret=secret, **details)
    credential.set_by = actor
    credential.save()
    if clients.uses_oauth(credential):
        credential.grant.save()
    audit.record(actor, "enter", credential, after=sessions.facts(credential))
    return credential


def draft_credential(*, name: str, kind: str, url: str, secret: str, **details: Any) -> Credential:
    """Return the validated credential that `create_credential` would save, with its secret encrypted."""
    credential = Credential(
        name=name.strip(),
        kind=kind,
        details={name: details[name] for name in _details_of_kind(kind) if details.get(name)},
        origin=origin_of(in_ascii(url.strip())),
    )
    _check_credential(credential)
    if clients.uses_oauth(credential):
        clients.draft(credential, url, details)
    _encrypt_secret(credential, secret)
    return credential


@transaction.atomic
def update_credential(
    credential: Credential,
    *,
    actor: User,
    secret: str = "",
    registered_client: RegisteredClient | None = None,
    expected: str = edit_conflicts.ANY_STATE,
    **changes: Any,
) -> Credential:
    """Change the name, the details of `details_of`, and the secret if one is given.

    A client secret is sent only to the token server that it was entered for, and tokens belong to one client.
    A value that does not match any more is deleted and must be entered again. The origin never changes:
    another origin needs another credential.
    """
    credential = lock_row(credential, Credential.objects.filter(removed_at=None))
    if registered_client:
        client_details, secret = clients.from_registration(registered_client)
        changes |= client_details
    before, old_details = sessions.facts(_with_grant(credential)), credential.details
    allowed_names = {"name", *details_of(credential), *clients.REGISTERED}
    if others := [name for name in changes if name not in allowed_names and changes[name] is not None]:
        kind = kinds.label_of(credential.kind)
        raise invalid(
            **dict.fromkeys(
                others, _("A credential of the kind “{kind}” does not have this.").format(kind=kind)
            )
        )
    credential.name = changes.get("name", credential.name).strip()
    revoked = _change_details(credential, changes, has_new_secret=bool(secret))
    _check_credential(credential)
    if secret or (
        clients.uses_oauth(credential) and clients.has_key(credential.grant) and not credential.sealed
    ):
        _store_secret(credential, secret, actor)
    elif credential.details != old_details:
        # Changed details may need another secret. One that cannot be decrypted is entered again anyway.
        with suppress(UndecryptableError):
            stored_secret = sessions.decrypt(credential).reveal()
            if kind_class := kinds.KINDS.get(credential.kind):
                kind_class.check_secret(stored_secret, credential.details)
    after = sessions.facts(credential)
    edit_conflicts.check(credential, expected, now=before, submitted=after)
    if after != before:
        credential.save(update_fields=["name", "details", "used_at", "refused_at"])
        audit.record(actor, "edit", credential, before=before, after=after)
    if revoked:
        revoked.after_commit(actor)
    return credential


def widen(credential: Credential, *, actor: User) -> Credential:
    """Add the scopes that the vendor requires to the next token request of the client. No user has to sign
    in.
    """
    grant = Grant.objects.get(credential=credential)
    return update_credential(credential, actor=actor, scope=tokens.widest(grant.scope, grant.wanted_scope))


def details_of(credential: Credential) -> tuple[str, ...]:
    """Return the details that can be changed, besides name and secret."""
    return clients.DETAILS if clients.uses_oauth(credential) else _details_of_kind(credential.kind)


def _details_of_kind(kind: str) -> tuple[str, ...]:
    return tuple(detail.name for detail in kinds.KINDS[kind].details) if kind in kinds.KINDS else ()


def _with_grant(credential: Credential) -> Credential:
    # The current grant, locked like the credential.
    if clients.uses_oauth(credential):
        credential.grant = Grant.objects.select_for_update().get(credential=credential)
        credential.grant.credential = credential
    return credential


def _change_details(
    credential: Credential, changes: dict[str, Any], *, has_new_secret: bool
) -> Revocation | None:
    """Change the details, and return the revocation of the deleted tokens, if there were any."""
    if clients.uses_oauth(credential):
        revoked = revocation.prepare(credential.grant)
        went = clients.change(credential.grant, changes, has_new_secret=has_new_secret)
        return revoked if went else None
    names = _details_of_kind(credential.kind)
    new_details = credential.details | {
        name: changes[name] for name in names if changes.get(name) is not None
    }
    if new_details != credential.details:
        # Refusals of the old secret prove nothing about the new one.
        credential.used_at = credential.refused_at = None
    credential.details = new_details
    return None


@transaction.atomic
def sign_out(credential: Credential, *, actor: User) -> Revocation | None:
    """Delete the tokens of an OAuth credential. A process that is renewing them stores nothing.

    The vendor is asked to revoke them after the commit, and `message` of the result is set then.
    """
    credential = _with_grant(lock_row(credential, Credential.objects.filter(removed_at=None)))
    if not clients.uses_oauth(credential):
        return None
    revoked = revocation.prepare(credential.grant)
    clients.forget_tokens(credential.grant, "a person signed it out")
    audit.record(actor, "sign out", credential)
    return revoked.after_commit(actor)


@transaction.atomic
def replace_secret(credential: Credential, *, actor: User, secret: str = "") -> Credential:
    """Replace the secret. A client that signs its assertions gets a new key, or the one in `secret`."""
    credential = _with_grant(lock_row(credential, Credential.objects.filter(removed_at=None)))
    before = sessions.facts(credential)
    if clients.uses_oauth(credential) and credential.grant.secret_expires_at:
        credential.grant.secret_expires_at = None
        credential.grant.save(update_fields=["secret_expires_at"])
    _store_secret(credential, secret, actor)
    audit.record(actor, "replace", credential, before=before, after=sessions.facts(credential))
    return credential


def _store_secret(credential: Credential, secret: str, actor: User) -> None:
    _encrypt_secret(credential, secret)
    credential.set_at, credential.set_by = timezone.now(), actor
    credential.used_at = credential.refused_at = None
    credential.save(update_fields=["sealed", "fingerprint", "set_at", "set_by", "used_at", "refused_at"])
    if clients.uses_oauth(credential):
        Grant.objects.filter(credential=credential).update(public_key=credential.grant.public_key)
    clients.try_again(credential)


@transaction.atomic
def remove_credential(credential: Credential, *, actor: User, why: str = "") -> Revocation | None:
    """Remove a credential with its secret and tokens. Raises DomainError while an endpoint uses it.

    Its server is notified afterwards, as by `sign_out`.
    """
    credential = _with_grant(lock_row(credential, Credential.objects.filter(removed_at=None)))
    if used := credential.endpoints.filter(removed_at=None).first():
        raise DomainError(
            "credential_in_use",
            _("The endpoint “{endpoint}” uses it. Give that endpoint another credential first.").format(
                endpoint=used
            ),
            status=409,
        )
    if provider_client := credential.provider_clients.select_related("endpoint").first():
        raise DomainError(
            "credential_in_use",
            _("Users authorize with it at “{provider}” for “{endpoint}”. Choose another there first.").format(
                provider=provider_client, endpoint=provider_client.endpoint
            ),
            status=409,
        )
    before = sessions.facts(credential)
    revoked = revocation.prepare(credential.grant) if clients.uses_oauth(credential) else None
    credential.removed_at, credential.sealed = timezone.now(), ""
    credential.save(update_fields=["removed_at", "sealed"])
    clients.destroy(credential)
    audit.record(actor, "remove", credential, before=before, why=why)
    return revoked.after_commit(actor) if revoked else None


def _check_credential(credential: Credential) -> None:
    check_name(credential.name, 100)
    if clients.uses_oauth(credential):
        return
    kind = kinds.KINDS.get(credential.kind)
    if kind is None:
        raise invalid(
            kind=_("Choose one of: {choices}.").format(
                choices=", ".join(name for name, _unused in kinds.CHOICES)
            )
        )
    if kind.needs_https and not credential.origin.startswith("https:"):
        raise invalid(url=_("This kind of credential needs an address that begins with https://."))
    credential.details = kind.check(credential.details)


def _encrypt_secret(credential: Credential, secret: str) -> None:
    if clients.uses_oauth(credential) and not clients.has_secret(credential.grant):
        # A public client has no secret. One that is entered anyway is refused, not stored.
        if secret:
            raise invalid(secret=_("A client without authentication has no secret. Leave this empty."))
        return
    if clients.uses_oauth(credential) and clients.has_key(credential.grant):
        sessions.encrypt(credential, clients.new_key(credential.grant, secret))
        return
    kind = kinds.KINDS.get(credential.kind, Kind)  # the secret of an OAuth client is a plain one
    sessions.encrypt(credential, Secret(kind.check_secret(secret, credential.details)))
