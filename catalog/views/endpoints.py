from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog import connections, custody, enumeration, pacing, protocols
from catalog.forms import NEW, ConnectForm, EndpointForm
from catalog.models import Credential, Endpoint, Run, Vendor
from catalog.models.runs import Trigger
from catalog.models.tools import ToolStatus
from people.errors import DomainError
from people.models import Role, User
from people.permissions import person, requires

RUNS_SHOWN = 20


@sensitive_post_parameters("secret")
@requires(Role.ADMIN, largest_body=settings.LARGEST_BODY)
def endpoint_new(request: HttpRequest) -> HttpResponse:
    form = ConnectForm(
        request.POST or None, request.FILES or None, initial={"vendor": request.GET.get("vendor", "")}
    )
    if request.method == "POST" and form.is_valid():
        try:
            run = _connect(form, person(request))
        except DomainError as error:
            form.refuse(error)
        else:
            return redirect("run", run.pk)
    return render(request, "catalog/endpoint_new.html", {"form": form})


@transaction.atomic
def _connect(form: ConnectForm, actor: User) -> Run:
    """All of it or nothing, and the first reading once it is committed."""
    given = form.cleaned_data
    vendor: Vendor = given["vendor"] or connections.create_vendor(actor=actor, name=given["vendor_name"])
    endpoint = connections.create_endpoint(
        actor=actor,
        vendor=vendor,
        protocol=given["protocol"],
        url=given["url"],
        name=given["name"],
        credential=_credential(form, vendor, actor),
        interval_minutes=given["interval_minutes"],
        settings=form.settings(),
        policy=form.policy(),
        **form.reach(),
    )
    return enumeration.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)


def _credential(form: ConnectForm, vendor: Vendor, actor: User) -> Credential | None:
    given = form.cleaned_data
    if given["credential"] == NEW:
        url = protocols.get(given["protocol"]).credential_url(given["url"].strip(), form.settings())
        own = {name: given[name] for name in ("kind", "secret")}
        return custody.create_credential(actor=actor, name=vendor.name, url=url, **own, **form.details())
    return Credential.objects.get(pk=given["credential"]) if given["credential"] else None


def endpoint_context(row: Endpoint, form: EndpointForm) -> dict[str, Any]:
    return {
        "endpoint": row,
        "protocol": form.protocol,
        "form": form,
        "runs": row.runs.select_related("requested_by")[:RUNS_SHOWN],
        "is_due": row.next_due_at <= timezone.now(),
        "unavailable_until": pacing.unavailable_until(row),
        "opens_after": pacing.OPENS_AFTER,
        "tool_count": row.tools.filter(status=ToolStatus.ACTIVE).count(),
    }


@requires(write=Role.ADMIN, largest_body=settings.LARGEST_BODY)
def endpoint(request: HttpRequest, pk: int) -> HttpResponse:
    row = live_endpoint(pk)
    form = EndpointForm(request.POST or None, request.FILES or None, endpoint=row)
    form.edits(connections.endpoint_facts(row))
    if request.method == "POST" and form.is_valid():
        try:
            connections.update_endpoint(row, actor=person(request), expected=form.expected, **form.changes())
        except DomainError as error:
            form.refuse(error)
            row.refresh_from_db()
        else:
            messages.success(request, "Saved. The next reading uses these settings.")
            return redirect("endpoint", row.pk)
    return render(request, "catalog/endpoint.html", endpoint_context(row, form), status=form.status)


@requires(Role.ADMIN)
@require_POST
def endpoint_read(request: HttpRequest, pk: int) -> HttpResponse:
    run = enumeration.request_run(live_endpoint(pk), trigger=Trigger.PERSON, actor=person(request))
    return redirect("run", run.pk)


@requires(Role.ADMIN)
@require_POST
def endpoint_pause(request: HttpRequest, pk: int) -> HttpResponse:
    row = live_endpoint(pk)
    row = connections.update_endpoint(row, actor=person(request), is_paused=not row.is_paused)
    messages.success(
        request,
        "Paused. It is read only when somebody asks." if row.is_paused else "Reading on schedule again.",
    )
    return redirect("endpoint", row.pk)


def live_endpoint(pk: int) -> Endpoint:
    rows = Endpoint.objects.live().select_related("vendor", "credential", "held_run", "circuit")
    return get_object_or_404(rows, pk=pk)
