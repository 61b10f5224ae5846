"""Detection of the protocol, the name and the tools of an address or a pasted document.

Every protocol declares harmless probes and a pure rule over their replies (protocols/recognition.py). This
module sends the probes through the guarded session, within bounds on time, size and number, and never to
another origin. A redirect is reported and not followed.
"""

import html
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

import protocols
from catalog.credentials import sessions
from catalog.credentials.oauth import discovery
from catalog.credentials.oauth.discovery import Discovery
from catalog.models import Endpoint
from catalog.vendors import previews
from catalog.vendors.operations import draft_endpoint
from catalog.vendors.previews import Preview
from core.errors import DomainError
from core.outbound.addresses import in_ascii
from core.outbound.errors import ProtocolError, RefusedError, printable
from core.outbound.limits import DEFAULT_LIMITS, MIB
from core.outbound.policy import AddressSource, Door, origin_of, policy_for
from core.outbound.reply import Reply
from core.outbound.session import HttpSession
from protocols.base import Protocol
from protocols.recognition import Certainty, Probe, RecognizedServer

MAX_PROBES = 16
SECONDS = 20.0
SECONDS_OF_EACH = 5.0
LIMITS = replace(DEFAULT_LIMITS, request=SECONDS_OF_EACH, session=SECONDS, session_bytes=32 * MIB, backoff=())
ANY_STATUS = range(200, 600)
# With these the server cannot be reached, so no other probe is sent.
_UNREACHABLE = ("CONNECT", "CONNECT_TIMEOUT", "DNS", "PROXY")
_TITLE = re.compile(rb"<title[^>]*>([^<]{1,200})</title>", re.IGNORECASE)
WHERE_TO_LOOK = (
    "The vendor's documentation for developers names the address: that of an MCP server, of an OpenAPI "
    "document or of a list of tools."
)

# Receives the protocol that is tried, and the number of tools that were read.
Report = Callable[[str, int], None]


@dataclass(slots=True)
class Detection:
    """The offer of an address or a document.

    protocol: "" if none was recognised, or if several are possible; these are in `possible`.
    address: of the endpoint to connect, "" if a document states none. name: the server's own.
    error: why nothing was recognised: {"code", "message"}.
    """

    protocol: str = ""
    address: str = ""
    name: str = ""
    possible: list[str] = field(default_factory=list)
    preview: Preview | None = None
    discovery: Discovery | None = None
    error: dict[str, str] | None = None

    @property
    def label(self) -> str:
        """Return the name of the detected kind, such as “MCP server”."""
        if not self.protocol:
            return ""
        protocol = protocols.get(self.protocol)
        return f"{protocol.label} {protocol.recognition.noun}" if protocol.recognition else protocol.label

    @property
    def wants_sign_in(self) -> bool:
        return bool(self.preview and self.preview.error and self.preview.error["code"] == "AUTH")


def detect_address(address: str, report: Report) -> Detection:
    """Detect the protocol of `address`, and preview its tools. Takes about a minute at most."""
    address = in_ascii(address.strip())
    search = _ProtocolDetection(address, report)
    try:
        search.run()
    except ProtocolError as error:
        return Detection(address=address, error={"code": error.code, "message": error.message})
    best = search.best()
    if best is None:
        return Detection(address=address, error=_explain_reply(address, search.first_reply))
    if len(best) > 1:
        return Detection(address=address, possible=[protocol.name for protocol, _, _ in best])
    protocol, probe, match = best[0]
    return _preview_detection(Detection(protocol.name, probe.address, match.name), {}, report)


def detect_document(text: str, report: Report) -> Detection:
    """Detect the protocol of a pasted document, and preview its tools if it states the address of calls."""
    for protocol in protocols.PROTOCOLS:
        recognition = protocol.recognition
        if recognition is None or recognition.match_document is None:
            continue
        report(protocol.name, 0)
        if match := recognition.match_document(text):
            detected = Detection(protocol.name, match.address, match.name)
            settings = {recognition.document_setting: text}
            return _preview_detection(detected, settings, report) if match.address else detected
    message = "This is not an OpenAPI document in JSON or YAML. Paste the whole document, or its address."
    return Detection(error={"code": "UNKNOWN_DOCUMENT", "message": message})


def _preview_detection(detection: Detection, settings: dict[str, Any], report: Report) -> Detection:
    try:
        draft = draft_endpoint(protocol=detection.protocol, url=detection.address, settings=settings)
    except DomainError as error:
        message = " ".join(error.fields.values()) or error.message
        return replace(detection, error={"code": error.code, "message": message})
    report(detection.protocol, 0)
    preview = previews.preview(draft, report=lambda tools: report(detection.protocol, tools))
    detection = replace(detection, preview=preview)
    if detection.wants_sign_in:
        with suppress(RefusedError):
            detection.discovery = discovery.discover(
                draft.credential_url, preview.challenge, detection.protocol
            )
    return detection


