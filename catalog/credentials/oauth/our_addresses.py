"""Our own addresses that authorization servers are told."""

from django.http import HttpRequest
from django.urls import reverse
from rest_framework.request import Request

from core.public_url import public_url


def redirect_uri(request: HttpRequest | Request) -> str:
    """Where the authorization server sends the browser back to: registered there, and compared exactly."""
    return public_url(reverse("credential-callback"), request)


def document_url(request: HttpRequest | Request) -> str:
    """Where a server can read who we are; "" while it could not, because only https counts there."""
    address = public_url(reverse("client-document"), request)
    return address if address.startswith("https:") else ""
