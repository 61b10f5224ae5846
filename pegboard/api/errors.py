"""Every error of the API has one shape: {code, message, fields?}."""

from dataclasses import asdict
from math import ceil
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.exceptions import ValidationError as ModelValidationError
from django.db import DataError, IntegrityError
from django.http import Http404
from psycopg.errors import UniqueViolation
from rest_framework.exceptions import APIException, Throttled, ValidationError
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from rest_framework.views import set_rollback

from core.db_errors import RETRY_AFTER, outage
from core.errors import DomainError
from core.serializers import sentences
from designer.errors import ChecksFailedError
from people.audit.edit_conflicts import LateEditError

CHECK_FIELDS = "Some fields are not valid."


def exception_handler(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response to an error; None leaves it to `pegboard.web.views.server_error`."""
    request = context.get("request")
    problem = _as_problem(exc, is_write=request is not None and request.method not in SAFE_METHODS)
    if problem is None:
        return None
    set_rollback()
    body: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.fields:
        body["fields"] = problem.fields
    if isinstance(problem, LateEditError):
        body["changes"] = [vars(difference) for difference in problem.differences]
    if isinstance(problem, ChecksFailedError):
        body["checks"] = [asdict(check) for check in problem.checks]
    headers = {}
    if authenticate := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = authenticate
    if isinstance(exc, Throttled):
        headers["Retry-After"] = str(_seconds_to_wait(exc))
    if isinstance(exc, DomainError) and exc.retry_after:
        headers["Retry-After"] = str(exc.retry_after)
    if outage(exc):
        headers["Retry-After"] = str(RETRY_AFTER)
    return Response(body, status=problem.status, headers=headers)


def _as_problem(exc: Exception, *, is_write: bool) -> DomainError | None:  # noqa: C901 - one line for each family of errors
    match exc:
        case DomainError():
            return exc
        case ValidationError():
            return _from_fields(exc.detail)
        case ModelValidationError():
            return _from_fields(getattr(exc, "message_dict", None) or exc.messages)
        case Throttled():
            sentence = f"Too many calls in this minute. Continue in {_seconds_to_wait(exc)} seconds."
            return DomainError("throttled", sentence, status=429)
        case APIException():
            code = codes if isinstance(codes := exc.get_codes(), str) else exc.default_code
            return DomainError(code, str(exc.detail), status=exc.status_code)
        case Http404():
            return DomainError("not_found", "There is nothing at this address.", status=404)
        case PermissionDenied():
            return DomainError("permission_denied", str(exc) or "You may not do this.", status=403)
        case RequestDataTooBig():
            return DomainError("too_large", "The body is larger than 1 MB.", status=413)
        case DataError():
            return DomainError("invalid_value", "A value is out of range or cannot be stored.")
        case IntegrityError() if isinstance(exc.__cause__, UniqueViolation):
            return DomainError("conflict", "Another user has just saved the same thing.", status=409)
    if problem := outage(exc, is_write=is_write):
        return DomainError(problem.code, problem.message, status=503)
    return None


def _from_fields(detail: Any) -> DomainError:
    general, fields = sentences(detail)
    return DomainError("invalid", general or CHECK_FIELDS, fields=fields)


def _seconds_to_wait(exc: Throttled) -> int:
    # Whole seconds, at least one.
    wait: float | None = getattr(exc, "wait", None)
    return max(1, ceil(wait or 1))