_Candidate = tuple[type[Protocol], Probe, RecognizedServer]


class _ProtocolDetection:
    """The probes of all protocols at one address. first_reply: to a plain request for the address itself."""

    def __init__(self, address: str, report: Report) -> None:
        self.first_reply: Reply | None = None
        self._address = address
        self._report = report
        self._candidates: list[_Candidate] = []
        self._ends = time.monotonic() + SECONDS

    def run(self) -> None:
        """Send probes until a reply is sure. Raises ProtocolError if the server cannot be reached."""
        policy = policy_for(Door.PREVIEW, AddressSource.ADMINISTRATOR)
        origin = origin_of(self._address, may_ask=True, policy=policy)
        with sessions.open_session(Endpoint(url=self._address), limits=LIMITS, policy=policy) as session:
            # The entered address in every protocol, then the usual places below it.
            probes = [
                (protocol, protocol.recognition, probe)
                for protocol in protocols.PROTOCOLS
                if protocol.recognition
                for probe in protocol.recognition.probes(self._address)
            ]
            for protocol, recognition, probe in sorted(probes, key=lambda row: row[2].is_guess)[:MAX_PROBES]:
                is_sure = any(match.certainty >= Certainty.SURE for _, _, match in self._candidates)
                if is_sure or time.monotonic() >= self._ends:
                    return
                self._report(protocol.name, 0)
                if origin_of(probe.address, may_ask=True, policy=policy) != origin:
                    continue
                reply = _request_probe(session, probe)
                if reply is None:
                    continue
                if not probe.is_guess and not probe.path and probe.json is None:
                    self.first_reply = reply
                if match := recognition.match(probe, reply):
                    self._candidates.append((protocol, probe, match))

    def best(self) -> list[_Candidate] | None:
        """Return the most certain candidates, one for each protocol; None without any."""
        if not self._candidates:
            return None
        best_certainty = max(match.certainty for _, _, match in self._candidates)
        best: dict[str, _Candidate] = {}
        for candidate in self._candidates:
            if candidate[2].certainty == best_certainty:
                best.setdefault(candidate[0].name, candidate)
        return list(best.values())


def _request_probe(session: HttpSession, probe: Probe) -> Reply | None:
    """Return the reply, None without a usable one. Raises ProtocolError for an unreachable server."""
    try:
        with session.at_url(probe.address) as place:
            if probe.json is None:
                return place.get(probe.path, params=probe.params, headers=probe.headers, accept=ANY_STATUS)
            reply = place.post(
                probe.path,
                json=probe.json,
                headers=probe.headers,
                accept=ANY_STATUS,
                is_enough=probe.is_enough,
            )
            name = probe.session_header
            if name and (value := reply.headers.get(name.lower())):
                with suppress(ProtocolError):
                    place.delete(probe.path, headers={name: value}, accept=ANY_STATUS)
            return reply
    except ProtocolError as error:
        is_refused = isinstance(error, RefusedError) and error.code != "INSUFFICIENT_SCOPE"
        if is_refused or error.code in _UNREACHABLE:
            raise
        return None


def _explain_reply(address: str, reply: Reply | None) -> dict[str, str]:
    """Return what answered at an address in which no protocol was recognised, and what to do."""
    host = urlsplit(address).netloc
    if reply is None:
        message = f"{host} did not answer in time. Check the address, or try again."
        return {"code": "NO_ANSWER", "message": message}
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        # Without its query.
        location = reply.headers.get("location", "").partition("?")[0]
        destination = "another address"
        with suppress(ValueError):
            destination = printable(urljoin(address, location), 300) if location else destination
        message = f"{host} redirects to {destination}. Enter that address if it is the vendor's."
        return {"code": "REDIRECT", "message": message}
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        message = f"{host} answered {reply.status}, so its server has a problem. Try again later."
        return {"code": f"HTTP_{reply.status}", "message": message}
    if reply.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        path = printable(urlsplit(address).path or "/", 100)
        return {"code": "NOT_FOUND", "message": f"{host} has nothing at {path}. {WHERE_TO_LOOK}"}
    if kind == "text/html" or reply.body.lstrip()[:1] == b"<":
        title = _TITLE.search(reply.body)
        text = html.unescape(title[1].decode(errors="replace")).strip() if title else ""
        name = f", “{printable(text, 80)}”" if text else ""
        return {"code": "WEB_PAGE", "message": f"This is a web page for people{name}. {WHERE_TO_LOOK}"}
    what = "JSON in a form" if "json" in kind else f"a reply ({reply.status}) in a form"
    message = f"{host} answered with {what} that belongs to no protocol of Pegboard. {WHERE_TO_LOOK}"
    return {"code": "UNKNOWN_REPLY", "message": message}
