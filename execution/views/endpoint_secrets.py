"""Secrets and OAuth clients that tools of an endpoint need besides their inputs. Secrets are never shown."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog.forms import EndpointSecretForm
from catalog.models import Endpoint
from core.errors import DomainError
from execution.user_grants import providers, vault
from people.models import Role
from people.permissions import person, requires


@never_cache
@sensitive_post_parameters("value")
@requires(Role.ADMIN)
def endpoint_secrets(request: HttpRequest, pk: int) -> HttpResponse:
    endpoint = get_object_or_404(Endpoint.objects.live().select_related("vendor"), pk=pk)
    form = EndpointSecretForm(request.POST or None, initial={"name": request.GET.get("name", "")})
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            vault.set_secret(endpoint, actor=person(request), **form.cleaned_data)
            messages.success(request, _("Saved. It is sent with the next call of a tool that needs it."))
            return redirect("endpoint-secrets", endpoint.pk)
    needed = vault.find_needs(endpoint)
    provider_clients = list(endpoint.provider_clients.select_related("credential"))
    context = {
        "providers": provider_clients,
        "unchosen": sorted(set(vault.providers_named(endpoint)) - {row.provider for row in provider_clients}),
        "credentials": providers.choices(endpoint),
        "endpoint": endpoint,
        "secrets": [(row, vault.is_usable(row, endpoint)) for row in vault.secrets_of(endpoint)],
        "missing": [need for need in needed if not need.is_there],
        "form": form,
    }
    return render(request, "catalog/endpoint_secrets.html", context)


@require_POST
@requires(Role.ADMIN)
def endpoint_secret_forget(request: HttpRequest, pk: int, secret: str) -> HttpResponse:
    endpoint = get_object_or_404(Endpoint.objects.live(), pk=pk)
    vault.forget(get_object_or_404(endpoint.secrets.all(), pk=secret), actor=person(request))
    messages.success(request, _("Deleted. Tools that need it are not called until you enter it again."))
    return redirect("endpoint-secrets", pk)


@require_POST
@requires(Role.ADMIN)
def endpoint_provider_choose(request: HttpRequest, pk: int) -> HttpResponse:
    """Set the OAuth client with which users authorize at a provider, or none if they authorize at the
    vendor."""
    endpoint = get_object_or_404(Endpoint.objects.live().select_related("vendor"), pk=pk)
    provider, credential_id = request.POST.get("provider", ""), request.POST.get("credential", "")
    try:
        if credential_id:
            credential = next(
                (row for row in providers.choices(endpoint) if str(row.pk) == credential_id), None
            )
            if credential is None:
                raise Http404
            providers.choose(endpoint, actor=person(request), provider=provider, credential=credential)
        elif row := endpoint.provider_clients.filter(provider=provider).first():
            providers.forget(row, actor=person(request))
    except DomainError as error:
        messages.error(request, " ".join(error.fields.values()) or error.message)
    else:
        messages.success(request, _("Saved. It applies from the next call on."))
    return redirect("endpoint-secrets", pk)
