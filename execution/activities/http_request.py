"""Builds the request of an `http` activity from the inputs, and its outputs from the reply. Pure.

The address is fixed, apart from its path, where `{input}` is one segment or a part of one. Its value is
percent-encoded, so that it can neither leave its segment nor change the host.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET

from core import strict_json
from core.outbound.reply import Reply
from core.outbound.request import Request
from core.schema import pointers
from core.strict_json import AnswerDocument
from core.translatable import Wording
from core.translatable import mark as _
from execution.activities import conversions, picking
from execution.activities.conversions import UnfitValueError
from execution.activities.picking import ActivityFault, Reach, Source
from protocols.call_outcome import OutcomeKind
from protocols.signature import Parameter, Signature

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WITHOUT_BODY = ("GET", "DELETE")
# The outcomes of a status. Redirects are not followed, and a rejected credential is always an error.
MEANINGS: tuple[OutcomeKind, ...] = ("ok", "tool_error", "invalid_arguments", "unavailable", "refused")
_FIXED_STATUSES = {401, *range(300, 400)}
_PLACEHOLDER = re.compile(r"\{([^{}/]*)\}")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
# Pegboard sets these headers itself, or they carry a credential.
OUR_HEADERS = {
    *(
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
    ),
    *("upgrade", "expect", "accept-encoding", "user-agent", "cookie", "authorization", "proxy-authorization"),
    *("proxy-connection", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
}
MAX_MEMBERS = 100

Form = Literal["json", "form"]


class OutputSource(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of a reply that becomes an output: the JSON of the body (`at` is a JSON pointer, "" all of
    it), its `text` unchanged, a `header`, or the `status`."""

    of: Literal["json", "text", "status", "header"] = "json"
    at: str = ""
    header: str = ""


