from dataclasses import dataclass
from itertools import groupby

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _

from core.errors import invalid
from core.pagination import Keyset
from people import audit
from people.audit import export
from people.audit.export import ExportFormat
from people.forms import AuditFilterForm
from people.models import AuditEntry, Role
from people.permissions import person, requires

PAGE_SIZE = 50
# From so many on, entries that one run wrote one after the other are one row of the page.
MIN_FOLDED = 3


@dataclass(frozen=True)
class EntryGroup:
    """Entries of one row: a single one, or those that a worker wrote for one reason."""

    entries: list[AuditEntry]
    is_folded: bool


def group_entries(entries: list[AuditEntry]) -> list[EntryGroup]:
    """Group consecutive entries of workers by their reason, which names the run or the rule."""
    groups = []
    for _key, members in groupby(entries, key=lambda entry: entry.pk if entry.actor_id else entry.why):
        group = list(members)
        if len(group) < MIN_FOLDED or not group[0].why:
            groups += [EntryGroup([entry], is_folded=False) for entry in group]
        else:
            groups.append(EntryGroup(group, is_folded=True))
    return groups


@requires(Role.VIEWER)
def audit_list(request: HttpRequest) -> HttpResponse:
    form = AuditFilterForm(request.GET, kinds=audit.kinds())
    page = Keyset(_matching(request, form), "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    context = {
        "form": form,
        "page": page,
        "groups": group_entries(page.rows),
        "formats": ExportFormat.choices,
    }
    return render(request, "people/audit.html", context)


def _matching(request: HttpRequest, form: AuditFilterForm) -> QuerySet[AuditEntry]:
    if not form.is_valid():
        return AuditEntry.objects.none()
    return audit.entries(person(request), **form.filters())


@requires(Role.VIEWER)
def audit_export(request: HttpRequest) -> StreamingHttpResponse:
    """Stream the entries that the filters of the list select. Raises DomainError."""
    name = request.GET.get("type", "")
    if name not in ExportFormat.values:
        raise invalid(type=_("Choose one of {formats}.").format(formats=", ".join(ExportFormat.values)))
    export_format = ExportFormat(name)
    form = AuditFilterForm(request.GET, kinds=audit.kinds())
    entries = _matching(request, form)
    if form.errors:
        raise invalid(**{field: " ".join(map(str, errors)) for field, errors in form.errors.items()})
    export.check_size(entries)
    filename = f"audit-{timezone.localdate():%Y-%m-%d}.{export_format}"
    return StreamingHttpResponse(
        export.write(entries, export_format),
        content_type=export.MEDIA_TYPES[export_format],
        headers={"Content-Disposition": f'attachment; filename="{filename}"'},
    )


@requires(Role.VIEWER)
def audit_entry(request: HttpRequest, pk: int) -> HttpResponse:
    entry = get_object_or_404(audit.visible_to(person(request)), pk=pk)
    return render(request, "people/audit_entry.html", {"entry": entry})
