from dataclasses import fields
from functools import partial
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import protocols
from catalog.api.vendors import Address
from catalog.credentials import kinds, sessions
from catalog.credentials import operations as credential_operations
from catalog.credentials import status as credential_status
from catalog.credentials.oauth import client_registration, clients, discovery, sign_in
from catalog.credentials.oauth.client_metadata import document_url, redirect_uri
from catalog.credentials.oauth.grant_status import Remedy, SignInState
from catalog.credentials.oauth.token_replies import words_of
from catalog.models import Credential, Endpoint, Grant
from catalog.models.vendors import OAuthKind
from core.errors import invalid
from core.outbound.addresses import MAX_URL_LENGTH
from core.outbound.errors import RefusedError
from core.serializers import Input, ModelChange, ModelInput, ModelOutput, input_field, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import key_of, person


class ClientInput(ModelChange):
    """An OAuth client; members that are left out stay as they are, or get their default."""

    parameters = serializers.DictField(
        child=serializers.CharField(max_length=clients.MAX_PARAMETER_LENGTH, allow_blank=True), required=False
    )

    class Meta:
        model = Grant
        fields: tuple[str, ...] = clients.DETAILS


class NewClientInput(ClientInput):
    registration_url = serializers.CharField(
        max_length=2_048,
        required=False,
        help_text=(
            "The registration address (RFC 7591) at which Pegboard registers a client with these "
            "settings; replaces `client_id`. `look-up/` returns it."
        ),
    )

    class Meta(ClientInput.Meta):
        fields = (*clients.DETAILS, "registration_url")


def detail_fields(*, is_change: bool = False) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """Return a field for each detail of each kind of credential, by name."""
    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {}
    for name, detail in kinds.DETAILS.items():
        if detail.is_number:
            fields[name] = serializers.IntegerField(
                min_value=detail.minimum,
                max_value=detail.maximum,
                required=False,
                help_text=str(detail.help),
            )
        else:
            fields[name] = serializers.CharField(
                max_length=detail.max_length,
                required=False,
                allow_blank=not (is_change and detail.is_required),
                help_text=str(detail.help),
            )
    return fields


class CredentialInput(ModelInput):
    kind = serializers.ChoiceField(choices=kinds.CHOICES)
    url = Address(max_length=MAX_URL_LENGTH, help_text=credential_operations.ADDRESS.help_text)
    secret = input_field(
        credential_operations.SECRET,
        write_only=True,
        trim_whitespace=False,
        allow_blank=False,
        help_text=(
            "The secret. For OAuth it is the client secret, omitted for a public client. With "
            "`key` it is a private key that the server issued (PEM or JWK); Pegboard generates "
            "one if it is omitted."
        ),
    )
    client = NewClientInput(
        required=False, help_text="The OAuth client. Required for OAuth, refused for other kinds."
    )

    class Meta:
        model = Credential
        fields = ("name", "kind", "url", "secret", "client")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return super().get_fields() | detail_fields()


class SecretInput(Input):
    secret = input_field(
        credential_operations.SECRET,
        write_only=True,
        trim_whitespace=False,
        allow_blank=False,
        help_text=(
            "The new secret. If it is omitted for an OAuth client with `key`, Pegboard generates another key."
        ),
    )


class CredentialChange(ModelChange):
    """Members that are left out stay as they are. Which ones a credential has depends on its kind."""

    client = ClientInput(required=False)
    secret = input_field(
        credential_operations.SECRET,
        write_only=True,
        trim_whitespace=False,
        allow_blank=False,
        help_text="The new secret, which replaces the stored one.",
    )

    class Meta:
        model = Credential
        fields = ("name", "client", "secret")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return super().get_fields() | detail_fields(is_change=True)


class ClientOutput(ModelOutput[Grant]):
    parameters = serializers.DictField(child=serializers.CharField(), read_only=True)
    public_key = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        allow_null=True,
        help_text="The public key of a client with `key`, as a JWK; `/credentials/{id}/keys.json` "
        "serves it to the server.",
    )

    class Meta:
        model = Grant
        fields = [*clients.DETAILS, *clients.REGISTERED, "public_key"]


