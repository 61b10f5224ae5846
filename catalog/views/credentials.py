import json
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from catalog import custody, standing
from catalog.client_fields import ClientForm
from catalog.forms import CredentialForm, SecretForm
from catalog.models import Credential
from catalog.models.vendors import CredentialKind
from catalog.oauth import clients, discovery, sign_in
from catalog.oauth.findings import Discovery, Server
from catalog.protocols import strict_json
from catalog.protocols.errors import ProtocolError, RefusedError
from people.errors import DomainError
from people.models import Role
from people.permissions import person, requires

ASKS = {"look-up", "found"}  # buttons that save nothing
IN_USE = Count("endpoints", filter=Q(endpoints__removed_at=None, endpoints__vendor__removed_at=None))
ROWS = Credential.objects.filter(removed_at=None).select_related("set_by", "grant__signed_in_by")


@never_cache
@requires(Role.VIEWER)
def credential_list(request: HttpRequest) -> HttpResponse:
    rows, now = list(ROWS.annotate(used_by=IN_USE)), timezone.now()
    states = [(row, standing.standing_of(row, now)) for row in rows]
    return render(request, "catalog/credentials.html", {"credentials": states})


@never_cache
@sensitive_post_parameters("secret")
@requires(Role.ADMIN)
def credential_new(request: HttpRequest) -> HttpResponse:
    form = CredentialForm(request.POST or None)
    client = ClientForm(request.POST if form.is_oauth else None, prefix="client")
    context = {"form": form, "client": client, "redirect_uri": _redirect_uri(request)}
    if ASKS & request.POST.keys():
        asked = request.POST.get("url", "")
        return _with_lookup(request, "catalog/credential_new.html", client, asked, context)
    if request.method == "POST" and form.is_valid() and (not form.is_oauth or client.is_valid()):
        given = form.cleaned_data | (client.given() if form.is_oauth else {})
        try:
            row = custody.create_credential(actor=person(request), **given)
        except DomainError as error:
            _refuse(error, form, client)
        else:
            messages.success(request, _saved(row))
            return redirect("credential", row.pk)
    return render(request, "catalog/credential_new.html", context)


def _saved(row: Credential) -> str:
    if row.kind == CredentialKind.OAUTH_CODE:
        return "Saved. Sign in at the vendor, and it can be used."
    return "Saved. Choose it where an endpoint asks for a credential."


def _refuse(error: DomainError, form: CredentialForm, client: ClientForm) -> None:
    """Beside the field it is about, in whichever of the two forms that is."""
    in_client = {name: why for name, why in error.fields.items() if form.is_oauth and name in client.fields}
    for name, why in in_client.items():
        client.add_error(name, why)
    others = {name: why for name, why in error.fields.items() if name not in in_client}
    form.refuse(DomainError(error.code, error.message, fields=others, status=error.status))


def _with_lookup(
    request: HttpRequest, template: str, client: ClientForm, asked: str, context: dict[str, Any]
) -> HttpResponse:
    """The page as it was filled in, with what the vendor at `asked` says; nothing is saved."""
    offers: list[dict[str, Any]] = []
    found, refused = None, ""
    if "found" in request.POST:
        client.take(_chosen(request.POST["found"]))
    else:
        try:
            found = discovery.discover(asked.strip())
            offers = [_offer(found, server) for server in found.servers]
        except RefusedError as error:
            refused = error.message
    context |= {"found": found, "offers": offers, "refused": refused}
    if "HX-Request" in request.headers and "found" not in request.POST:
        template = "catalog/_discovery.html"
    return render(request, template, context)


def _offer(found: Discovery, server: Server) -> dict[str, Any]:
    settings = {
        "token_url": server.token_url,
        "authorization_url": server.authorization_url,
        "issuer": server.issuer,
        "states_issuer": server.states_issuer,
        "client_authentication": server.client_authentication,
        "scope": found.scope,
        "resource": found.resource,
    }
    return {"server": server, "settings": json.dumps(settings)}


