"""Django's layers about browsers, which programs with a key pass by.

The most frequent requests are those of runtimes. They have no session and no messages, and what these layers
look up for each of them takes an eighth of the time of a short answer.
"""

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware as Authentication
from django.contrib.messages.middleware import MessageMiddleware as Messages
from django.contrib.sessions.middleware import SessionMiddleware as Session
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin
from django_htmx.middleware import HtmxMiddleware as Htmx

from designer.access_tokens import ROOT

API = "/api/v1/"


def _is_of_a_program(request: HttpRequest) -> bool:
    # What is asked with a key is answered by the rights of the key alone: people/authentication.py.
    is_keyed = request.META.get("HTTP_AUTHORIZATION", "")[:7].lower() == "bearer "
    path = request.path_info
    return path.startswith(ROOT) or (is_keyed and path.startswith(API))


class _PagesOnly(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request) if _is_of_a_program(request) else super().__call__(request)


class SessionMiddleware(_PagesOnly, Session):
    pass


class AuthenticationMiddleware(_PagesOnly, Authentication):
    pass


class MessageMiddleware(_PagesOnly, Messages):
    pass


class HtmxMiddleware(Htmx):
    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request) if _is_of_a_program(request) else super().__call__(request)