class ScopesOutput(serializers.Serializer[Any]):
    asked = serializers.ListField(child=serializers.CharField())
    granted = serializers.ListField(child=serializers.CharField())
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="The requested scopes that the server did not grant."
    )
    extra = serializers.ListField(
        child=serializers.CharField(), help_text="The scopes that were granted without a request."
    )
    wanted = serializers.ListField(
        child=serializers.CharField(),
        help_text=(
            "The missing scopes for which the vendor refused a request. The next sign-in requests them too."
        ),
    )


class FailureOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    at = serializers.DateTimeField()
    retry_at = serializers.DateTimeField(allow_null=True)


class CredentialStatusOutput(serializers.Serializer[Any]):
    """The status of a credential: a `message` for users, and the action that repairs it."""

    state = serializers.ChoiceField(choices=SignInState.choices)
    message = serializers.CharField()
    remedy = serializers.ChoiceField(choices=Remedy.choices, allow_null=True)
    used_at = serializers.DateTimeField(
        allow_null=True, help_text="The approximate time at which the credential was last sent."
    )
    renewed_at = serializers.DateTimeField(allow_null=True, help_text="When the token was last renewed.")
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="The time at which the access token expires; null if unknown."
    )
    in_doubt_since = serializers.DateTimeField(
        allow_null=True,
        help_text="The time of a renewal without a reply. The refresh token may have been replaced.",
    )
    signed_in_at = serializers.DateTimeField(allow_null=True)
    signed_in_by = serializers.CharField(
        help_text="The user who signed in at the vendor; empty before the first sign-in."
    )
    error = FailureOutput(allow_null=True, help_text="The last problem; empty after a success.")
    scopes = ScopesOutput(allow_null=True)


class UsedOutput(ModelOutput[Endpoint]):
    vendor = serializers.CharField(source="vendor.slug", read_only=True)

    class Meta:
        model = Endpoint
        fields = ["id", "vendor", "url"]


class StoredText(serializers.CharField):
    """A detail of a credential; empty where its kind has none."""

    def get_attribute(self, instance: Credential) -> Any:
        return instance.details.get(self.field_name, "")


class StoredNumber(serializers.IntegerField):
    """A detail of a credential; null where its kind has none."""

    def get_attribute(self, instance: Credential) -> Any:
        return instance.details.get(self.field_name)


class CredentialOutput(ModelOutput[Credential]):
    """State only; there is no call that gives a secret back."""

    kind = serializers.ChoiceField(choices=kinds.CHOICES, read_only=True)
    set_by = serializers.CharField(source="set_by.username", default="", read_only=True)
    client = serializers.SerializerMethodField()
    status = serializers.SerializerMethodField()
    endpoints = UsedOutput(many=True, read_only=True, help_text="The endpoints that use the credential.")

    class Meta:
        model = Credential
        fields = [
            "id", "name", "kind", "origin", "fingerprint", "set_at", "set_by", "client", "status",
            "endpoints",
        ]  # fmt: skip

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        details = {
            name: (
                StoredNumber(read_only=True, allow_null=True)
                if detail.is_number
                else StoredText(read_only=True)
            )
            for name, detail in kinds.DETAILS.items()
        }
        return super().get_fields() | details

    @extend_schema_field(ClientOutput(allow_null=True))
    def get_client(self, row: Credential) -> dict[str, Any] | None:
        return ClientOutput(row.grant).data if clients.uses_oauth(row) else None

    @extend_schema_field(CredentialStatusOutput)
    def get_status(self, row: Credential) -> dict[str, Any]:
        status = credential_status.status_of(row, timezone.now())
        failed = status.failed_at and {
            "code": status.error_code,
            "message": status.error_message,
            "at": status.failed_at,
            "retry_at": status.retry_at,
        }
        scopes = clients.uses_oauth(row) and {
            "asked": words_of(row.grant.scope),
            "granted": status.granted,
            "missing": status.missing,
            "extra": status.extra,
            "wanted": status.wanted,
        }
        document: dict[str, Any] = CredentialStatusOutput(
            {
                "state": status.state,
                "message": status.message,
                "remedy": status.remedy,
                "used_at": credential_status.last_used_at(row),
                "renewed_at": status.obtained_at,
                "expires_at": status.expires_at,
                "in_doubt_since": status.in_doubt_since,
                "signed_in_at": status.signed_in_at,
                "signed_in_by": status.signed_in_by,
                "error": failed or None,
                "scopes": scopes or None,
            }
        ).data
        return document


