from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth.client_metadata import redirect_uri
from catalog.forms import NEW, ConnectForm, EndpointForm, PreviewForm
from catalog.forms.client_fields import ClientForm
from catalog.vendors import detection_jobs, previews
from catalog.vendors import operations as vendor_operations
from catalog.views import detections, offers
from catalog.views.credentials import refuse
from catalog.views.endpoints import (
    chosen_credential,
    endpoint_context,
    find_connected,
    live_endpoint,
    stated_credential,
)
from core.errors import DomainError
from people.forms import OperationForm
from people.models import Role
from people.permissions import person, requires

# The values that stay when a detection cannot begin.
CARRIED_ALONG = ("url", "vendor", "vendor_name", "vendor_request")


@sensitive_post_parameters("secret")
@requires(Role.ADMIN, largest_body=settings.MAX_BODY_BYTES)
@require_POST
def endpoint_detect(request: HttpRequest) -> HttpResponse:
    """Start the detection of an address or a pasted document, and show the progress."""
    source = request.POST.get("url", "")
    try:
        job_id = detection_jobs.begin(source, actor=person(request))
    except DomainError as error:
        form = ConnectForm(initial={name: request.POST.get(name, "") for name in CARRIED_ALONG})
        message = error.fields.get("url", error.message)
        context = {"form": form, "client": ClientForm(None, prefix="client"), "refused_source": message}
        return render(request, "catalog/endpoint_new.html", context, status=error.status)
    query = {detections.NAME: str(job_id)}
    if vendor := request.POST.get("vendor"):
        query["vendor"] = vendor
    if vendor_request := request.POST.get("vendor_request"):
        query["request"] = vendor_request
    return redirect(reverse("endpoint-new", query=query))


@sensitive_post_parameters("secret")
@requires(Role.ADMIN, largest_body=settings.MAX_BODY_BYTES)
@require_POST
def endpoint_preview(request: HttpRequest) -> HttpResponse:
    """Preview an endpoint, as a part of its form's page or as a whole page."""
    data = request.POST.copy()
    detections.add_document(request, data)
    form = PreviewForm(data, request.FILES)
    client = ClientForm(request.POST if form.is_oauth else None, prefix="client")
    context: dict[str, Any] = {"form": form, "client": client, "redirect_uri": redirect_uri(request)}
    job = detections.job_of(request)
    context |= form.vendor_request_context() | detections.layout_of(request, job, form)
    if form.is_valid() and (not form.is_oauth or client.is_valid()):
        try:
            values, credential = form.cleaned_data, chosen_credential(form)
            if values["credential"] == NEW:
                credential = credential_operations.draft_credential(
                    name="new", **stated_credential(form, client)
                )
            draft = vendor_operations.draft_endpoint(
                protocol=values["protocol"],
                url=values["url"],
                credential=credential,
                settings=form.settings(),
                **form.reach(),
            )
            preview = previews.preview(draft)
            wants_sign_in = preview.error is not None and preview.error["code"] == "AUTH"
            context |= {
                "preview": preview,
                "wanted": preview.wanted,
                "wants_sign_in": wants_sign_in,
                "already": find_connected(draft.protocol, draft.url),
            }
            if wants_sign_in:
                context |= offers.look(request, draft.credential_url, preview.challenge)
        except DomainError as error:
            refuse(error, form, client if form.is_oauth else None)
    context["refused"] = [*_error_sentences(form), *(_error_sentences(client) if form.is_oauth else [])]
    template = "_preview.html" if "HX-Request" in request.headers else "endpoint_new.html"
    return render(request, f"catalog/{template}", context)


@requires(Role.ADMIN, largest_body=settings.MAX_BODY_BYTES)
@require_POST
def endpoint_change_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Preview an endpoint with a change that is not saved."""
    row = live_endpoint(pk)
    form = EndpointForm(request.POST, request.FILES, endpoint=row)
    preview = None
    if form.is_valid():
        with form.catch_errors():
            changes = form.changes()
            names = ("url", "credential", "settings", *vendor_operations.REACH)
            draft_values = {name: changes[name] for name in names}
            draft = vendor_operations.draft_endpoint(protocol=row.protocol, instead_of=row, **draft_values)
            preview = previews.preview(draft)
    context = {"preview": preview, "refused": _error_sentences(form)}
    if "HX-Request" in request.headers:
        return render(request, "catalog/_preview.html", context)
    return render(request, "catalog/endpoint.html", endpoint_context(row, form) | context)


def _error_sentences(form: OperationForm) -> list[str]:
    """Return the errors by field."""
    return [
        f"{form.fields[name].label or name}: {sentence}" if name in form.fields else str(sentence)
        for name, sentences in form.errors.items()
        for sentence in sentences
    ]
