from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog import connections
from catalog.forms import CredentialForm, SecretForm
from catalog.models import Credential
from people.errors import DomainError
from people.models import Role
from people.permissions import person, requires

PAGE_SIZE = 50
IN_USE = Count("endpoints", filter=Q(endpoints__removed_at=None))


@requires(Role.VIEWER)
def credential_list(request: HttpRequest) -> HttpResponse:
    rows = Credential.objects.filter(removed_at=None).select_related("set_by").annotate(used_by=IN_USE)
    return render(request, "catalog/credentials.html", {"credentials": rows})


@sensitive_post_parameters("secret")
@requires(Role.ADMIN)
def credential_new(request: HttpRequest) -> HttpResponse:
    form = CredentialForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            row = connections.create_credential(actor=person(request), **form.cleaned_data)
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, "Saved. Choose it where an endpoint asks for a credential.")
            return redirect("credential", row.pk)
    return render(request, "catalog/credential_new.html", {"form": form})


@sensitive_post_parameters("secret")
@requires(write=Role.ADMIN)
def credential(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(Credential.objects.select_related("set_by"), pk=pk, removed_at=None)
    form = SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            connections.replace_secret(row, actor=person(request), **form.cleaned_data)
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, "The secret was replaced. The next reading uses it.")
            return redirect("credential", row.pk)
    endpoints = row.endpoints.live().select_related("vendor")
    return render(
        request, "catalog/credential.html", {"credential": row, "form": form, "endpoints": endpoints}
    )


@requires(Role.ADMIN)
@require_POST
def credential_remove(request: HttpRequest, pk: str) -> HttpResponse:
    row = get_object_or_404(Credential, pk=pk, removed_at=None)
    try:
        connections.remove_credential(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("credential", row.pk)
    messages.success(request, f"“{row}” was removed and its secret forgotten.")
    return redirect("credential-list")
