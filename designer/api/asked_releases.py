from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request

from core.errors import DomainError
from designer.api.agents import chosen_agent, find_moved_agent
from designer.api.authentication import django_request, take_prefetched_release
from designer.models import Release, Retirement
from designer.releases import publishing, release_access, retiring
from people.permissions import key_of, person

NUMBER = OpenApiParameter(
    "number",
    str,
    OpenApiParameter.PATH,
    description="A number, `sha256:` with a release's digest, or the name of a channel, such as "
    "`live`: the release that it points to now.",
)
ENVIRONMENT = OpenApiParameter(
    "environment",
    str,
    description="One of the agent's environments; else that of the key, or the default one. Of "
    "formats, only `tool-system` contains what runs.",
)
DOCUMENT_HEADERS = [
    OpenApiParameter(
        "If-None-Match",
        str,
        OpenApiParameter.HEADER,
        description="An ETag. The answer is 304 if it is the release's.",
    ),
    OpenApiParameter(
        "ETag",
        str,
        OpenApiParameter.HEADER,
        response=[200, 304],
        description="The digest of the release, followed by `.partial` if tools are omitted.",
    ),
]
# Every read of a retired release reports it.
DOCUMENT_HEADERS += [
    OpenApiParameter(name, str, OpenApiParameter.HEADER, response=[200, 304, 410], description=help_text)
    for name, help_text in (
        ("Deprecation", "Since when the release is retired, as RFC 9745 writes it: `@1777636800`."),
        ("Sunset", "From when on API keys get it no more (RFC 8594); absent where no date is set."),
        ("Link", "The same of the release that succeeds it, as `successor-version`."),
    )
]
UNCHANGED = OpenApiResponse(description="The caller has the current content already.")
GONE = OpenApiResponse(OpenApiTypes.OBJECT, description="The release is retired, and its date is past.")


EXPECTED = serializers.IntegerField(
    required=False,
    min_value=0,
    max_value=2**31 - 1,
    help_text="The release that the channel points to as far as you know, 0 for none. If it points "
    "to another one by now, nothing is changed and the answer is 409 `channel_moved`.",
)


def releases_at(request: Request, slug: str) -> QuerySet[Release]:
    return (
        # Checked first: for another team's agent nothing but 404 is returned.
        Release.objects.filter(agent=chosen_agent(request, slug))
        .select_related("agent", "created_by", "retirement__retired_by")
        .defer("document")
    )


@dataclass(frozen=True)
class RetiredRelease:
    """The facts for DeprecationMiddleware; `successor` is the number of the release to read."""

    since: datetime
    sunset_at: datetime | None
    successor: int | None


def report_retirement(request: HttpRequest | Request, release: Release, *, hands_out: bool) -> None:
    """Let the response state that the release is retired. Raises DomainError if the response `hands_out` a
    release that API keys no longer get.
    """
    retirement: Retirement | None = getattr(release, "retirement", None)
    if retirement is None:
        return
    succeeds = retiring.successor(release)
    django_request(request).retired_release = RetiredRelease(  # type: ignore[attr-defined]
        retirement.retired_at, retirement.sunset_at, succeeds.number if succeeds else None
    )
    # A signed-in user can always read what was published.
    if hands_out and retirement.is_over and key_of(request):
        instead = f"Read release {succeeds.number} in its place." if succeeds else "None is in its place yet."
        message = f"Release {release.number} is retired, and answers no longer. {instead}"
        raise DomainError("release_retired", message, status=410)


def find_release(
    request: HttpRequest | Request, slug: str, number: str, formats: Sequence[str] = ()
) -> Release:
    """Return the release of a request, without its document; in `written` those of `formats` that are stored.
    Raises DomainError and Http404.
    """
    reader, key = person(request), key_of(request)
    release = None if formats else take_prefetched_release(request, slug, number)
    release = release or release_access.find_release(slug, number, reader, key, formats=formats)
    if release is None and (agent := find_moved_agent(request, slug)):
        release = release_access.find_release(agent.slug, number, reader, key, formats=formats)
    if release is None:
        chosen_agent(request, slug)
        raise publishing.not_found_error(number)
    report_retirement(request, release, hands_out=True)
    return release


def find_listed_release(request: Request, slug: str, number: str, *, hands_out: bool = False) -> Release:
    release = chosen_release(releases_at(request, slug), number)
    report_retirement(request, release, hands_out=hands_out)
    return release


def chosen_release(releases: QuerySet[Release], name: str) -> Release:
    """Return the named one of an agent's releases. Raises DomainError."""
    conditions = release_access.release_conditions(name)
    release = None if conditions is None else releases.filter(**conditions).first()
    if release is None:
        raise publishing.not_found_error(name)
    return release
