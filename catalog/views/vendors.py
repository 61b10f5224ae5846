from django.contrib import messages
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from catalog.forms import VendorForm
from catalog.models import Endpoint, Vendor, WaitingDecision
from catalog.search.progress import pending_progress, progress_of
from catalog.vendors import charts, report_card
from catalog.vendors import operations as vendor_operations
from core import numbered_pages
from core.pagination import Keyset
from people.models import Role
from people.permissions import person, requires

PAGE_SIZE = 25


@requires(Role.VIEWER)
def vendor_list(request: HttpRequest) -> HttpResponse:
    live = Prefetch(
        "endpoints", Endpoint.objects.filter(removed_at=None).with_status(), to_attr="live_endpoints"
    )
    vendors = vendor_operations.vendors_with_counts().prefetch_related(live)
    page = Keyset(vendors, "name").page(request.GET.get("cursor"), PAGE_SIZE)
    progress = pending_progress()
    endpoints: list[Endpoint] = [
        endpoint
        for row in page.rows
        for endpoint in getattr(row, "live_endpoints")  # noqa: B009 - set by the prefetch
    ]
    strips = charts.sync_strips(endpoints)
    for endpoint in endpoints:
        endpoint.sync_strip = strips.get(endpoint.pk)
    return render(request, "catalog/vendors.html", {"page": page, "progress": progress})


@requires(write=Role.ADMIN)
def vendor(request: HttpRequest, slug: str) -> HttpResponse:
    row = get_object_or_404(Vendor.objects.live(), slug=slug)
    form = VendorForm(request.POST or None, initial={"name": row.name, "homepage": row.homepage})
    form.edits(vendor_operations.vendor_facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            vendor_operations.update_vendor(
                row, actor=person(request), expected=form.expected, **form.cleaned_data
            )
            messages.success(request, _("Saved."))
            return redirect("vendor", row.slug)
    live = list(row.endpoints.filter(removed_at=None))
    progress = progress_of([endpoint.pk for endpoint in live])
    find = request.GET.get("find", "").strip()
    matches = numbered_pages.rows_with_text(live, find, lambda each: f"{each.name} {each.url}")
    page = numbered_pages.page_of(matches, request.GET.get("endpoints", ""), name="endpoints")
    rows_of_page = row.endpoints.filter(pk__in=[endpoint.pk for endpoint in page])
    page_endpoints = rows_of_page.with_status().with_item_counts()
    findings = WaitingDecision.objects.filter(endpoint__vendor=row).count()
    card = report_card.report_card_for(row)
    context = {
        "vendor": row,
        "is_settings": request.method == "POST" or request.GET.get("tab") == "settings",
        "form": form,
        "can_find": len(live) > page.size,
        "find": find,
        "endpoints": page.with_rows(
            [
                (endpoint, None if progress.is_complete else progress_of([endpoint.pk]))
                for endpoint in page_endpoints
            ]
        ),
        "finding_count": findings,
        "card": card,
        "charts": [charts.changes_per_week(row), charts.breaches_per_week(row, card.promises)]
        if card.runs
        else [],
        "progress": progress,
    }
    return render(request, "catalog/vendor.html", context, status=form.status)
