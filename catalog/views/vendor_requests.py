from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from catalog.forms.vendor_request_fields import AskForm, DeclineForm
from catalog.models import VendorRequest
from catalog.twins import already_connected
from catalog.vendors import operations as vendor_operations
from catalog.vendors import vendor_requests
from catalog.views.asked import next_path, number
from core import numbered_pages
from core.errors import DomainError
from core.pagination import Keyset
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post

PAGE_SIZE = 50
PREVIEW = "preview"


@requires(Role.VIEWER)
def vendor_request_list(request: HttpRequest) -> HttpResponse:
    rows = VendorRequest.objects.select_related("asked_by", "answered_by", "endpoint__vendor")
    answered, cursor = rows.exclude(state="waiting"), request.GET.get("cursor")
    waiting, find = list(rows.filter(state="waiting")), request.GET.get("find", "").strip()
    matching = numbered_pages.rows_with_text(waiting, find, lambda row: f"{row.vendor_name} {row.url}")
    # A link to one request opens the page that has it.
    linked = number(request.GET.get("request", ""))
    number_of_linked = next((place for place, row in enumerate(matching, 1) if row.pk == linked), 1)
    first = request.GET.get("requests", "") or str(number_of_linked)
    keyset = Keyset(answered, "-id")
    linked_row = answered.filter(pk=linked).first() if linked and not cursor else None
    page = keyset.page_with(linked_row, PAGE_SIZE) if linked_row else keyset.page(cursor, PAGE_SIZE)
    context = {
        "waiting_count": len(waiting),
        "can_find": len(waiting) > numbered_pages.PAGE_SIZE,
        "find": find,
        "waiting": numbered_pages.page_of(matching, first, name="requests"),
        "page": page,
    }
    return render(request, "catalog/vendor_requests.html", context)


@requires(Role.DESIGNER)
def vendor_request_new(request: HttpRequest) -> HttpResponse:
    """Preview an address without a credential, or send the request for it. Each has its button."""
    is_preview = PREVIEW in request.POST
    initial = {"reason": request.GET.get("reason", "")}
    form = AskForm(request.POST or None, is_preview=is_preview, initial=initial)
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        values, actor = form.cleaned_data, person(request)
        with form.catch_errors():
            draft = vendor_operations.draft_endpoint(protocol=values["protocol"], url=values["url"])
            # Endpoints and requests with this address.
            connected = [match.endpoint for match in already_connected(draft)]
            context |= {"connected": connected, "asked": vendor_requests.waiting_at(draft)}
            if is_preview:
                context["preview"] = vendor_requests.preview(draft, reader=actor)
            else:
                row = vendor_requests.ask(
                    draft, actor=actor, vendor_name=values["vendor_name"], reason=values["reason"]
                )
                messages.success(
                    request, _("You requested “{vendor}”. An administrator decides.").format(vendor=row)
                )
                return redirect(next_path(request) or "vendor-request-list")
    return render(request, "catalog/vendor_request_new.html", context)


@requires_post(Role.DESIGNER)
def vendor_request_take_back(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(VendorRequest, pk=pk)
    with show_errors(request):
        vendor_requests.take_back(row, actor=person(request))
        messages.success(request, _("You withdrew the request for “{vendor}”.").format(vendor=row))
    return redirect("vendor-request-list")


@requires_post(Role.ADMIN)
def vendor_request_decline(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(VendorRequest, pk=pk)
    form = DeclineForm(request.POST)
    try:
        answer = form.cleaned_data["answer"] if form.is_valid() else request.POST.get("answer", "")
        vendor_requests.decline(row, actor=person(request), answer=answer)
    except DomainError as error:
        messages.error(request, next(iter(error.fields.values()), error.message))
    else:
        messages.success(
            request, _("“{vendor}” is declined. The user who requested it is notified.").format(vendor=row)
        )
    return redirect(row.path)
