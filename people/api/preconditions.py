"""ETag and If-Match (RFC 9110, 8.8.3 and 13.1.1), for requests that replace a state that a person read."""

import re

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from core.errors import DomainError
from people.audit import edit_conflicts

# The characters of an ETag in ASCII, apart from the star, which means any state.
ONE_ETAG = '"[!#-)+-~]+"|[*]'
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": f"^({ONE_ETAG})$"},
    OpenApiParameter.HEADER,
    description="The ETag of the state that you edit: if it was saved since, the answer is 409 with "
    "the differences.",
)


def expected_state(request: Request) -> str:
    """Return the state for `edit_conflicts.check`. Without the header any state is accepted."""
    header = request.headers.get("If-Match", edit_conflicts.ANY_STATE).strip()
    if not re.fullmatch(ONE_ETAG, header):
        raise DomainError("invalid_if_match", "If-Match takes one ETag in quotes, as GET returned it.")
    return header.strip('"')


def etag_of(facts: edit_conflicts.Facts) -> dict[str, str]:
    return {"ETag": f'"{edit_conflicts.etag(facts)}"'}