class LookupInput(Input):
    url = Address(max_length=MAX_URL_LENGTH, help_text="The address of the vendor's endpoint.")
    protocol = serializers.ChoiceField(
        choices=protocols.connectable(),
        required=False,
        help_text="The protocol in which the tools are requested if GET meets no challenge; all of them"
        " in turn by default.",
    )


class ServerOutput(serializers.Serializer[Any]):
    """The published metadata of an authorization server."""

    issuer = serializers.CharField()
    token_url = serializers.CharField()
    authorization_url = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    client_authentication = serializers.CharField(
        help_text="The method of client authentication that Pegboard uses with it; empty for none."
    )
    states_issuer = serializers.BooleanField()
    registration_url = serializers.CharField(
        help_text="The address at which clients register themselves (RFC 7591); may be empty."
    )
    revocation_url = serializers.CharField(
        help_text="The address at which tokens are revoked (RFC 7009); may be empty."
    )
    takes_documents = serializers.BooleanField(
        help_text="True if a client id may be the address of a client metadata document."
    )
    problem = serializers.CharField(help_text="The reason why the server cannot be used; may be empty.")


class StepOutput(serializers.Serializer[Any]):
    url = serializers.CharField()
    said = serializers.CharField()


class LookupOutput(serializers.Serializer[Any]):
    """The result of a discovery, which is not stored."""

    resource = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(help_text="The scope that the vendor requires of a token.")
    servers = ServerOutput(many=True)
    steps = StepOutput(many=True, help_text="The requested addresses, each with its result.")
    redirect_uri = serializers.CharField(
        help_text="The redirect URI of Pegboard, for a client that is registered there by hand."
    )
    client_document = serializers.CharField(
        help_text="The address of Pegboard's client metadata document, for the `client_id` at a server "
        "that accepts documents. Empty if Pegboard is not served over https."
    )


USED = Prefetch("endpoints", Endpoint.objects.live().select_related("vendor"))
ROWS = Credential.objects.filter(removed_at=None).select_related("set_by", "grant__signed_in_by")


class CredentialList(ListAPIView[Credential]):
    write_role = Role.ADMIN
    serializer_class = CredentialOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Credential]:
        return ROWS.prefetch_related(USED)

    @extend_schema(request=CredentialInput, responses={201: CredentialOutput})
    def post(self, request: Request) -> Response:
        details = dict(valid_data(CredentialInput(data=request.data)))
        client = details.pop("client", None)
        if (client is not None) != (details["kind"] in clients.KINDS):
            needed = "Send the client's settings." if client is None else "Only the kinds of OAuth take it."
            raise invalid(client=needed)
        if client is None and "secret" not in details:
            messages = {"secret": "Enter the secret."}
            raise invalid(**messages)
        client = client or {}
        registration_url = client.pop("registration_url", "")
        save = partial(
            credential_operations.create_credential,
            actor=person(request),
            **{"secret": ""} | details | client,
        )
        if registration_url:
            # The registration sets these members, so values of the caller would be lost.
            if details["kind"] != OAuthKind.CODE:
                raise invalid(client="Only a credential that a person signs in for registers itself.")
            if "client_id" in client or details.get("secret"):
                raise invalid(client="Send either a client that you have, or the address to register at.")
            row = save(
                registered_client=client_registration.register_at(
                    client | {"registration_url": registration_url},
                    redirect_uri=redirect_uri(request),
                    save=lambda tried: save(registered_client=tried),
                )
            )
        else:
            row = save()
        return Response(CredentialOutput(row).data, status=201)