class Template(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The request of an activity.

    body: members of an object by JSON pointers: “/user/name”, or “name” for “/name”.
    statuses: the outcomes of some statuses; others have the outcome of HTTP.
    """

    address: str
    method: str = "GET"
    query: dict[str, Source] = {}
    headers: dict[str, Source] = {}
    body: dict[str, Source] = {}
    form: Form = "json"
    outputs: dict[str, OutputSource] = {}
    statuses: dict[str, OutcomeKind] = {}
    credential: str = ""

    def address_faults(self, reach: Reach) -> Iterator[ActivityFault]:
        head, mark, location = self.address.partition("://")
        authority, _slash, path = location.partition("/")
        if not mark or head not in ("http", "https") or "{" in authority or "}" in authority or not authority:
            message = Wording(
                _("Enter the address as https://host/path. The host is fixed: it cannot contain an input.")
            )
            yield ActivityFault("address", "unfixed_host", message)
            return
        fixed = _PLACEHOLDER.sub("", path)
        if any(sign in location for sign in "?#@\\") or "{" in fixed or "}" in fixed:
            template = _(
                "Behind the host comes a path, with {input} in places. The query has a part of its own."
            )
            message = Wording(template, {"input": "{input}"})
            yield ActivityFault("address", "invalid", message)
            return
        for name in _PLACEHOLDER.findall(path):
            yield from picking.faults("address", Source(input=name) if name else Source(), reach)
            if (
                reach.inputs
                and (parameter := reach.inputs.get(name))
                and not parameter.required
                and parameter.default is UNSET
            ):
                template = _("“{name}” is optional, and the address needs it.")
                message = Wording(template, {"name": name})
                yield ActivityFault("address", "may_be_missing", message)

    def output_faults(self, interface: Signature | None) -> Iterator[ActivityFault]:
        declared = {parameter.name for parameter in interface.outputs} if interface else set()
        for name, source in self.outputs.items():
            if declared and interface and name not in declared and not interface.outputs_rest:
                message = picking.no_output(interface, name)
                yield ActivityFault(f"outputs.{name}", "unknown_target", message)
            if reason := picking.why_no_pointer(source.at):
                yield ActivityFault(f"outputs.{name}", "unclear_source", reason)
            if (source.of == "header") != bool(source.header):
                message = Wording(_("Enter the name of the header."))
                yield ActivityFault(f"outputs.{name}", "unclear_source", message)

    def encode_body(self, inputs: Mapping[str, Any]) -> tuple[bytes, str]:
        values = {
            name: value
            for name, source in self.body.items()
            if (value := _pick_value(source, inputs)) is not UNSET
        }
        if self.form == "form":
            pairs = [pair for name, value in values.items() for pair in _query_pairs(name, value)]
            return urlencode(pairs).encode(), "application/x-www-form-urlencoded"
        document: dict[str, Any] = {}
        for pointer, value in values.items():
            *path, last = pointers.split(f"/{pointer.removeprefix('/')}")
            inner = document
            for part in path:
                inner = inner.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise UnfitValueError(f"“{pointer}” lies in a member that has a value of its own")
            inner[last] = value
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode(), "application/json"


def faults(template: Template, interface: Signature | None) -> Iterator[ActivityFault]:
    """Yield the faults of a template, apart from those of its host."""
    reach = Reach(
        None if interface is None else {parameter.name: parameter for parameter in interface.inputs}, ()
    )
    if template.method not in METHODS:
        message = Wording(_("Choose one of: {choices}."), {"choices": ", ".join(METHODS)})
        yield ActivityFault("method", "invalid", message)
    yield from template.address_faults(reach)
    for place, sources in (("query", template.query), ("headers", template.headers), ("body", template.body)):
        if len(sources) > MAX_MEMBERS:
            message = Wording(_("There may be {count} at most."), {"count": MAX_MEMBERS})
            yield ActivityFault(place, "invalid", message)
        for name, source in sources.items():
            yield from picking.faults(f"{place}.{name}", source, reach)
    for name in template.headers:
        if not _HEADER.fullmatch(name) or name.lower() in OUR_HEADERS:
            text = _("The header “{name}” cannot be set here. Use a credential for keys.")
            message = Wording(text, {"name": name[:100]})
            yield ActivityFault(f"headers.{name}", "forbidden_header", message)
    if template.body and template.method in WITHOUT_BODY:
        message = Wording(_("A request with {method} has no body."), {"method": template.method})
        yield ActivityFault("body", "invalid", message)
    for status, outcome in template.statuses.items():
        if (
            not re.fullmatch("[2-5][0-9][0-9]", status)
            or int(status) in _FIXED_STATUSES
            or outcome not in MEANINGS
        ):
            text = _("“{status}” cannot have this meaning. Enter a status such as 404, and its meaning.")
            message = Wording(text, {"status": status[:20]})
            yield ActivityFault(f"statuses.{status}", "invalid", message)
    yield from template.output_faults(interface)


def origin(template: Template) -> str:
    """Return the address without its path."""
    scheme, mark, location = template.address.partition("://")
    return f"{scheme}{mark}{location.partition('/')[0]}"


def request(template: Template, inputs: Mapping[str, Any], accept: tuple[int, ...]) -> Request:
    """Build the request. Raises UnfitValueError for a value that cannot be sent at its position."""

    def encode_segment(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        text = _to_text(name, inputs.get(name))
        # Segments of dots have a meaning of their own, also for a server that decodes a slash too early.
        if not text or any(part in (".", "..") for part in re.split(r"[/\\]", text)):
            raise UnfitValueError(f"“{name}” cannot stand in an address")
        return quote(text, safe="")

    path = template.address.partition("://")[2].partition("/")[2]
    path = "/" + _PLACEHOLDER.sub(encode_segment, path)
    query = [
        pair
        for name, source in template.query.items()
        for pair in _query_pairs(name, _pick_value(source, inputs))
    ]
    headers = {}
    for name, source in template.headers.items():
        if (value := _pick_value(source, inputs)) is not UNSET and value is not None:
            headers[name] = _to_text(name, value)
    content = None
    if template.method not in WITHOUT_BODY:
        content, media = template.encode_body(inputs)
        headers["Content-Type"] = media
    return Request(
        template.method,
        path,
        urlencode(query, quote_via=quote),
        headers,
        content,
        accept,
        is_repeatable=template.method == "GET",
    )


def _pick_value(source: Source, inputs: Mapping[str, Any]) -> Any:
    return picking.pick_value(source, inputs, ())


def _to_text(name: str, value: Any) -> str:
    try:
        text = conversions.convert_value(
            value, Parameter(id=name, name=name, type="string", required=True, description="")
        )
    except UnfitValueError as error:
        raise UnfitValueError(f"“{name}” {error}") from error
    if not isinstance(text, str):
        raise UnfitValueError(f"“{name}” is missing")
    return text


def _query_pairs(name: str, value: Any) -> list[tuple[str, str]]:
    # A list becomes one pair for each item.
    if value is UNSET or value is None:
        return []
    return [(name, _to_text(name, item)) for item in (value if isinstance(value, list) else [value])]


def outcome_of_status(template: Template, status: int) -> OutcomeKind | None:
    """Return the outcome that the template or HTTP gives to a status; None for an error of HTTP."""
    return template.statuses.get(str(status)) or ("ok" if 200 <= status < 300 else None)


def outputs(template: Template, reply: Reply) -> AnswerDocument:
    """Return the outputs by name. Raises ProtocolViolationError if an output needs JSON and there is none."""
    values: dict[str, Any] = {}
    wants_json = any(source.of == "json" for source in template.outputs.values())
    answer = strict_json.require_answer(reply) if wants_json and reply.body.strip() else AnswerDocument(UNSET)
    document, is_repaired = answer.value, answer.is_repaired
    for name, source in template.outputs.items():
        match source.of:
            case "json":
                value = UNSET if document is UNSET else picking.value_at(document, source.at)
            case "text":
                text = strict_json.repair_value(reply.body.decode(errors="replace"))
                value, is_repaired = text.value, is_repaired or text.is_repaired
            case "status":
                value = reply.status
            case "header":
                value = reply.headers.get(source.header.lower(), UNSET)
        if value is not UNSET:
            values[name] = value
    return AnswerDocument(values, is_repaired)
