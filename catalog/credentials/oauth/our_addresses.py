"""Our own addresses that authorization servers are told."""

from django.http import HttpRequest
from django.urls import reverse
from rest_framework.request import Request


def redirect_uri(request: HttpRequest | Request) -> str:
    """Where the authorization server sends the browser back to: registered there, and compared exactly."""
    return request.build_absolute_uri(reverse("credential-callback"))


def document_url(request: HttpRequest | Request) -> str:
    """Where a server can read who we are; "" while it could not, because only https counts there."""
    address = request.build_absolute_uri(reverse("client-document"))
    return address if address.startswith("https:") else ""
