"""Pages that belong to no app: health, the API reference, and errors."""

import re
import sys
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template import loader
from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.views import APIView

from catalog import waiting_work
from core import charts, log_context
from core.charts import Chart
from core.db_errors import RETRY_AFTER, Outage, database_state, outage
from core.public_url import foreign_page_message, is_foreign_page, public_url
from designer.agents.access_tokens import ROOT
from pegboard.api.schema import ERRORS
from pegboard.celery import app as celery_app
from pegboard.web import api_reference
from people.models import Role
from people.permissions import public, requires
from serving.serve import views as serve_views

API = "/api/"
# Of static/css/variables.css, on the page of the design.
COLOURS = (
    *(
        "canvas",
        "side",
        "surface",
        "sunken",
        "raised",
        "hover",
        "line",
        "line-strong",
        "ink",
        "muted",
        "faint",
    ),
    *("accent", "accent-solid", "accent-wash", "ok", "ok-wash", "warn", "warn-wash", "bad", "bad-wash"),
    *("held", "held-wash", "info", "info-wash", "idle-dot"),
)


@public
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@public
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    # Ready while the database answers. Pages and exports work without the queue; enumeration waits.
    database = database_state()
    facts: dict[str, Any] = {"database": database, "queue": "ok"}
    try:
        with celery_app.connection_for_read() as queue:
            queue.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=2)
    except OperationalError:
        facts["queue"] = "unreachable"
    if database == "ok":
        seconds = waiting_work.oldest_seconds()
        late = [work.kind.name for work in waiting_work.find_late(seconds)]
        facts |= {"waiting_seconds": seconds, "late": late}
        if late and facts["queue"] == "ok":
            facts["queue"] = "late"
    return JsonResponse(facts, status=200 if database == "ok" else 503)


@requires(Role.ADMIN)
@require_safe
def admin_login(request: HttpRequest) -> HttpResponse:
    return redirect("admin:index")


@requires(Role.ADMIN)
@require_safe
def admin_password(request: HttpRequest) -> HttpResponse:
    return redirect("password-change")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return problem(request, 400, "bad_request", _("This request could not be read."))


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return problem(
        request, 403, "permission_denied", str(exception or "") or _("You do not have permission for this.")
    )