class CredentialDetail(GenericAPIView[Credential]):
    write_role = Role.ADMIN
    serializer_class = CredentialOutput
    queryset = ROWS.prefetch_related(USED)

    def get(self, request: Request, pk: Any) -> Response:
        return self._respond(pk)

    @extend_schema(request=SecretInput)
    def put(self, request: Request, pk: Any) -> Response:
        """Replace the secret. Endpoints that use the credential continue with the new one."""
        values = valid_data(SecretInput(data=request.data))
        credential_operations.replace_secret(self._find_row(pk), actor=person(request), **values)
        return self._respond(pk)

    @extend_schema(parameters=[IF_MATCH], request=CredentialChange)
    def patch(self, request: Request, pk: Any) -> Response:
        """Change the name or the details; the origin stays. Changing the OAuth client deletes its tokens."""
        values = valid_data(CredentialChange(data=request.data))
        row = self._find_row(pk)
        changes = dict(values)
        # The operation takes the details of a client beside the others. REST nests them, because names would
        # clash.
        client = changes.pop("client", None)
        is_oauth = clients.uses_oauth(row)
        if client is not None and not is_oauth:
            raise invalid(client="Only the kinds of OAuth take it.")
        if is_oauth and (others := changes.keys() - {"name", "secret"}):
            raise invalid(**dict.fromkeys(others, "Send this in “client”."))
        changes |= client or {}
        credential_operations.update_credential(
            row, actor=person(request), expected=expected_state(request), **changes
        )
        return self._respond(pk)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        credential_operations.remove_credential(self._find_row(pk), actor=person(request))
        return Response(status=204)

    def _find_row(self, pk: Any) -> Credential:
        return get_object_or_404(self.get_queryset(), pk=pk)

    def _respond(self, pk: Any) -> Response:
        row = self._find_row(pk)
        return Response(CredentialOutput(row).data, headers=etag_of(sessions.facts(row)))


class SignInOutput(serializers.Serializer[Any]):
    address = serializers.CharField(
        help_text="Open it within 10 minutes, in a browser in which you are signed in to Pegboard. The "
        "server sends the browser back here."
    )


class CredentialSignIn(GenericAPIView[Credential]):
    write_role = Role.ADMIN
    takes_idempotency_keys = False
    queryset = ROWS

    @extend_schema(request=None, responses=SignInOutput)
    def post(self, request: Request, pk: Any) -> Response:
        """Begin a sign-in at the authorization server. Only you can complete it, and only in a browser.

        The vendor is first queried for its current server, which takes up to 20 s: 409 `sign_in_moved` if it
        has changed.
        """
        row = get_object_or_404(self.get_queryset(), pk=pk)
        sign_in.check_server(row)
        address = sign_in.begin(
            row,
            actor=person(request),
            session_key=None if key_of(request) else request.session.session_key or "",
            redirect_uri=redirect_uri(request),
        )
        return Response(SignInOutput({"address": address}).data)


class CredentialSignOut(GenericAPIView[Credential]):
    write_role = Role.ADMIN
    takes_idempotency_keys = False
    queryset = ROWS

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, pk: Any) -> Response:
        """Delete the tokens. The next one needs a sign-in, or is requested with the client's secret."""
        credential_operations.sign_out(get_object_or_404(self.get_queryset(), pk=pk), actor=person(request))
        return Response(status=204)


class CredentialLookup(GenericAPIView[Credential]):
    write_role = Role.ADMIN
    takes_idempotency_keys = False
    queryset = ROWS

    @extend_schema(request=LookupInput, responses=LookupOutput)
    def post(self, request: Request) -> Response:
        """Discover the vendor's authorization servers (RFC 9728, RFC 8414). Takes up to 20 s."""
        values = valid_data(LookupInput(data=request.data))
        try:
            discovery_result = discovery.discover(**values)
        except RefusedError as error:
            raise invalid(url=error.message) from None
        client = {"redirect_uri": redirect_uri(request), "client_document": document_url(request)}
        discovered = {
            member.name: getattr(discovery_result, member.name) for member in fields(discovery_result)
        }
        return Response(LookupOutput(discovered | client).data)
