"""The settings of an OAuth client, and the effect of a change on its tokens.

Each operation is one change by one user. credentials/operations.py audits it in the same transaction.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.credentials.oauth import grant_requests
from catalog.credentials.oauth.errors import sign_in_again
from catalog.credentials.oauth.renewal import NO_ERROR, NO_TOKENS
from catalog.credentials.oauth.server_metadata import origin
from catalog.credentials.oauth.token_holder import NO_LEASE
from catalog.credentials.oauth.tokens import MAX_SCOPE_LENGTH
from catalog.models import Credential, Grant, SignIn
from catalog.models.vendors import OAuthKind
from catalog.notifications import outbox
from core.encryption import Secret
from core.errors import invalid
from core.oauth import client_keys
from core.oauth.client import ClientAuthentication
from core.outbound.addresses import check_url
from core.outbound.errors import RefusedError
from core.outbound.policy import AddressSource, Door, origin_of, policy_for

KINDS = (OAuthKind.CLIENT, OAuthKind.CODE, OAuthKind.USERS)
# Sign-ins with the browser of an administrator, or of each user.
SIGNING_IN = (OAuthKind.CODE, OAuthKind.USERS)
# The details that `operations.create_credential` and `update_credential` accept for these kinds.
DETAILS = (
    *("token_url", "authorization_url", "revocation_url", "issuer", "states_issuer"),
    *("client_id", "client_authentication", "scope", "resource", "audience", "parameters"),
)
# Facts of registered clients only.
REGISTERED = ("registered_at", "secret_expires_at")
MAX_PARAMETERS, MAX_PARAMETER_LENGTH = 20, 500
MAX_LENGTHS = {"issuer": 500, "client_id": 500, "audience": 500, "scope": MAX_SCOPE_LENGTH, "resource": 2_048}
# A token belongs to these; with another one it would be another client's.
WHOSE_TOKENS = ("issuer", "client_id", "token_url")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749 section 3.3
_RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x22\x24-\x7e]+")  # absolute, no fragment: RFC 8707
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_QUERY = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*")


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A registered client. `secret`: None for a public client."""

    client_id: str
    client_authentication: str
    secret: Secret | None
    secret_expires_at: datetime | None


def uses_oauth(credential: Credential) -> bool:
    return credential.kind in KINDS


def has_secret(grant: Grant) -> bool:
    return grant.client_authentication != ClientAuthentication.NONE


def has_key(grant: Grant) -> bool:
    """Return whether the client authenticates with a key of Pegboard instead of a secret from the server."""
    return grant.client_authentication == ClientAuthentication.KEY


def new_key(grant: Grant, issued_key: str = "") -> Secret:
    """Return another private key. The public part is set in `grant`, which is not saved.

    issued_key: the key that the server issued, as `client_keys.import_key` takes it; "" creates one.
    Raises DomainError "invalid" about `secret`.
    """
    try:
        private = client_keys.import_key(issued_key) if issued_key else client_keys.create_key()
    except ValueError:
        message = _(
            "Enter a private key as PEM without a passphrase or as JWK (RSA, P-256, P-384 or Ed25519). If "
            "this is empty, Pegboard creates the key."
        )
        raise invalid(secret=message) from None
    grant.public_key = client_keys.public_part(private)
    return private


def draft(credential: Credential, url: str, details: Mapping[str, Any]) -> Grant:
    """Validate the grant of an unsaved credential and set it as `credential.grant`.

    url: the address of the vendor, which is the default of `resource`, the audience of the tokens (RFC 8707).
    Raises DomainError "invalid" with a message for each field.
    """
    columns = {name: details[name] for name in DETAILS if details.get(name) is not None}
    if credential.kind == OAuthKind.CODE:
        columns.setdefault("resource", url.strip())
    columns |= {name: details.get(name) for name in REGISTERED}
    grant = Grant(credential=credential, **_strip_details(columns))
    check(grant)
    return grant


