"""Pages that belong to no app: is it alive, what does it count, and what went wrong."""

from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.urls import Resolver404, resolve
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from pegboard.celery import app as celery_app
from people.permissions import public

API = "/api/"


@public
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@public
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Ready while the database answers: pages and exports need no queue, it only delays the next reading."""
    database = _database_answers()
    facts = {
        "database": "ok" if database else "unreachable",
        "queue": "ok" if _queue_answers() else "unreachable",
    }
    return JsonResponse(facts, status=200 if database else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _queue_answers() -> bool:
    with celery_app.connection_for_read() as queue:
        try:
            queue.ensure_connection(max_retries=1, timeout=2)
        except OperationalError:
            return False
    return True


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _problem(request, 400, "bad_request", "This request could not be read.")


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _problem(request, 403, "permission_denied", str(exception or "") or "You may not do this.")


def page_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _problem(request, 404, "not_found", "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    return _problem(request, 500, "server_error", "Pegboard failed to answer. The error has been recorded.")


@public
@csrf_exempt
def unknown_call(request: HttpRequest) -> HttpResponse:
    """An API client gets a sentence where Django would redirect it to the address with a slash."""
    if _is_call(f"{request.path_info}/"):
        return _problem(request, 404, "missing_slash", "This address ends with a slash.")
    return page_not_found(request)


def _is_call(path: str) -> bool:
    try:
        return resolve(path).func is not unknown_call
    except Resolver404:
        return False


def _problem(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    if request.path_info.startswith(API):
        return JsonResponse({"code": code, "message": message}, status=status)
    # A page that explains a failure must not need what may have failed: 400 and 500 use no database.
    with_person = request if status in (403, 404) else None
    page = loader.get_template(f"{status}.html").render({"message": message}, with_person)
    return HttpResponse(page, status=status)