def form_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form without its token, or from a foreign page (CSRF_FAILURE_VIEW)."""
    context = {"foreign_page": foreign_page_message(request) if is_foreign_page(request) else ""}
    return render(request, "403_csrf.html", context, status=403)


def page_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return problem(request, 404, "not_found", _("There is nothing at this address."))


def method_not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """Return the page for a method that the address does not accept. allowed: the Allow header, with the
    methods of the address.
    """
    if "POST" in allowed and "GET" not in allowed:
        message = _(
            "This address accepts only the request of a button. Open the page and press the button there."
        )
    else:
        message = _("This address accepts {allowed}, not {method}.").format(
            allowed=allowed, method=request.method
        )
    response = problem(request, 405, "method_not_allowed", message)
    response["Allow"] = allowed
    return response


def too_large(request: HttpRequest, limit: int) -> HttpResponse:
    """Return the page for a body that is too large. limit: in bytes."""
    return problem(
        request, 413, "too_large", _("The body is larger than {maximum} MB.").format(maximum=limit // 1024**2)
    )


def unavailable(request: HttpRequest, outage: Outage) -> HttpResponse:
    response = problem(request, 503, outage.code, outage.message)
    response["Retry-After"] = str(RETRY_AFTER)
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    # Handles errors of the database in a middleware, too.
    if cause := outage(sys.exception(), is_write=request.method not in SAFE_METHODS):
        return unavailable(request, cause)
    message = _("Pegboard could not answer. The log contains the error with the id {request_id}.").format(
        request_id=log_context.request_id()
    )
    return problem(request, 500, "server_error", message)


class ApiSchema(APIView):
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(api_reference.document(), content_type="application/json")


@requires(Role.VIEWER)
def design(request: HttpRequest) -> HttpResponse:
    """Show every component in every state, on a product that `make run` has started."""
    if not settings.LOCAL:
        raise Http404
    context = {
        "colours": COLOURS,
        "sizes": ("2xl", "xl", "lg", "md", "sm", "xs"),
        "tones": ("ok", "info", "warn", "held", "bad", "idle"),
        "spaces": ("s1", "s2", "s3", "s4", "s6", "s8", "s12"),
        "icons": re.findall(r'id="([\w-]+)"', (settings.BASE_DIR / "static" / "icons.svg").read_text()),
        "tiles": [f"vendor-{number}" for number in range(24)],
        "charts": _sample_charts(),
    }
    return render(request, "pegboard/design.html", context)


def _sample_charts() -> list[Chart]:
    """Return each kind of chart, and one with too few points."""
    values: list[list[charts.Part]] = [[(40, "")], [(55, "")], [], [(80, "warn")], [(30, ""), (12, "bad")]]
    marks, height = charts.bars(values, limit=70)
    ends: dict[str, Any] = {
        "first": "1 Sep",
        "last": "today",
        "columns": ("Day", "Value"),
        "rows": [("1 Sep", "40")],
    }
    tones = [*[""] * 40, "bad", *[""] * 10, "warn", *[""] * 8]
    return [
        Chart(
            title="Ticks",
            summary="58 of 60 syncs succeeded.",
            marks=charts.strip(tones),
            is_strip=True,
            **ends,
        ),
        Chart(title="Line", summary="Median 3 s.", lines=charts.line([2, 3, None, 3, 5, 1]), **ends),
        Chart(title="Bars, limit", summary="One is too high.", marks=marks, limit=height, **ends),
        Chart(
            title="Versions",
            summary="3 pins on 2 of 3 versions.",
            marks=charts.timeline([1, 2, 9], [1, 0, 2], ["", "warn", ""], ["v1", "v2", "v3"]),
            **ends,
        ),
        Chart(title="Too few points", summary="Shown after two successful syncs."),
    ]


@requires(Role.VIEWER)
def api_docs(request: HttpRequest) -> HttpResponse:
    return render(
        request, "pegboard/api_reference.html", {"groups": api_reference.groups(), "errors": ERRORS}
    )


@requires(Role.VIEWER)
def api_docs_group(request: HttpRequest, group: str) -> HttpResponse:
    groups = api_reference.groups()
    if group not in groups:
        raise Http404
    base = public_url("/", request).rstrip("/")
    calls = [(call, call.curl(base)) for call in groups[group]]
    return render(
        request, "pegboard/api_reference_group.html", {"group": group, "groups": groups, "calls": calls}
    )


@public
@csrf_exempt
def unknown_call(request: HttpRequest) -> HttpResponse:
    # An API client gets a sentence; Django would redirect it to the address with a slash.
    try:
        is_call = resolve(f"{request.path_info}/").func is not unknown_call
    except Resolver404:
        is_call = False
    if is_call:
        return problem(request, 404, "missing_slash", _("The address must end with a slash."))
    return page_not_found(request)


def problem(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    if request.path_info.startswith(API):
        return JsonResponse({"code": code, "message": message}, status=status)
    if request.path_info.startswith(ROOT):
        return serve_views.problem(request, status, code, message)
    # A page about a failure must not need what may have failed: 400 and 500 use no database.
    with_person = request if status in (403, 404, 405) else None
    template = loader.select_template([f"{status}.html", "400.html"])
    # Two leading slashes would link to another site.
    path = page = f"/{request.path.lstrip('/')}"
    # The nearest page above an address: `/runs/7/` for `/runs/7/confirm/`.
    while page != "/" and request.method in ("GET", "HEAD"):
        page = f"{page.rstrip('/').rpartition('/')[0]}/"
        with suppress(Resolver404):
            resolve(page)
            break
    context = {
        "message": message,
        "again": path,
        "page": page,
        "request_id": log_context.request_id(),
    }
    return HttpResponse(template.render(context, with_person), status=status)
