import json
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_safe

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.credentials import status as credential_status
from catalog.credentials.oauth import client_metadata, clients, sign_in
from catalog.credentials.oauth.client_metadata import redirect_uri
from catalog.credentials.oauth.revocation import Revocation
from catalog.forms import CredentialChangeForm, CredentialForm, NewClientKeyForm, SecretForm
from catalog.forms.client_fields import ClientChangeForm, ClientForm
from catalog.models import Credential, Endpoint, Grant, Run
from catalog.models.vendors import OAuthKind
from catalog.vendors import onboarding
from catalog.views import offers
from catalog.views.asked import next_path, number
from core.errors import DomainError
from core.oauth.client import ClientAuthentication
from core.public_url import public_url
from people.forms import OperationForm
from people.models import Role
from people.permissions import person, public, requires, requires_post

# The key of a session that contains the page to which a sign-in returns.
AFTER_SIGN_IN = "after_sign_in"
IN_USE = Count("endpoints", filter=Q(endpoints__removed_at=None, endpoints__vendor__removed_at=None))
CHOOSE_IT = gettext_lazy("Choose it where an endpoint asks for a credential.")
NEXT_STEPS: dict[str, str | Promise] = {
    OAuthKind.CODE: gettext_lazy("Sign in at the vendor, and it can be used."),
    OAuthKind.USERS: gettext_lazy("Register the redirect address there, and choose it for an endpoint."),
}
ROWS = Credential.objects.filter(removed_at=None).select_related("set_by", "grant__signed_in_by")


@never_cache
@requires(Role.VIEWER)
def credential_list(request: HttpRequest) -> HttpResponse:
    rows, now = list(ROWS.annotate(used_by=IN_USE)), timezone.now()
    states = [(row, credential_status.status_of(row, now)) for row in rows]
    return render(request, "catalog/credentials.html", {"credentials": states})


@never_cache
@sensitive_post_parameters("secret")
@requires(Role.ADMIN)
def credential_new(request: HttpRequest) -> HttpResponse:
    offer = offers.accepted_offer(request)
    data = request.POST.copy()
    if offers.decides_kind(request, offer):
        data["kind"], data["secret"] = OAuthKind.CODE, ""
    form = CredentialForm(data or None, initial={"url": request.GET.get("url", "")})
    client = ClientForm(data if form.is_oauth else None, prefix="client")
    addresses = {
        "redirect_uri": redirect_uri(request),
        "users_redirect_uri": client_metadata.users_redirect_uri(request),
    }
    context = {"form": form, "client": client, **addresses}
    if offers.LOOK in request.POST:
        discovered = offers.look(request, request.POST.get("url", ""))
        return _with_lookup(request, "catalog/credential_new.html", context | discovered)
    if offer and form.is_oauth:
        client.fill(offer)
    is_ready = request.method == "POST" and offers.FILL not in request.POST
    if is_ready and form.is_valid() and (not form.is_oauth or client.is_valid()):
        try:
            values = form.cleaned_data | (client.entered_facts() if form.is_oauth else {})
            save = partial(credential_operations.create_credential, actor=person(request), **values)
            row = save(
                registered_client=offers.register_client(
                    request, offer, lambda tried: save(registered_client=tried)
                )
            )
        except DomainError as error:
            refuse(error, form, client if form.is_oauth else None)
        else:
            if run := _read_endpoint(row, request):
                return redirect("run", run.pk)
            messages.success(request, f"{_('Saved.')} {NEXT_STEPS.get(row.kind, CHOOSE_IT)}")
            return redirect("credential", row.pk)
    return render(request, "catalog/credential_new.html", context)


