from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.models.tools import ItemKind
from catalog.rules import retries
from catalog.rules.sensitive_values import has_mask
from catalog.token_estimate import tokens_of
from catalog.views.asked import number
from core.errors import DomainError
from core.outbound.errors import printable
from core.translating import translate
from designer.errors import NameTakenError
from designer.forms.pins import AliasForm, PinConfigurationForm, PinModeForm, PinRetryForm, version_choices
from designer.forms.words_form import WordsForm
from designer.models import Pin, Tuning
from designer.models.pins import PinMode
from designer.overviews import agent_readiness, shown_tools
from designer.overviews.shown_tools import ShownTool
from designer.pins import pinned_signatures, pins, token_budget, tunings
from designer.signatures import model_names
from designer.signatures.words import less_cautious, merge_words
from designer.upgrades import upgrades
from designer.views import agent_panes
from designer.views.tunings import restore_words, settle_member
from execution.threads import configurations
from people.audit import edit_conflicts
from people.audit.edit_conflicts import LateEditError
from people.forms import OperationForm
from people.models import AuditEntry, Role
from people.permissions import person, requires, requires_post

HISTORY_SHOWN = 20


@requires(write=Role.DESIGNER)
def pin(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Edit a pin: the vendor's texts are at the left, the tuned texts at the right."""
    row = _find_pin(request, slug, pk)
    form = _words_form(row, request.POST or request.GET, is_bound=request.method == "POST")
    form.edits(tunings.facts(_read_tuning(row)))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            tunings.tune(row, actor=person(request), expected=form.expected, **form.words())
            messages.success(request, _("Saved. Publish the agent when you want runtimes to get it."))
            # The format that the page shows beside the form stays chosen.
            name = request.GET.get("format", "")
            query = {"format": name} if name in shown_tools.TEXTS else {}
            query |= form.page_query()
            return redirect(f"{reverse('pin', args=[slug, row.pk])}{'?' if query else ''}{urlencode(query)}")
    return _render_pin(request, row, form)


def _words_form(row: Pin, data: QueryDict | None = None, *, is_bound: bool = False) -> WordsForm:
    """Return the form of a pin's texts. data: what was sent, or the query that names its page."""
    return WordsForm(
        data if is_bound else None,
        pages=data,
        version=row.version,
        below=tunings.shown_words(row, _read_tuning(row.tool)),
        words=tunings.shown_words(row, _read_tuning(row)),
    )


def _render_pin(
    request: HttpRequest,
    row: Pin,
    form: WordsForm,
    choice: OperationForm | None = None,
    refused_forms: Mapping[str, OperationForm] | None = None,
) -> HttpResponse:
    """Render the editor of a pin.

    choice: the submitted form for the name or the version, if it was refused or came too late.
    refused_forms: other submitted forms, by their names in the template.
    """
    format_ = shown_tools.TEXTS.get(request.GET.get("format", ""), shown_tools.USUAL)
    row.version.tool = row.tool  # read already
    pin_rows = agent_panes.read_pins(row.agent)
    is_configured = row.configuration is not None or configurations.parameter_of(row.version) is not None
    context = {
        "form": form,
        "tuning": _read_tuning(row),
        "is_masked": has_mask(form.own),
        "choice": choice,
        "failing": PinRetryForm(pin=row),
        "following": PinModeForm(pin=row),
        "configuring": PinConfigurationForm(pin=row) if is_configured else None,
        **(refused_forms or {}),
        "fails_now": translate(retries.sentence(pinned_signatures.retry_of(row).policy)),
        "formats": shown_tools.TEXTS.values(),
        **agent_panes.pane_context(row.agent, pane=f"pin-{row.pk}", pins=pin_rows, query=request.GET),
        **(
            _preview_context(form, shown_tools.shown_tool(row, format_, pins=pin_rows))
            if row.tool.kind == ItemKind.TOOL
            else {}
        ),
        **_describe_pin(row),
    }
    return render(request, "designer/pin.html", context, status=(choice or form).status)


def _describe_pin(row: Pin) -> dict[str, Any]:
    signature = pinned_signatures.effective_of(row)
    words = merge_words(pinned_signatures.words_about(row.tool), pinned_signatures.words_about(row))
    trail = AuditEntry.objects.filter(kind="pin", object_id=str(row.pk)).select_related("actor")
    return {
        "agent": row.agent,
        "pin": row,
        "pin_state": edit_conflicts.etag(pins.facts(row)),
        "shown": signature,
        "tokens": token_budget.tokens(signature),
        "vendors_tokens": tokens_of(row.version.decoded()),
        "misfits": pinned_signatures.misfits_of(row),
        "cautions": less_cautious(words, row.version.decoded()),
        "stale": pinned_signatures.stale_of(row),
        "restorable": tunings.ACTIONS,
        "stale_state": edit_conflicts.etag(tunings.facts(_read_tuning(row))),
        "restore_url": reverse("pin-restore", args=[row.agent.slug, row.pk]),
        "settle_url": reverse("pin-settle", args=[row.agent.slug, row.pk]),
        "versions": version_choices(row.tool),
        "history": trail[:HISTORY_SHOWN],
        "readiness": agent_readiness.assess_pin(row),
    }


def _read_tuning(target: Pin | Tool) -> Tuning | None:
    """Return the tuning that `_find_pin` has read, with the version that it was written for."""
    return getattr(target, "tuning", None)


def _preview_context(form: WordsForm, tool: ShownTool) -> dict[str, Any]:
    fields = {path: form[name] for name, path in form.paths.items()}
    return {
        "seen": tool,
        "savings": [(saving, fields[saving.path]) for saving in tool.savings if saving.path in fields],
    }


@requires(write=Role.DESIGNER)
def pin_shown(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show the tool's text for a model, as a part of the editor: with the stored texts, or the entered
    ones.
    """
    row = _find_pin(request, slug, pk)
    data = request.POST if request.method == "POST" else request.GET
    format_ = shown_tools.TEXTS.get(data.get("format", ""), shown_tools.USUAL)
    form = _words_form(row, data, is_bound=request.method == "POST")
    tried = None
    if form.is_bound:
        with form.catch_errors():
            if form.is_valid():
                tried = tunings.parse_words(row, form.words())
    if form.errors:
        # The last text that was good stays where it is.
        error_message = next(iter(form.errors.values()))[0]
        answer = render(request, "designer/_shown_refused.html", {"why": error_message})
        answer["HX-Retarget"] = "#shown-says"
        return answer
    context = {
        "pin": row,
        "agent": row.agent,
        "is_part": True,
        **_preview_context(form, shown_tools.shown_tool(row, format_, tried)),
    }
    answer = render(request, "designer/_shown.html", context)
    query = urlencode({"format": format_.name, **form.page_query()})
    answer["HX-Replace-Url"] = f"{reverse('pin', args=[slug, row.pk])}?{query}"
    return answer


@requires(Role.VIEWER)
def pin_preview(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show the effects of moving this pin, as a part of the editor while the user selects a version."""
    row = _find_pin(request, slug, pk)
    version = row.tool.versions.filter(ordinal=number(request.GET.get("ordinal", ""))).first()
    is_other = version is not None and version != row.version
    context = {"pin": row, "upgrade": upgrades.upgrade_to(row, version) if version and is_other else None}
    return render(request, "designer/_move_preview.html", context)


@requires_post(Role.DESIGNER)
def pin_move(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    came_from = row.version.ordinal
    try:
        moved = pins.move_pin(
            row,
            actor=person(request),
            ordinal=number(request.POST.get("ordinal", "")),
            expected=_expected_state(request),
        )
    except LateEditError as error:
        return _refuse_choice(request, slug, pk, OperationForm(request.POST), error)
    except NameTakenError as error:
        messages.error(request, _("The version was not changed. {message}").format(message=error.message))
        return _refuse_choice(request, slug, pk, AliasForm({"alias": error.proposal}), error)
    except DomainError as error:
        messages.error(request, error.message)
    else:
        version = printable(moved.version.name, 60)
        messages.success(
            request,
            _("“{name}” is now pinned to version {version}.").format(name=moved.name, version=version),
        )
        for lost_words in upgrades.find_lost_words(_find_pin(request, slug, pk), moved.version.decoded()):
            messages.warning(request, lost_words.message)
        if request.POST.get("from") == "upgrades":
            # With the way back (designer/views/upgrades.py).
            return redirect(f"{reverse('agent-upgrades', args=[slug])}?back={row.pk}:{came_from}")
    if request.POST.get("from") == "upgrades":
        return redirect("agent-upgrades", slug)
    return redirect("pin", slug, row.pk)


def _expected_state(request: HttpRequest) -> str:
    return request.POST.get("expected", edit_conflicts.ANY_STATE)


def _refuse_choice(
    request: HttpRequest, slug: str, pk: int, choice: OperationForm, error: DomainError
) -> HttpResponse:
    choice.is_valid()
    choice.refuse(error)
    return _refused_beside_words(request, _find_pin(request, slug, pk), choice)


@requires(Role.VIEWER)
def pin_alias(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    # Checks a name while it is entered, and proposes one that can be used.
    row = _find_pin(request, slug, pk)
    alias = request.GET.get("alias", "").strip()
    name = alias or model_names.derive(row.version.decoded().name)
    proposal = pins.propose_name(row.agent, row.tool, name, besides=row)
    context = {
        "alias": alias,
        "wanted": name,
        "proposal": proposal,
        "is_legal": model_names.is_legal(name),
    }
    return render(request, "designer/_alias_says.html", context)


@requires_post(Role.DESIGNER)
def pin_rename(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    try:
        alias = request.POST.get("alias", "")
        renamed = pins.set_alias(row, actor=person(request), alias=alias, expected=_expected_state(request))
    except DomainError as error:
        return _refuse_choice(request, slug, pk, AliasForm(request.POST), error)
    else:
        messages.success(request, _("The model now knows this tool as “{name}”.").format(name=renamed.name))
    return redirect("pin", slug, row.pk)


@requires_post(Role.DESIGNER)
def pin_retry(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    form = PinRetryForm(request.POST, pin=row)

    def save() -> None:
        pins.set_retry(row, actor=person(request), changes=form.retry(), expected=form.expected)

    return _save_form(request, row, form, save) or _refused_beside_words(request, row, form, failing=form)


@requires_post(Role.DESIGNER)
def pin_mode(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    form = PinModeForm(request.POST, pin=row)

    def save() -> None:
        mode = PinMode(form.cleaned_data["mode"])
        pins.set_mode(row, actor=person(request), mode=mode, expected=form.expected)

    return _save_form(request, row, form, save) or _refused_beside_words(request, row, form, following=form)


@requires_post(Role.DESIGNER)
def pin_configuration(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    form = PinConfigurationForm(request.POST, pin=row)

    def save() -> None:
        configuration = form.cleaned_data["configuration"] or None
        pins.set_configuration(
            row, actor=person(request), configuration=configuration, expected=form.expected
        )

    return _save_form(request, row, form, save) or _refused_beside_words(request, row, form, configuring=form)


def _save_form(
    request: HttpRequest, row: Pin, form: OperationForm, save: Callable[[], None]
) -> HttpResponse | None:
    """Return None if the form is invalid."""
    form.edits(pins.facts(row))
    if not form.is_valid():
        return None
    try:
        save()
    except DomainError as error:
        form.refuse(error)
        return None
    messages.success(request, _("Saved. Publish the agent when you want runtimes to get it."))
    return redirect("pin", row.agent.slug, row.pk)


def _refused_beside_words(
    request: HttpRequest, row: Pin, form: OperationForm, **forms: OperationForm
) -> HttpResponse:
    words = _words_form(row)
    words.edits(tunings.facts(_read_tuning(row)))
    return _render_pin(request, row, words, form, forms)


@requires_post(Role.DESIGNER)
def pin_revert(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    tunings.revert(row, actor=person(request))
    messages.success(request, _("The text was restored."))
    return redirect("pin", slug, row.pk)


@requires_post(Role.DESIGNER)
def pin_restore(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    restore_words(request, row)
    return redirect("pin", slug, row.pk)


@requires_post(Role.DESIGNER)
def pin_settle(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    settle_member(request, row)
    return redirect("pin", slug, row.pk)


@requires_post(Role.DESIGNER)
def pin_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    row = _find_pin(request, slug, pk)
    pins.remove_pin(row, actor=person(request))
    messages.success(
        request, _("“{name}” is no longer pinned. Published releases keep it.").format(name=row.name)
    )
    return redirect("agent", slug)


def _find_pin(request: HttpRequest, slug: str, pk: int) -> Pin:
    rows = (
        Pin.objects.live()
        .visible_to(person(request))
        .select_related(
            *("agent__team", "agent__parent", "version", "tuning__against"),
            *("tool__tuning__against", "tool__current", "tool__tool_picture", "tool__endpoint__vendor"),
        )
    )
    return get_object_or_404(rows, pk=pk, agent__slug=slug)
