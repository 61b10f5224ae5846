"""What programs ask passes by the layers that are about pages, all at once.

These are the most frequent requests of all, and a layer that does nothing for them takes some of their time
all the same. They have no session, no form and no cookie: below /serve/ each protocol words its own errors,
and what is asked of the API with a key is answered by the rights of the key alone
(people/authentication.py). What those layers do for any answer is done here.
"""

from collections.abc import Callable
from typing import Any

from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, ResolverMatch, resolve

from designer.agents.access_tokens import ROOT
from designer.middleware import DeprecationMiddleware
from pegboard.web.middleware import BoundsMiddleware, DomainErrorMiddleware

BELOW_ROOT = "serving.serve.urls"
API = "/api/v1/"


class ShortWayMiddleware:
    """Stands behind what judges every request, and in front of the layers that it passes by."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._bounds, self._errors = BoundsMiddleware(get_response), DomainErrorMiddleware(get_response)
        # As each of the layers behind this one is wrapped.
        view: Any = convert_exception_to_response(self._view)
        self._answer = DeprecationMiddleware(view)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if (match := _view_of_a_program(request)) is None:
            return self.get_response(request)
        request.resolver_match = match
        response = self._answer(request)
        if not response.streaming and not response.has_header("Content-Length"):
            response.headers["Content-Length"] = str(len(response.content))
        return response

    def _view(self, request: HttpRequest) -> HttpResponse:
        match = request.resolver_match
        if match is None:
            return self.get_response(request)
        view, args, kwargs = match.func, match.args, match.kwargs
        try:
            refused = self._bounds.process_view(request, view, args, kwargs)
            response = refused or view(request, *args, **kwargs)
            # What the API answers is written where the format is known.
            return response.render() if hasattr(response, "render") else response
        except Exception as error:
            explained = self._errors.process_exception(request, error)
            if explained is None:
                raise
            return explained


def _view_of_a_program(request: HttpRequest) -> ResolverMatch | None:
    path = request.path_info
    try:
        if path.startswith(ROOT):
            return resolve(path.removeprefix(ROOT[:-1]), BELOW_ROOT)
        is_keyed = request.META.get("HTTP_AUTHORIZATION", "")[:7].lower() == "bearer "
        if is_keyed and path.startswith(API):
            match = resolve(path)
            # A view that judges its callers itself, as those of the API do.
            return None if getattr(match.func, "login_required", True) else match
    except Resolver404:
        pass
    return None