def _read_endpoint(credential: Credential, request: HttpRequest) -> Run | None:
    """Read the endpoint that the page was opened for."""
    endpoint = Endpoint.objects.live().filter(pk=number(request.GET.get("endpoint", "")) or 0).first()
    if endpoint is None:
        return None
    try:
        return onboarding.read_with_credential(endpoint, credential, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return None


def refuse(error: DomainError, form: OperationForm, client: ClientForm | None) -> None:
    """Add the error to its field, in the form that has it."""
    in_client = {name: message for name, message in error.fields.items() if client and name in client.fields}
    for name, message in in_client.items():
        if client:
            client.add_error(name, message)
    others = {name: message for name, message in error.fields.items() if name not in in_client}
    form.refuse(DomainError(error.code, error.message, fields=others, status=error.status))


def _with_lookup(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    # Render the form again with the discovery. Nothing is saved.
    if "HX-Request" in request.headers:
        template = "catalog/_discovery.html"
    return render(request, template, context)


@never_cache
@sensitive_post_parameters("secret")
@requires(write=Role.ADMIN)
def credential(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(ROWS, pk=pk)
    is_oauth = clients.uses_oauth(row)
    has_key = is_oauth and clients.has_key(row.grant)
    creates_key = has_key and "secret" not in request.POST
    form = NewClientKeyForm(request.POST or None) if creates_key else SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            credential_operations.replace_secret(row, actor=person(request), **form.cleaned_data)
            new_key = _("Another key was created. Register its public part at the server now.")
            message = _("The secret was replaced. The next sync uses it.")
            messages.success(request, new_key if creates_key else message)
            return redirect("credential", row.pk)
    context = {
        "credential": row,
        "status": credential_status.status_of(row, timezone.now()),
        "used_at": credential_status.last_used_at(row),
        "details": sessions.labelled_details(row),
        "form": form,
        "issued_key": form if isinstance(form, SecretForm) else SecretForm(),
        "grant": row.grant if is_oauth else None,
        "has_key": has_key,
        "public_key": json.dumps({"keys": [row.grant.public_key]}, indent=2) if has_key else "",
        "keys_at": public_url(reverse("credential-keys", args=[row.pk]), request),
        "takes_secret": not is_oauth or clients.has_secret(row.grant),
        "signs_in_at": urlsplit(row.grant.authorization_url).netloc if is_oauth else "",
        "endpoints": row.endpoints.live().select_related("vendor"),
        "provider_clients": row.provider_clients.select_related("endpoint__vendor"),
        "redirect_uri": _redirect_uri(request, row),
    }
    return render(request, "catalog/credential.html", context)


@never_cache
@requires(Role.ADMIN)
def credential_edit(request: HttpRequest, pk: str) -> HttpResponse:
    """Edit the name and the details. A new secret is entered on the credential's own page."""
    row = get_object_or_404(ROWS, pk=pk)
    if clients.uses_oauth(row):
        # The settings of an OAuth client.
        client = ClientChangeForm(request.POST or None, initial=_client_values(row))
        client.edits(sessions.facts(row))
        context = {"credential": row, "client": client, "redirect_uri": _redirect_uri(request, row)}
        if offers.LOOK in request.POST:
            discovered = _discover_server(request, row, request.POST.get("resource", ""))
            return _with_lookup(request, "catalog/credential_client.html", context | discovered)
        if offer := offers.accepted_offer(request):
            client.fill(offer)
        if request.method == "POST" and offers.FILL not in request.POST and client.is_valid():
            new_values = client.facts() | {"name": client.cleaned_data["name"]}
            if _is_changed(request, row, client, new_values, offer):
                return redirect("credential", row.pk)
        return render(request, "catalog/credential_client.html", context, status=client.status)
    form = CredentialChangeForm(request.POST or None, credential=row)
    form.edits(sessions.facts(row))
    if request.method == "POST" and form.is_valid() and _is_changed(request, row, form, form.cleaned_data):
        return redirect("credential", row.pk)
    context = {"credential": row, "form": form}
    return render(request, "catalog/credential_edit.html", context, status=form.status)


def _redirect_uri(request: HttpRequest, row: Credential) -> str:
    is_for_users = row.kind == OAuthKind.USERS
    return client_metadata.users_redirect_uri(request) if is_for_users else redirect_uri(request)


def _client_values(row: Credential) -> dict[str, Any]:
    return {name: getattr(row.grant, name) for name in clients.DETAILS} | {"name": row.name}


def _discover_server(request: HttpRequest, row: Credential, resource: str) -> dict[str, Any]:
    # The vendor's current metadata, next to the settings of the client.
    signs_in = row.kind in clients.SIGNING_IN
    return offers.look(request, resource or row.origin, may_sign_in=signs_in, registered_at=row.grant.issuer)


def _is_changed(
    request: HttpRequest,
    row: Credential,
    form: OperationForm,
    submitted: dict[str, Any],
    offer: dict[str, Any] | None = None,
) -> bool:
    save = partial(
        credential_operations.update_credential,
        row,
        actor=person(request),
        expected=form.expected,
        **submitted,
    )
    try:
        save(
            registered_client=offers.register_client(
                request, offer or {}, lambda tried: save(registered_client=tried)
            )
        )
    except DomainError as error:
        form.refuse(error)
        return False
    messages.success(request, _("Saved."))
    return True


@never_cache
@requires_post(Role.ADMIN)
def credential_sign_in(request: HttpRequest, pk: str) -> HttpResponse:
    """Begin a sign-in with the scopes that the vendor requires too. Clients without users need none."""
    row = get_object_or_404(ROWS, pk=pk)
    if row.kind == OAuthKind.CLIENT and row.grant.wanted_scope:
        credential_operations.widen(row, actor=person(request))
        return _continue_setup(request, row, _("Saved. The next token is asked for with these scopes."))
    if clients.uses_oauth(row) and row.grant.issuer and (row.grant.ended_at or row.grant.refused_at):
        discovered = _discover_server(request, row, row.grant.resource)
        if discovered.get("has_moved"):
            client = ClientChangeForm(initial=_client_values(row))
            client.edits(sessions.facts(row))
            context = {"credential": row, "client": client, "redirect_uri": redirect_uri(request)}
            return render(request, "catalog/credential_client.html", context | discovered)
    request.session[AFTER_SIGN_IN] = next_path(request)
    return offers.to_sign_in(request, row, otherwise=reverse("credential", args=[row.pk]))


@never_cache
@requires(Role.ADMIN)
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    # Answers with a redirect, so that the code stays in no address bar.
    try:
        row = sign_in.complete(
            dict(request.GET.lists()),
            actor=person(request),
            session_key=request.session.session_key or "",
            redirect_uri=redirect_uri(request),
        )
    except sign_in.VendorSignInError as error:
        messages.error(request, error.message)
        # The endpoint that waits for this, or the credential: both have the button to begin again.
        waiting = onboarding.waiting(error.credential)
        if len(waiting) == 1:
            return redirect("endpoint", waiting[0].pk)
        return redirect("credential", error.credential.pk)
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential-list")
    return _continue_setup(
        request, row, _("Signed in. “{credential}” can be used now.").format(credential=row)
    )


def _continue_setup(request: HttpRequest, row: Credential, message: str) -> HttpResponse:
    """Read the endpoints that waited for this credential, and redirect to the run if there is exactly one."""
    messages.success(request, message)
    try:
        runs = onboarding.start_waiting_runs(row, actor=person(request))
    except DomainError as error:  # an administrator removed what was waiting for it
        messages.error(request, error.message)
        return redirect("credential", row.pk)
    if path := request.session.pop(AFTER_SIGN_IN, ""):
        return redirect(path)
    return redirect("run", runs[0].pk) if len(runs) == 1 else redirect("credential", row.pk)


@public
@require_safe
def credential_keys(request: HttpRequest, pk: str) -> HttpResponse:
    """The public part of the key with which a client proves who it is, for the server to read (RFC 7517)."""
    rows = Grant.objects.filter(credential_id=pk, credential__removed_at=None).exclude(public_key=None)
    grant = get_object_or_404(rows.only("public_key"))
    return JsonResponse({"keys": [grant.public_key]}, headers={"Cache-Control": "max-age=300"})


@public
@require_GET
def client_document(request: HttpRequest) -> HttpResponse:
    """Return the client metadata without secrets, for servers that accept its address as a client id."""
    address = public_url(reverse("client-document"), request)
    described = client_metadata.client_metadata_document(
        redirect_uri(request), authentication=ClientAuthentication.NONE
    )
    return JsonResponse({"client_id": address, "client_uri": public_url("/", request), **described})


@requires_post(Role.ADMIN)
def credential_sign_out(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(ROWS, pk=pk)
    revoked = credential_operations.sign_out(row, actor=person(request))
    messages.success(request, _and_there(_("Its tokens were deleted."), revoked))
    return redirect("credential", row.pk)


@requires_post(Role.ADMIN)
def credential_remove(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(Credential, pk=pk, removed_at=None)
    try:
        revoked = credential_operations.remove_credential(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential", row.pk)
    messages.success(
        request,
        _and_there(
            _("“{credential}” was removed, and its secret was deleted.").format(credential=row), revoked
        ),
    )
    return redirect("credential-list")


def _and_there(done: str, revocation: Revocation | None) -> str:
    # The result, and whether the vendor was notified.
    return f"{done} {revocation.message}".strip() if revocation else done
