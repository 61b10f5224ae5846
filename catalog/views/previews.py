from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog import connections, custody, previews, protocols
from catalog.forms import NEW, EndpointForm, PreviewForm
from catalog.models import Credential, Endpoint
from catalog.views.endpoints import endpoint_context, live_endpoint
from people.errors import DomainError
from people.forms import OperationForm
from people.models import Role
from people.permissions import requires


@sensitive_post_parameters("secret")
@requires(Role.ADMIN, largest_body=settings.LARGEST_BODY)
@require_POST
def endpoint_preview(request: HttpRequest) -> HttpResponse:
    """Beside the form that it was asked from, or the whole page around it."""
    form = PreviewForm(request.POST, request.FILES)
    found = None
    if form.is_valid():
        try:
            found = previews.preview(_draft(form))
        except DomainError as error:
            form.refuse(error)
    template = "_preview.html" if "HX-Request" in request.headers else "endpoint_new.html"
    context = {"form": form, "preview": found, "refused": _refused(form)}
    return render(request, f"catalog/{template}", context)


@requires(Role.ADMIN, largest_body=settings.LARGEST_BODY)
@require_POST
def endpoint_change_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """What an endpoint would bring after a change that is not saved yet."""
    row = live_endpoint(pk)
    form = EndpointForm(request.POST, request.FILES, endpoint=row)
    found = None
    if form.is_valid():
        try:
            found = previews.preview(_changed(row, form))
        except DomainError as error:
            form.refuse(error)
    context = {"preview": found, "refused": _refused(form)}
    if "HX-Request" in request.headers:
        return render(request, "catalog/_preview.html", context)
    return render(request, "catalog/endpoint.html", endpoint_context(row, form) | context)


def _changed(row: Endpoint, form: EndpointForm) -> Endpoint:
    changes = form.changes()
    wanted = {name: changes[name] for name in ("url", "credential", "settings", "authorities")}
    return connections.draft_endpoint(protocol=row.protocol, instead_of=row, **wanted)


def _draft(form: PreviewForm) -> Endpoint:
    given, settings = form.cleaned_data, form.settings()
    return connections.draft_endpoint(
        protocol=given["protocol"],
        url=given["url"],
        credential=_credential(form),
        settings=settings,
        authorities=given["authorities"],
    )


def _credential(form: PreviewForm) -> Credential | None:
    given = form.cleaned_data
    if given["credential"] != NEW:
        return Credential.objects.get(pk=given["credential"]) if given["credential"] else None
    url = protocols.get(given["protocol"]).credential_url(given["url"].strip(), form.settings())
    own = {name: given[name] for name in ("kind", "secret")}
    return custody.draft_credential(name="new", url=url, **own, **form.details())


def _refused(form: OperationForm) -> list[str]:
    """What is wrong, each with the field that it is about."""
    return [
        f"{form.fields[name].label or name}: {sentence}" if name in form.fields else str(sentence)
        for name, sentences in form.errors.items()
        for sentence in sentences
    ]