def check(grant: Grant) -> None:
    faults: dict[str, str] = {}
    for name, max_length in MAX_LENGTHS.items():
        text = getattr(grant, name)
        if len(text) > max_length or not _PRINTABLE.fullmatch(text):
            faults[name] = _("Enter up to {maximum} plain characters on one line.").format(
                maximum=number_format(max_length, force_grouping=True)
            )
    if not grant.client_id:
        faults["client_id"] = _("Enter the client id that the vendor issued.")
    if grant.scope and not _SCOPE.fullmatch(grant.scope):
        faults["scope"] = _("Enter the scopes with spaces between them.")
    if grant.resource and not _RESOURCE.fullmatch(grant.resource):
        faults["resource"] = _("Enter a complete address without #, or leave this empty.")
    faults |= _faulty_addresses(grant) | _faulty_choices(grant)
    if reason := _faulty_parameters(grant.parameters):
        faults["parameters"] = reason
    if faults:
        raise invalid(**faults)


def from_registration(registered_client: RegisteredClient) -> tuple[dict[str, Any], str]:
    """Return details and secret of a registered client as the operations accept them. A public client has
    ""."""
    details = {
        "client_id": registered_client.client_id,
        "client_authentication": registered_client.client_authentication,
        "registered_at": timezone.now(),
        "secret_expires_at": registered_client.secret_expires_at,
    }
    return details, registered_client.secret.reveal() if registered_client.secret else ""


def change(grant: Grant, changes: Mapping[str, Any], *, has_new_secret: bool) -> bool:
    """Validate and save. Tokens of another client, and a secret for another server, are deleted.

    The caller has locked `grant` and its credential, and writes the audit entry. Returns whether tokens were
    deleted.
    """
    before = {name: getattr(grant, name) for name in (*DETAILS, *REGISTERED)}
    new_values = {name: changes[name] for name in DETAILS if changes.get(name) is not None}
    for name, value in _strip_details(new_values).items():
        setattr(grant, name, value)
    # A secret for one server must not be sent to another.
    is_elsewhere = _origin_or_none(grant.token_url) != _origin_or_none(before["token_url"])
    if is_elsewhere and "revocation_url" not in new_values:
        grant.revocation_url = ""
    if has_new_secret:
        grant.secret_expires_at = changes.get("secret_expires_at")
    if grant.client_id != before["client_id"]:
        grant.registered_at = changes.get("registered_at")
    check(grant)
    if all(getattr(grant, name) == before[name] for name in before):
        return False
    if grant.scope != before["scope"]:
        grant.wanted_scope = ""  # the change is a decision about it
    grant.save(update_fields=[*before, "wanted_scope"])
    SignIn.objects.filter(credential_id=grant.credential_id).delete()
    _forget_secret(grant, before["client_authentication"], is_elsewhere=is_elsewhere and not has_new_secret)
    if any(getattr(grant, name) != before[name] for name in WHOSE_TOKENS):
        forget_tokens(grant, "the client or its server was changed, so its token was forgotten")
        return True
    if grant.credential.kind == OAuthKind.CLIENT:
        _start_over(grant)
    else:
        try_again(grant.credential)
    return False


def _forget_secret(grant: Grant, was: str, *, is_elsewhere: bool) -> None:
    """Remove a secret that does not match any more. was: the previous authentication method."""
    had_key = was == ClientAuthentication.KEY
    # Pegboard's key is never sent, so another server is no reason to delete it.
    is_anothers = is_elsewhere and not has_key(grant)
    if had_key and not has_key(grant):
        grant.public_key = None
        grant.save(update_fields=["public_key"])
    has_lost_it = not has_secret(grant) or is_anothers or had_key != has_key(grant)
    if has_lost_it and grant.credential.sealed:
        grant.credential.sealed = grant.credential.fingerprint = ""
        grant.credential.save(update_fields=["sealed", "fingerprint"])


def forget_tokens(grant: Grant, why: str) -> None:
    # They are deleted at once, and a process that renews them stores nothing. A user must sign in again.
    _start_over(grant)
    if grant.credential.kind == OAuthKind.CODE and grant.generation:
        now = Grant.objects.timed().get(pk=grant.pk).now
        Grant.objects.filter(pk=grant.pk).update(
            ended_at=Now(),
            error_code="UNBOUND",
            error_message=sign_in_again(now, why),
        )
        outbox.report_needed_sign_in(grant.credential_id)


def _start_over(grant: Grant) -> None:
    Grant.objects.filter(pk=grant.pk).update(
        **NO_TOKENS, **NO_ERROR, **NO_LEASE, started_at=None, generation=F("generation") + 1, granted_scope=""
    )


