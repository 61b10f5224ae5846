"""Pages of translations: those of one tool, and files for translators."""

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Translation
from catalog.translations import files, languages, stored
from catalog.translations.exchange import MAX_FILE_BYTES, FileProblem
from catalog.translations.stored import WriteCounts
from core.errors import DomainError, invalid
from designer.forms.translations import (
    TranslationExportForm,
    TranslationImportForm,
    TranslationRunForm,
    TranslationsForm,
)
from designer.models import TranslationRun
from designer.rehearsals import judges
from designer.translations import runs
from designer.views.tools import find_tool, header
from people.models import Role
from people.permissions import person, requires, requires_post

TEXTS_ON_A_PAGE, RUNS_SHOWN = 25, 10


@requires(write=Role.DESIGNER)
def tool_translations(request: HttpRequest, pk: int, language: str) -> HttpResponse:
    """The texts of a tool beside their translations into one language."""
    row = find_tool(pk)
    target = languages.find_language(language)
    page = Paginator(stored.translate_tool(row, language), TEXTS_ON_A_PAGE).get_page(request.GET.get("page"))
    form = TranslationsForm(request.POST or None, texts=list(page), language=language)
    if request.method == "POST" and form.is_valid() and form.save(actor=person(request), tool=row):
        messages.success(
            request,
            _("Saved. The page of the tool shows the texts in {language}.").format(language=target.name),
        )
        return redirect(f"{request.path}?page={page.number}")
    context = {"form": form, "page": page, "language": target, "languages": languages.LANGUAGES}
    return render(request, "designer/tool_translations.html", {**context, **header(row)}, status=form.status)


@requires(Role.VIEWER)
@require_safe
def translation_list(request: HttpRequest) -> HttpResponse:
    return _render_translations(request, TranslationImportForm())


@requires(Role.DESIGNER, largest_body=MAX_FILE_BYTES + settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
@require_POST
def translation_import(request: HttpRequest) -> HttpResponse:
    form = TranslationImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _render_translations(request, form)
    body, file_format = form.content()
    try:
        counts, problems = files.import_file(
            body, file_format, actor=person(request), language=form.cleaned_data["language"]
        )
    except DomainError as error:
        form.refuse(error)
        return _render_translations(request, form)
    return _render_translations(request, form, counts=counts, problems=problems)


@requires(Role.VIEWER)
@require_safe
def translation_export(request: HttpRequest) -> HttpResponse:
    """Return the file of texts to translate. Raises DomainError for an unknown choice or too many texts."""
    form = TranslationExportForm(request.GET)
    if not form.is_valid():
        raise invalid(**{name: " ".join(map(str, errors)) for name, errors in form.errors.items()})
    values = form.cleaned_data
    file_format = files.find_format(values["type"])
    content = files.export_file(
        values["language"], file_format, vendor=values["vendor"], only_missing=values["only_missing"]
    )
    name = f"texts-{values['vendor'] or 'all'}-{values['language']}.{file_format.extension}"
    return HttpResponse(
        content,
        content_type=files.MEDIA_TYPES[file_format],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@requires_post(Role.DESIGNER)
def translation_run_start(request: HttpRequest) -> HttpResponse:
    form = TranslationRunForm(request.POST, auto_id="run_%s")
    if form.is_valid():
        with form.catch_errors():
            runs.start_run(actor=person(request), **form.cleaned_data)
            return redirect("translation-list")
    return _render_translations(request, TranslationImportForm(), run_form=form)


@requires_post(Role.DESIGNER)
def translation_run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    runs.cancel_run(get_object_or_404(TranslationRun, pk=pk), actor=person(request))
    return redirect("translation-list")


def _render_translations(
    request: HttpRequest,
    form: TranslationImportForm,
    *,
    run_form: TranslationRunForm | None = None,
    counts: WriteCounts | None = None,
    problems: list[FileProblem] | None = None,
) -> HttpResponse:
    rows = Translation.objects.values("language").order_by("language")
    run_rows = list(TranslationRun.objects.select_related("vendor")[:RUNS_SHOWN])
    context = {
        "languages": [
            row | {"entry": languages.BY_CODE[row["language"]]}
            for row in rows.annotate(count=Count("pk"), unconfirmed=Count("pk", filter=Q(is_confirmed=False)))
            if row["language"] in languages.BY_CODE
        ],
        "form": form,
        "export_form": TranslationExportForm(auto_id="export_%s"),
        "export_url": reverse("translation-export"),
        "run_form": run_form or TranslationRunForm(auto_id="run_%s"),
        "has_models": judges.live().exists(),
        "runs": run_rows,
        "is_running": any(run.is_active for run in run_rows),
        "counts": counts,
        "problems": problems,
    }
    return render(request, "designer/translations.html", context)
