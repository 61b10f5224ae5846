from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from catalog.protocols import strict_json
from catalog.protocols.errors import ProtocolViolationError
from people.errors import DomainError


class StrictJSONParser(BaseParser):
    """As strict with callers as with vendors: what two parsers would read differently is refused.

    A view that takes more than the usual says so in `largest_body`.
    """

    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        view = (parser_context or {}).get("view")
        limit: int = getattr(view, "largest_body", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise DomainError("too_large", f"The body is larger than {limit // 1024**2} MB.", status=413)
        return _read_object(body)


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        document = strict_json.loads(body)
    except ProtocolViolationError as error:
        # The sentences are written about a vendor's reply; here it is the caller's body.
        raise DomainError("invalid_json", error.message.replace("The reply", "The body")) from error
    if problem := strict_json.unstorable(document):  # also bounds the depth, which `loads` does not
        raise DomainError("invalid_json", f"The body holds {problem[1]}.")
    if not isinstance(document, dict):
        raise DomainError("invalid_json", "The body must be a JSON object.")
    return document