def try_again(credential: Credential) -> None:
    # After a change, earlier errors are irrelevant. An ended sign-in stays ended.
    reset_columns = {name: value for name, value in NO_ERROR.items() if name != "ended_at"}
    Grant.objects.filter(credential=credential, ended_at=None).update(**reset_columns, lease=None)


def destroy(credential: Credential) -> None:
    # Deletes the tokens and the open sign-ins too.
    SignIn.objects.filter(credential=credential).delete()
    Grant.objects.filter(credential=credential).delete()


def facts(grant: Grant) -> dict[str, Any]:
    """Return the settings for the audit trail and for pages, without secrets."""
    times = {name: time.isoformat() for name in REGISTERED if (time := getattr(grant, name))}
    return {name: value for name in DETAILS if (value := getattr(grant, name)) not in ("", {}, False)} | times


def _strip_details(details: Mapping[str, Any]) -> dict[str, Any]:
    tidy = {name: value.strip() if isinstance(value, str) else value for name, value in details.items()}
    if "scope" in tidy:
        tidy["scope"] = " ".join(tidy["scope"].split())
    return tidy


def _faulty_addresses(grant: Grant) -> dict[str, str]:
    faults = {}
    needed = {"token_url": True, "authorization_url": grant.credential.kind in SIGNING_IN}
    for name, is_needed in needed.items():
        address = getattr(grant, name)
        if (address or is_needed) and (reason := why_no_address(address)):
            faults[name] = reason
    for name in ("issuer", "revocation_url"):
        if getattr(grant, name) and (reason := why_no_address(getattr(grant, name))):
            faults[name] = reason
    if grant.revocation_url and not faults and origin(grant.revocation_url) != origin(grant.token_url):
        faults["revocation_url"] = _(
            "The client secret is sent to it, so it must be at the same host as the token address."
        )
    return faults


def why_no_address(address: str) -> str:
    # It may contain a query (RFC 6749 section 3), but no fragment.
    if not address:
        return _("Enter this address. It is in the vendor's documentation.")
    bare, _unused, query = address.partition("?")
    try:
        check_url(bare, policy_for(Door.AUTHORIZATION_SERVER, AddressSource.ADMINISTRATOR))
    except RefusedError as error:
        return error.message
    if not _QUERY.fullmatch(query) or len(address) > 2_048:
        return _("The address contains characters that are not allowed there.")
    if name := grant_requests.reserved_parameter_in(address):
        return _("Remove “{name}” from the address. Pegboard sets it.").format(name=name)
    return ""


def _faulty_choices(grant: Grant) -> dict[str, str]:
    faults = {}
    if grant.client_authentication not in ClientAuthentication.values:
        faults["client_authentication"] = _("Choose one of: {choices}.").format(
            choices=", ".join(ClientAuthentication.values)
        )
    elif (
        grant.client_authentication == ClientAuthentication.NONE and grant.credential.kind == OAuthKind.CLIENT
    ):
        # RFC 6749 section 4.4
        faults["client_authentication"] = _(
            "A client without a secret cannot get a token for itself. Choose another authentication."
        )
    if type(grant.states_issuer) is not bool:
        faults["states_issuer"] = _("Choose yes or no.")
    elif grant.states_issuer and not grant.issuer:
        faults["issuer"] = _("Enter the issuer that the server states.")
    return faults


def _faulty_parameters(parameters: object) -> str:
    if not isinstance(parameters, dict) or len(parameters) > MAX_PARAMETERS:
        return _("Enter up to {maximum} names with their values.").format(maximum=MAX_PARAMETERS)
    for name, value in parameters.items():
        if not grant_requests.PARAMETER_NAME.fullmatch(name):
            return _("A name consists of letters, digits and . _ ~ - (up to 64).")
        if name.lower() in grant_requests.OWNED:
            return _("“{name}” is set by Pegboard itself.").format(name=name)
        if not isinstance(value, str) or len(value) > MAX_PARAMETER_LENGTH or not _PRINTABLE.fullmatch(value):
            return _("The value of “{name}” may have up to {maximum} plain characters.").format(
                name=name, maximum=MAX_PARAMETER_LENGTH
            )
    return ""


def _origin_or_none(address: str) -> str | None:
    # None for an invalid address, which `check` reports.
    try:
        return origin_of(address.partition("?")[0])
    except RefusedError:
        return None
