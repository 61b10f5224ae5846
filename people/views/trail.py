from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from core.pagination import Keyset
from people import audit
from people.forms import AuditFilterForm
from people.models import AuditEntry, Role
from people.permissions import person, requires

PAGE_SIZE = 50


@requires(Role.VIEWER)
def audit_list(request: HttpRequest) -> HttpResponse:
    form = AuditFilterForm(request.GET, kinds=audit.kinds())
    rows = audit.entries(person(request), **form.filters()) if form.is_valid() else AuditEntry.objects.none()
    page = Keyset(rows, "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    is_filtered = any(request.GET.get(name) for name in form.fields)
    return render(request, "people/audit.html", {"form": form, "page": page, "is_filtered": is_filtered})


@requires(Role.VIEWER)
def audit_entry(request: HttpRequest, pk: int) -> HttpResponse:
    entry = get_object_or_404(audit.visible_to(person(request)), pk=pk)
    return render(request, "people/audit_entry.html", {"entry": entry})
