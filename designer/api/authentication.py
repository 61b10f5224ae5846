"""Authentication that reads the API key and the release in the address with one statement."""

from django.http import HttpRequest
from rest_framework.request import Request

from designer.agents.access_tokens import RuntimeAuthentication
from designer.models import Release
from designer.releases import release_access
from people.models import ApiKey

_ATTRIBUTE = "prefetched_release"


class ReleaseAuthentication(RuntimeAuthentication):
    """Stores the release with the request, for `take_prefetched_release`."""

    def find_key(self, digest: str, request: HttpRequest | Request) -> ApiKey | None:
        match = request.resolver_match
        slug, name = (match.kwargs.get("slug"), match.kwargs.get("number")) if match else (None, None)
        if not slug or not isinstance(name, str):
            return super().find_key(digest, request)
        key, release = release_access.find_key_and_release(digest, slug, name)
        setattr(_django_request(request), _ATTRIBUTE, (slug, name, release))
        return key


def take_prefetched_release(request: HttpRequest | Request, slug: str, name: str) -> Release | None:
    """Return the release that was read with the key of this request; only once, because a request that asks
    again needs the present state.
    """
    *address, release = vars(_django_request(request)).pop(_ATTRIBUTE, ("", "", None))
    return release if address == [slug, name] else None


def _django_request(request: HttpRequest | Request) -> HttpRequest:
    return request._request if isinstance(request, Request) else request
