from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

import protocols
from catalog.credentials import circuit_breaker, kinds
from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import clients
from catalog.credentials.oauth.client_metadata import redirect_uri
from catalog.credentials.oauth.clients import RegisteredClient
from catalog.enumeration import pace
from catalog.forms import NEW, ConnectForm, EndpointForm
from catalog.forms.client_fields import ClientForm
from catalog.models import Credential, Endpoint, Vendor
from catalog.models.runs import RunStatus
from catalog.models.vendors import OAuthKind
from catalog.search.progress import progress_of
from catalog.second_look import runs as second_look
from catalog.twins import already_connected
from catalog.vendors import charts, onboarding
from catalog.vendors import operations as vendor_operations
from catalog.vendors.detection_jobs import Job
from catalog.views import detections, offers
from catalog.views.credentials import refuse
from core.errors import DomainError
from core.outbound.addresses import in_ascii
from core.pagination import Keyset
from people.models import Role, User
from people.permissions import person, requires, requires_post

RUNS_SHOWN = 20
# The button for a kind of credential without OAuth. A value after a colon is the name field of that kind.
ENTER = "enter"
# The button that accepts the detected protocol.
READ_AS = "read_as"


@sensitive_post_parameters("secret")
@requires(Role.ADMIN, largest_body=settings.MAX_BODY_BYTES)
def endpoint_new(request: HttpRequest) -> HttpResponse:
    """Connect an endpoint. It redirects to the first run, or to a sign-in at the vendor before it."""
    job = detections.job_of(request)
    if "HX-Request" in request.headers and request.method == "GET":
        return _detection_progress(request, job)
    offer = offers.accepted_offer(request)
    form, client = _filled_forms(request, offer, job)
    context = {
        "form": form,
        "client": client,
        "redirect_uri": redirect_uri(request),
        **form.vendor_request_context(),
        **detections.context_of(request, job),
        **detections.layout_of(request, job, form),
    }
    if request.method == "GET" and job and job.result:
        context["already"] = find_connected(form["protocol"].value(), job.result.address)
    if offers.LOOK in request.POST:
        template = "_discovery.html" if "HX-Request" in request.headers else "endpoint_new.html"
        return render(
            request, f"catalog/{template}", context | offers.look(request, request.POST.get("url", ""))
        )
    is_ready = request.method == "POST" and not {offers.FILL, ENTER, READ_AS} & request.POST.keys()
    if is_ready and context["is_over"]:
        # First, because the address may be connected already if the request has an answer.
        context["already"] = find_connected(form["protocol"].value(), form["url"].value())
    elif is_ready and form.is_valid() and (not form.is_oauth or client.is_valid()):
        try:
            save = partial(_connect_endpoint, form, client, person(request))
            endpoint = save(offers.register_client(request, offer, save))
        except DomainError as error:
            if error.code == "request_answered":
                context |= form.vendor_request_context()
            else:
                refuse(error, form, client if form.is_oauth else None)
            context["already"] = find_connected(form["protocol"].value(), form["url"].value())
        else:
            here = reverse("endpoint", args=[endpoint.pk])
            if endpoint.is_paused and endpoint.credential:
                return offers.to_sign_in(request, endpoint.credential, otherwise=here)
            run = endpoint.runs.first()
            return redirect("run", run.pk) if run else redirect(here)
    return render(request, "catalog/endpoint_new.html", context)


def _detection_progress(request: HttpRequest, job: Job | None) -> HttpResponse:
    if job and job.is_active:
        context = detections.context_of(request, job)
        return render(request, "catalog/_detection_progress.html", context)
    response = HttpResponse()
    response["HX-Refresh"] = "true"
    return response


def find_connected(protocol: str, url: str, instead_of: Endpoint | None = None) -> list[Endpoint]:
    """Return the endpoints with this address and protocol."""
    pk = instead_of.pk if instead_of else None
    entered = Endpoint(pk=pk, protocol=protocol, url=in_ascii(url.strip()))
    return [match.endpoint for match in already_connected(entered)]


def _filled_forms(
    request: HttpRequest, offer: dict[str, Any], job: Job | None
) -> tuple[ConnectForm, ClientForm]:
    """Return the entered values, with those of a pressed offer button."""
    data = request.POST.copy() if request.method == "POST" else None
    if data is not None:
        detections.add_document(request, data)
    if data is not None and READ_AS in data:
        data["protocol"] = request.POST.get(READ_AS, "")
    if data is not None and (offer or ENTER in data):
        entered, _unused, name = request.POST.get(ENTER, "").partition(":")
        data["kind"] = entered
        if offer:
            # The kind that was chosen before the settings were filled in, or else the usual one there.
            stated = request.POST.get("kind", "") if request.POST.get("credential") == NEW else ""
            usual = OAuthKind.CODE if offer.get("authorization_url") else OAuthKind.CLIENT
            data["kind"] = stated if offers.FILL in request.POST and stated in clients.KINDS else usual
        kind = kinds.KINDS.get(entered)
        if name and kind and kind.details:
            data[kind.details[0].name] = name
        data["credential"] = NEW
        if not (data.get("vendor") or data.get("vendor_name")):
            with suppress(ValueError):  # it is no address
                data["vendor_name"] = urlsplit(request.POST.get("url", "")).hostname or ""
        if offers.decides_kind(request, offer):
            data["secret"] = ""  # the server issues it, or there is none
    initial = detections.initial_of(request, job)
    form = ConnectForm(data, request.FILES or None, initial=initial)
    client = ClientForm(data if form.is_oauth else None, prefix="client")
    if offer and form.is_oauth:
        client.fill(offer)
        client.fields["client_id"].widget.attrs["autofocus"] = True
    elif ENTER in request.POST:
        form.fields["secret"].widget.attrs["autofocus"] = True
    return form, client


