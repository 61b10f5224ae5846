"""Pages that confirm the removal of a vendor or an endpoint: they show its uses, and the effects of the
removal.
"""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Endpoint, Vendor
from catalog.vendors import operations as vendor_operations
from catalog.views.endpoints import live_endpoint
from designer.agents import vendor_usage
from designer.forms.removals import RemovalForm
from people.models import Role
from people.permissions import person, requires


@requires(Role.ADMIN)
def vendor_remove(request: HttpRequest, slug: str) -> HttpResponse:
    row = get_object_or_404(Vendor.objects.live(), slug=slug)
    endpoints = list(row.endpoints.filter(removed_at=None))
    back = reverse("vendor", args=[row.slug])
    return _confirm_removal(request, row, endpoints, back=back, then=reverse("vendor-list"))


@requires(Role.ADMIN)
def endpoint_remove(request: HttpRequest, pk: int) -> HttpResponse:
    row = live_endpoint(pk)
    back = reverse("endpoint", args=[row.pk])
    return _confirm_removal(request, row, [row], back=back, then=reverse("vendor", args=[row.vendor.slug]))


def _confirm_removal(
    request: HttpRequest, row: Vendor | Endpoint, endpoints: list[Endpoint], *, back: str, then: str
) -> HttpResponse:
    use = vendor_usage.use_of(endpoints)
    form = RemovalForm(request.POST if request.method == "POST" else None, name=str(row), use=use)
    if form.is_valid():
        with form.catch_errors():
            values, actor = form.cleaned_data, person(request)
            how = {"actor": actor, "why": values["why"], "with_credentials": values["with_credentials"]}
            if isinstance(row, Vendor):
                vendor_operations.remove_vendor(row, **how)
            else:
                vendor_operations.remove_endpoint(row, **how)
            messages.success(
                request, _("“{name}” was removed. Pins and releases of agents stay.").format(name=row)
            )
            return redirect(then)
    context = {
        "row": row,
        "what": _("Remove vendor") if isinstance(row, Vendor) else _("Remove endpoint"),
        "use": use,
        "agents": use.agents[: vendor_usage.AGENTS_SHOWN],
        "more": max(0, len(use.agents) - vendor_usage.AGENTS_SHOWN),
        "form": form,
        "back": back,
    }
    return render(request, "designer/removal.html", context)
