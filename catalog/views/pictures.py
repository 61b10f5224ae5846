"""Pictures of tools, as browsers fetch them: a file that Pegboard made, and never one of a vendor."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from catalog.models import Picture
from catalog.pictures.drawing import CONTENT_TYPE
from people.models import Role
from people.permissions import requires

YEAR = 365 * 86_400  # seconds


@requires(Role.VIEWER)
@require_safe
def picture(request: HttpRequest, digest: str) -> HttpResponse:
    """Return a picture. Its address contains the digest, so browsers may cache it for ever."""
    row = get_object_or_404(Picture, digest=digest)
    response = HttpResponse(bytes(row.content), content_type=CONTENT_TYPE)
    response["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response