@transaction.atomic
def _connect_endpoint(
    form: ConnectForm, client: ClientForm, actor: User, registered_client: RegisteredClient | None
) -> Endpoint:
    # In one transaction. The first run starts after the commit.
    values = form.cleaned_data
    vendor: Vendor = values["vendor"] or vendor_operations.vendor_of_address(
        actor=actor, name=values["vendor_name"], url=values["url"]
    )
    if values["credential"] == NEW:
        stated = stated_credential(form, client)
        credential: Credential | None = credential_operations.create_credential(
            actor=actor, name=vendor.name, registered_client=registered_client, **stated
        )
    else:
        credential = chosen_credential(form)
    endpoint = vendor_operations.create_endpoint(
        actor=actor,
        vendor=vendor,
        protocol=values["protocol"],
        url=values["url"],
        name=values["name"],
        credential=credential,
        interval_minutes=values["interval_minutes"],
        settings=form.settings(),
        policy=form.policy(),
        again=values["again"],
        vendor_request=values["vendor_request"],
        **form.reach(),
    )
    onboarding.begin(endpoint, actor=actor)
    return endpoint


def chosen_credential(form: ConnectForm) -> Credential | None:
    """Return the existing credential that the user has selected."""
    pk = form.cleaned_data["credential"]
    return Credential.objects.select_related("grant").get(pk=pk) if pk not in ("", NEW) else None


def stated_credential(form: ConnectForm, client: ClientForm) -> dict[str, Any]:
    """Return the entered values of a new credential, in the form of the operations."""
    values = form.cleaned_data
    url = protocols.get(values["protocol"]).credential_url(values["url"].strip(), form.settings())
    details = client.entered_facts() if form.is_oauth else form.details()
    return {"kind": values["kind"], "secret": values["secret"], "url": url, **details}


def endpoint_context(
    row: Endpoint, form: EndpointForm, parameters: QueryDict | None = None
) -> dict[str, Any]:
    """Return the context of an endpoint's page.

    parameters: the query with the tab and the filters of its runs; None for the tab of a submitted form.
    """
    is_settings = parameters is None or parameters.get("tab") == "settings"
    parameters = parameters if parameters is not None else QueryDict()
    is_narrowed = parameters.get("runs") == "changes"
    runs = row.runs.with_changes() if is_narrowed else row.runs.all()
    credential = row.credential
    signs_in_at = ""
    if credential and credential.awaits_sign_in:
        signs_in_at = urlsplit(credential.grant.authorization_url).netloc
    return {
        "endpoint": row,
        "is_settings": is_settings,
        "protocol": form.protocol,
        "form": form,
        "runs": Keyset(runs.select_related("requested_by"), "-id").page(parameters.get("cursor"), RUNS_SHOWN),
        "only_with_changes": is_narrowed,
        "last_complete": row.runs.of_lists().filter(status=RunStatus.SUCCEEDED).first(),
        "is_due": row.next_due_at <= timezone.now(),
        "unavailable_until": circuit_breaker.unavailable_until(row),
        "opens_after": circuit_breaker.OPENS_AFTER,
        "look": second_look.look_of_endpoint(row),
        "signs_in_at": signs_in_at,
        "counts": Endpoint.objects.with_item_counts().only("pk").get(pk=row.pk),
        "progress": progress_of([row.pk]),
        "charts": charts.syncs_of_endpoint(row),
        "spoken": protocols.get(row.protocol).detected_properties(row.memory),
    }


@requires(write=Role.ADMIN, largest_body=settings.MAX_BODY_BYTES)
def endpoint(request: HttpRequest, pk: int) -> HttpResponse:
    row = live_endpoint(pk)
    form = EndpointForm(request.POST or None, request.FILES or None, endpoint=row)
    form.edits(vendor_operations.endpoint_facts(row))
    more: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        try:
            vendor_operations.update_endpoint(
                row, actor=person(request), expected=form.expected, **form.changes()
            )
        except DomainError as error:
            form.refuse(error)
            row.refresh_from_db()
            if error.code == "already_connected":
                more["already"] = find_connected(row.protocol, form["url"].value(), instead_of=row)
        else:
            messages.success(request, _("Saved. The next sync uses these settings."))
            return redirect("endpoint", row.pk)
    parameters = None if request.method == "POST" else request.GET
    context = endpoint_context(row, form, parameters) | more
    if not person(request).can_administer and (moment := pace.possible_from(row)):
        context["read_later"] = pace.describe_moment(moment)
    return render(request, "catalog/endpoint.html", context, status=form.status)


@requires_post(Role.DESIGNER)
def endpoint_read(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        run = pace.request_run(live_endpoint(pk), actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("endpoint", pk)
    return redirect("run", run.pk)


@requires_post(Role.ADMIN)
def endpoint_pause(request: HttpRequest, pk: int) -> HttpResponse:
    row = live_endpoint(pk)
    row = vendor_operations.update_endpoint(row, actor=person(request), is_paused=not row.is_paused)
    messages.success(
        request,
        _("Paused. It is synced only when a user presses “Sync now”.")
        if row.is_paused
        else _("Synced on schedule again."),
    )
    return redirect("endpoint", row.pk)


def live_endpoint(pk: int) -> Endpoint:
    rows = Endpoint.objects.live().select_related("vendor", "credential__grant", "held_run", "circuit")
    return get_object_or_404(rows, pk=pk)
