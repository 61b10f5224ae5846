from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from core import strict_json
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError

TOO_DEEP = "JSON_DEPTH"
SENTENCES = {
    "JSON_NUL": "Leave out the NUL character: no text here can hold it.",
    "JSON_SURROGATE": "Leave out the half of a surrogate pair: alone it is no character.",
    "JSON_NUMBER": "Send a number that is not too large.",
}


class StrictJSONParser(BaseParser):
    """Refuses JSON that two parsers would read differently, as replies of vendors are refused.

    A view that accepts larger bodies sets `largest_body`, and one that accepts arrays instead of objects sets
    `takes_arrays`.
    """

    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        view = (parser_context or {}).get("view")
        limit: int = getattr(view, "largest_body", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise DomainError("too_large", f"The body is larger than {limit // 1024**2} MB.", status=413)
        try:
            document = strict_json.loads(body, allow_unstorable=True)
        except ProtocolViolationError as error:
            # The sentences are written about a vendor's reply; here it is the caller's body.
            raise DomainError("invalid_json", error.message.replace("The reply", "The body")) from error
        takes_arrays = getattr(view, "takes_arrays", False)
        if not isinstance(document, (dict, list) if takes_arrays else dict):
            kinds = "object or an array" if takes_arrays else "object"
            raise DomainError("invalid_json", f"The body must be a JSON {kinds}.")
        if problem := strict_json.unstorable(document):  # also bounds the depth, which `loads` does not
            code, reason = problem
            # The path is named and not the value, which may be a secret.
            fields = {} if code == TOO_DEEP else dict(_find_faults(document, ()))
            if fields.pop("", None) or not fields:
                raise DomainError("invalid_json", SENTENCES.get(code, f"The body holds {reason}."))
            raise DomainError("invalid", "Some fields cannot be stored.", fields=fields)
        return document


def _find_faults(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            # A fault in a name is reported at its object, because the path cannot contain the name.
            is_storable = strict_json.unstorable(name) is None
            yield from _find_faults(member, (*path, name)) if is_storable else _find_faults(name, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_faults(item, (*path, str(index)))
    elif problem := strict_json.unstorable(value):
        yield ".".join(path), SENTENCES[problem[0]]