def _chosen(text: str) -> dict[str, Any]:
    """As `_offer` wrote it into the page; as good as typed, and judged like that when it is saved."""
    try:
        given = strict_json.loads(text.encode())
    except ProtocolError:
        return {}
    if not isinstance(given, dict):
        return {}
    return {name: value for name, value in given.items() if isinstance(value, str | bool)}


def _redirect_uri(request: HttpRequest) -> str:
    """Where the authorization server sends the browser back to: registered there, and compared exactly."""
    return request.build_absolute_uri(reverse("credential-callback"))


@never_cache
@sensitive_post_parameters("secret")
@requires(write=Role.ADMIN)
def credential(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(ROWS, pk=pk)
    form = SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            custody.replace_secret(row, actor=person(request), **form.cleaned_data)
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, "The secret was replaced. The next reading uses it.")
            return redirect("credential", row.pk)
    is_oauth = clients.uses_oauth(row)
    context = {
        "credential": row,
        "standing": standing.standing_of(row, timezone.now()),
        "used_at": standing.used_at(row),
        "form": form,
        "grant": row.grant if is_oauth else None,
        "takes_secret": not is_oauth or clients.has_secret(row.grant),
        "signs_in_at": urlsplit(row.grant.authorization_url).netloc if is_oauth else "",
        "endpoints": row.endpoints.live().select_related("vendor"),
        "redirect_uri": _redirect_uri(request),
    }
    return render(request, "catalog/credential.html", context)


@never_cache
@sensitive_post_parameters("secret")
@requires(Role.ADMIN)
def credential_client(request: HttpRequest, pk: str) -> HttpResponse:
    """The settings of an OAuth client."""
    row = get_object_or_404(ROWS, pk=pk, kind__in=clients.KINDS)
    held = {name: getattr(row.grant, name) for name in clients.DETAILS}
    client = ClientForm(request.POST or None, initial=held)
    client.edits(custody.credential_facts(row))
    context = {"credential": row, "client": client, "redirect_uri": _redirect_uri(request)}
    if ASKS & request.POST.keys():
        asked = request.POST.get("resource") or row.origin
        return _with_lookup(request, "catalog/credential_client.html", client, asked, context)
    if request.method == "POST" and client.is_valid():
        try:
            custody.update_credential(row, actor=person(request), expected=client.expected, **client.facts())
        except DomainError as error:
            client.refuse(error)
        else:
            messages.success(request, "Saved.")
            return redirect("credential", row.pk)
    return render(request, "catalog/credential_client.html", context, status=client.status)


@never_cache
@requires(Role.ADMIN)
@require_POST
def credential_sign_in(request: HttpRequest, pk: str) -> HttpResponse:
    """A page that goes on to the authorization server: our policy lets no form lead to another origin."""
    row = get_object_or_404(ROWS, pk=pk)
    try:
        address = sign_in.begin(
            row,
            actor=person(request),
            session_key=request.session.session_key or "",
            redirect_uri=_redirect_uri(request),
        )
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential", row.pk)
    context = {"credential": row, "address": address, "host": urlsplit(address).netloc}
    return render(request, "catalog/credential_sign_in.html", context)


@never_cache
@requires(Role.ADMIN)
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Answers with a redirect, so that the code stays in no address bar."""
    try:
        row = sign_in.complete(
            dict(request.GET.lists()),
            actor=person(request),
            session_key=request.session.session_key or "",
            redirect_uri=_redirect_uri(request),
        )
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential-list")
    messages.success(request, f"Signed in. “{row}” can be used now.")
    return redirect("credential", row.pk)


@requires(Role.ADMIN)
@require_POST
def credential_sign_out(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(ROWS, pk=pk)
    custody.sign_out(row, actor=person(request))
    messages.success(request, "Its tokens are forgotten.")
    return redirect("credential", row.pk)


@requires(Role.ADMIN)
@require_POST
def credential_remove(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(Credential, pk=pk, removed_at=None)
    try:
        custody.remove_credential(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential", row.pk)
    messages.success(request, f"“{row}” was removed and its secret forgotten.")
    return redirect("credential-list")
