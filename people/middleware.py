import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import resolve_url
from django.utils import translation
from django.utils.cache import patch_vary_headers

from people.models import Role
from people.permissions import reason_against

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


# Addresses whose replies are English, whatever the request asks for. `/api/docs/` is a page.
READ_BY_PROGRAMS = re.compile(r"/(api/(?!docs/)|serve/|\.well-known/|metrics$)")


class LanguageMiddleware:
    """Show pages in the language that the user chose, else in one that the browser asks for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if READ_BY_PROGRAMS.match(request.path_info):
            return self.get_response(request)
        language_code = getattr(request.user, "language", "")
        # Only for this request: the thread also serves programs, whose replies are English.
        with translation.override(language_code or translation.get_language_from_request(request)):
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", translation.get_language())
        if not language_code:
            patch_vary_headers(response, ("Accept-Language",))
        return response


class RoleRequiredMiddleware(LoginRequiredMiddleware):
    """Require a signed-in user with the role that the page declares. API views check roles themselves."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if not getattr(view_func, "login_required", True):
            return None
        redirect = super().process_view(request, view_func, view_args, view_kwargs)
        if redirect is not None:
            # htmx would insert the sign-in page into a fragment of this page, so a header redirects it.
            if request.headers.get("HX-Request") != "true":
                return redirect
            current_path = urlsplit(request.headers.get("HX-Current-URL", "")).path
            query = urlencode({"next": current_path}) if current_path else ""
            return HttpResponse(status=401, headers={"HX-Redirect": f"{resolve_url('login')}?{query}"})
        roles = dict.fromkeys(SAFE_METHODS, getattr(view_func, "read_role", Role.VIEWER))
        if write_role := getattr(view_func, "write_role", None):
            roles["POST"] = write_role
        if request.resolver_match and request.resolver_match.app_name == "admin":
            roles = dict.fromkeys((*SAFE_METHODS, "POST"), Role.ADMIN)
        if request.method not in roles:
            return HttpResponseNotAllowed(list(roles))
        if reason := reason_against(request.user, roles[request.method]):
            raise PermissionDenied(reason)
        return None

    def get_login_url(self, view_func: Callable[..., Any]) -> str:
        # Django's admin has a sign-in page of its own; Pegboard has only one.
        return settings.LOGIN_URL
