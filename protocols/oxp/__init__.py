"""OXP, the Open Execution Protocol 1.0 (draft), in both of its wire forms.

https://github.com/OpenExecProtocol/Specification

Two revisions share the number 1.0: one wraps calls and their replies in `request` and `result`, the
other sends them bare and names the version in a header. A list shows which one a vendor speaks. The
published schema of a reply refuses every reply with a value, so replies are read by the prose.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import structs

from core import strict_json
from core.canonical_json import canonical
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from protocols import members, paging
from protocols import parameters as json_schema
from protocols.base import (
    Item,
    KnownPages,
    Needs,
    Note,
    Outcome,
    Page,
    Protocol,
    Rejected,
    Session,
    Setting,
    UnreadableItemError,
)
from protocols.calls import outcomes
from protocols.oxp import calls as oxp_calls
from protocols.signature import Requirements, Signature

MAX_TOOL_ID_LENGTH = 255
MAX_SHOWN = 10
MAX_FACT_LENGTH = 300

_TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,18})(?:\.([0-9]{1,18})\.([0-9]{1,18}))?)?")
_VERSION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_WHERE = "requirements."
_OAUTH2 = "requirements.authorization.oauth2."
_NO_SHAPE = json_schema.Shape((), None)
_BARE_ARRAY = Note("BARE_ARRAY", "The list is a bare array without “items”.")


@dataclass(frozen=True, slots=True)
class _Listing:
    """Everything on the list, several versions of one tool included."""

    items: Sequence[Item]
    rejected: Sequence[Rejected]
    body_digest: str
    notes: Sequence[Note]


class OXP(Protocol):
    name = "oxp"
    label = "OXP"
    summary = "The vendor lists versioned tools under /tools and runs them at /tools/call."
    url_hint = "The address before /tools, such as https://api.example.com/oxp."
    settings = (
        Setting(
            name="user_id",
            label="User ID",
            help="Who the tools act for where a call does not say it. It is sent only to tools that ask "
            "for it.",
        ),
        Setting(
            name="check_hosts",
            label="Hosts that tell of authorizations",
            kind="lines",
            help="Where Pegboard may ask whether a user has authorized a tool, beside the endpoint's own "
            "address: one host on a line, such as auth.example.com.",
        ),
    )
    promises = frozenset({"locked_versions"})
    content_members = frozenset(
        {"id", "name", "version", "description", "input_schema", "output_schema", "requirements"}
    )
    schema_members = frozenset({"input_schema", "output_schema"})
    lists_at_once = True
    unshown = frozenset({"developer_message"})
    takes_context = True

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self._read: tuple[Session, _Listing] | None = None

    def enumerate(self, session: Session, known: KnownPages) -> Iterator[Page]:
        reply = _list(session)
        yield known.recall("", reply) or _current_page(_listing(session, reply))

    def read(self, document: dict[str, Any]) -> Signature:
        return _signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return _document(signature, tool_id, label)

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        # With its version in its id, where some leave it out, and its schema not wrapped in an early form.
        tool_id, _ = _tool_id(document)
        schema = _unwrapped(document.get("input_schema"))
        return {**document, "id": f"{tool_id}@{document['version']}", "input_schema": schema or None}

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        called = f"“{printable(signature.name, 60)}”"
        if _NAME.fullmatch(signature.name):
            return ()
        return [Note("ODD_NAME", f"{called} has a name of other characters, or longer, than the protocol's.")]

    def needs(self, signature: Signature) -> Needs:
        said = (signature.rest or {}).get("requirements") or {}
        named = [each for each in said.get("authorization") or () if isinstance(each.get("id"), str)]
        is_unknown = signature.requirements.user and not self.values["user_id"]
        providers = {each["id"]: tuple(_scopes_of(each)) for each in named}
        return Needs(providers, signature.requirements.secrets, is_unknown)

    def may_ask_at(self, url: str) -> bool:
        asked = urlsplit(url)
        known = self.values["check_hosts"] or ()
        return asked.scheme == "https" and asked.netloc.lower() in {host.strip().lower() for host in known}

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        needs = (signature.rest or {}).get("requirements") or {}
        named = [each for each in needs.get("authorization") or () if each.get("id")]
        # Who gives out which scopes.
        said = [f"{each['id']}: {', '.join(_scopes(each))}" for each in named[:MAX_SHOWN]]
        return [("Authorization", printable(text, MAX_FACT_LENGTH)) for text in said]

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        versions = [item for item in _listing(session, _list(session)).items if item.tool_id == tool_id]
        wanted = [item for item in versions if label in (None, item.label)]
        if not wanted:
            which = f"{tool_id}@{label}" if label else tool_id
            raise RefusedError("NOT_FOUND", f"The vendor does not list {printable(which)}.")
        return max(wanted, key=lambda item: item.label_key)

    def versions(self, session: Session, tool_id: str) -> Iterator[Page]:
        # All are on the one list, so that asking for the versions of many tools reads it once.
        if self._read is None or self._read[0] is not session:
            self._read = (session, _listing(session, _list(session)))
        items = [item for item in self._read[1].items if item.tool_id == tool_id]
        if items:
            yield Page(items=items)

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        try:
            version = label or self.fetch(session, tool_id).label
        except ProtocolError as error:
            return outcomes.after(error)
        request = {
            "call_id": str(uuid4()),
            "tool_id": f"{tool_id}@{version}",
            "input": oxp_calls.input_of(signature, arguments),
        }
        return _called(session, signature, request, self._context(signature))

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        # The same call once more, under the same id: a vendor that ran it already may answer from memory.
        request = {member: value for member, value in state["request"].items() if member != "context"}
        return _called(session, signature, request, self._context(signature, answers.get("user_id")))

    def _context(self, signature: Signature, answered: object = None) -> dict[str, Any]:
        said = self.context
        usual = self.values["user_id"] if signature.requirements.user else ""
        context = {
            "user_id": said.user or answered or usual,
            "authorization": [{"id": name, "token": token} for name, token in said.tokens.items()],
            "secrets": [{"id": name, "value": value} for name, value in said.secrets.items()],
        }
        return {member: value for member, value in context.items() if value}


def _called(
    session: Session, signature: Signature, request: dict[str, Any], context: Mapping[str, Any]
) -> Outcome:
    # The context is made anew each time that the call goes on, so that nothing of it is kept.
    try:
        outcome = oxp_calls.call(session, _path(session, "/tools/call"), signature, request, context)
    except ProtocolError as failure:
        outcome = outcomes.after(failure)
    if (outcome.error or {}).get("code") in _TOLD_APART:
        outcome = _told_apart(session, outcome, request["tool_id"])
    if outcome.outcome == "unavailable" or outcome.resume is not None or outcome.can_retry:
        return replace(outcome, resume={"request": request, **(outcome.resume or {})})
    return outcome


# 400 stands for an unknown tool, for a vendor that is down, and for a credential that it does not take; a
# vendor that goes its own way answers with the others.
_TOLD_APART = ("NOT_RUN", *(f"HTTP_{status}" for status in (404, 410)))


def _told_apart(session: Session, outcome: Outcome, tool: str) -> Outcome:
    # The protocol has no codes for these: /health tells whether the vendor is there, and the list whether it
    # takes our credential and has the tool. Nothing ran, so a vendor that is away may be asked again.
    is_refused = (outcome.error or {})["code"] == "NOT_RUN"
    try:
        if is_refused and not _is_list(session) and _is_down(session):
            message = "The vendor says that it is not ready. The tool did not run."
            return replace(outcomes.failed("unavailable", "NOT_READY", message), can_retry=True)
        listing = _listing(session, _list(session))
    except UnavailableError as error:
        return replace(outcomes.after(error), can_retry=True) if is_refused else outcome
    except RefusedError as error:
        after = outcomes.after(error)
        return after if is_refused and after.outcome == "needs_authorization" else outcome
    except ProtocolError:
        return outcome
    if all(f"{item.tool_id}@{item.label}" != tool for item in listing.items):
        return outcomes.failed("refused", "NOT_FOUND", "The vendor has no such tool or version any more.")
    return outcome


def _is_down(session: Session) -> bool:
    try:
        status = session.get("/health", headers=oxp_calls.VERSION_HEADER, accept=(200, 204, 503)).status
    except RefusedError:
        # It has none, or keeps it to itself.
        return False
    return status == 503


def _is_list(session: Session) -> bool:
    # People may enter the address of the list; calls lie below it.
    return urlsplit(session.root).path.rstrip("/").endswith("/tools")


def _path(session: Session, below: str) -> str:
    return below.removeprefix("/tools") if _is_list(session) else below


def _list(session: Session) -> Reply:
    try:
        reply = session.get(_path(session, "/tools"), headers=oxp_calls.VERSION_HEADER)
    except (RefusedError, UnavailableError) as error:
        if _is_list(session) or not (error.code == "NOT_FOUND" or error.code.startswith("HTTP_")):
            raise
        raise _diagnosed(session, error) from None
    if "oxp-version" in reply.headers:
        session.memory["revision"] = "bare"
    return reply


def _diagnosed(session: Session, error: ProtocolError) -> ProtocolError:
    # There is no list: /health, which needs no credential, tells a server that is down from none.
    try:
        status = session.get("/health", headers=oxp_calls.VERSION_HEADER, accept=(200, 204, 503)).status
    except ProtocolError:
        doubt = "" if isinstance(error, UnavailableError) else " Nothing is at /health either."
        error.message += doubt
        return error
    if status == 503:
        return UnavailableError("NOT_READY", "The vendor says that it is not ready to answer.")
    error.message += " Its /health says that it is well."
    return error


def _listing(session: Session, reply: Reply) -> _Listing:
    read = strict_json.require_list(reply)
    document = read.value
    # A list of bare items shows neither revision.
    is_marked = isinstance(document, dict) and ("$schema" in document or "items" not in document)
    if is_marked and "oxp-version" not in reply.headers:
        session.memory["revision"] = "wrapped"
    listed = document
    if isinstance(document, dict):
        listed = next((document[m] for m in ("items", "tools") if isinstance(document.get(m), list)), None)
    if not isinstance(listed, list):
        raise ProtocolViolationError("SHAPE", "The reply has no array “items” and no array “tools”.")
    items, refused = paging.sort_entries(read, listed, _identified)
    good = {item.tool_id for item in items}
    rejected = [Rejected(_called_in(r.entry, r.number, good), r.error.code, r.error.reason) for r in refused]
    notes = [*([_BARE_ARRAY] if isinstance(document, list) else []), *oxp_calls.note_other_version(reply)]
    return _Listing(items, rejected, hashlib.sha256(reply.body).hexdigest(), notes)


def _current_page(listing: _Listing) -> Page:
    # A catalog lists a tool once: in its latest version that can be read.
    by_tool: dict[str, list[Item]] = {}
    for item in listing.items:
        by_tool.setdefault(item.tool_id, []).append(item)
    rejected = list(listing.rejected)
    items = [item for versions in by_tool.values() for item in _latest(versions, rejected)]
    shown = {item.tool_id: item.label_key for item in items}
    older = [item for item in listing.items if item.label_key < shown[item.tool_id]]
    return Page(
        items=items, rejected=rejected, notes=listing.notes, body_digest=listing.body_digest, older=older
    )


def _latest(versions: list[Item], rejected: list[Rejected]) -> list[Item]:
    left = sorted(versions, key=lambda item: item.label_key, reverse=True)
    while left[0].label_key != left[-1].label_key:
        newest = left[0]
        try:
            _signature(newest.document or {})
        except UnreadableItemError as error:
            name = f"{newest.tool_id}@{newest.label}"
            rejected.append(Rejected(name, error.code, error.reason))
            left = left[1:]
        else:
            break
    # Of one version listed twice both, as the reader has to tell the same from a contradiction.
    return [item for item in left if item.label_key == left[0].label_key]


def _called_in(entry: object, number: int, good: set[str]) -> str:
    # A refused item is called by its tool, so that a tool we know is not taken for gone, unless another
    # version of that tool can be read.
    tool_id = entry.get("id") if isinstance(entry, dict) else None
    found = _TOOL_ID.fullmatch(tool_id) if isinstance(tool_id, str) else None
    if found is None or len(found[1]) > MAX_TOOL_ID_LENGTH:
        return f"#{number}"
    return f"{found[1]}@#{number}" if found[1] in good else found[1]


def _identified(document: object) -> Item:
    if not isinstance(document, dict):
        raise members.wrong("item", document, "an object")
    tool_id, spelled = _tool_id(document)
    said = document.get("version")
    found = _VERSION.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        raise members.wrong("version", said, "three numbers such as 1.0.0", code="BAD_VERSION")
    label, version = found[0], tuple(map(int, found.groups()))
    if spelled is not None and spelled != version:
        reason = f"“id” names version {'.'.join(map(str, spelled))}, but “version” is {label}."
        raise UnreadableItemError("BAD_VERSION", reason)
    content = members.content(document)
    return Item(tool_id, label, version, hashlib.sha256(content).hexdigest(), document)


def _tool_id(document: Mapping[str, Any]) -> tuple[str, tuple[int, ...] | None]:
    # Toolkit and tool, and the version that stands behind them, if one does: `@2` means 2.0.0.
    value = document.get("id")
    found = _TOOL_ID.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[1]) > MAX_TOOL_ID_LENGTH:
        raise members.wrong("id", value, "of the form Toolkit.Tool or Toolkit.Tool@1.0.0", code="BAD_TOOL_ID")
    return found[1], (found[2] and tuple(int(part or 0) for part in found.groups()[1:])) or None


def _signature(document: dict[str, Any]) -> Signature:
    inputs, outputs = _unwrapped(document.get("input_schema")), document.get("output_schema")
    taken = given = _NO_SHAPE
    if inputs is not None and inputs != {}:
        taken = json_schema.read(inputs, "input_schema", whole_name="input")
    if outputs is not None:
        given = json_schema.read(outputs, "output_schema", whole_name="value")
    found = Signature(
        name=members.name(document, "name", code="BAD_NAME"),
        description=members.text(document, "description"),
        inputs=taken.parameters,
        outputs=given.parameters,
        requirements=_requirements(document.get("requirements")),
        schema_rest=taken.rest,
        outputs_rest=given.rest,
    )
    return structs.replace(found, rest=_rest(document, found) or None)


def _unwrapped(schema: object) -> object:
    # An early form put the schema under one member `parameters`.
    if isinstance(schema, dict) and schema.keys() == {"parameters"}:
        inner = schema["parameters"]
        if isinstance(inner, dict) and (not inner or "type" in inner or "properties" in inner):
            return inner
    return schema


def _rest(document: dict[str, Any], read: Signature) -> dict[str, Any]:
    # What `_document` would not write by itself. Under `input_schema`, {"parameters": {}} stands for
    # the early form, around whatever the inputs say.
    tool_id, _ = _tool_id(document)
    written = _document(read, tool_id, document["version"])
    rest = {
        m: value
        for m, value in document.items()
        if m not in written or canonical(written[m]) != canonical(value)
    }
    schema = document.get("input_schema")
    if schema and _unwrapped(schema) is not schema:
        rest["input_schema"] = {"parameters": {}}
    return rest


def _document(signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
    rest = signature.rest or {}
    document: dict[str, Any] = {"id": f"{tool_id}@{label}", "name": signature.name, "version": label}
    if signature.description:
        document["description"] = signature.description
    if signature.outputs or signature.outputs_rest is not None:
        document["output_schema"] = json_schema.write(signature.outputs, signature.outputs_rest)
    document |= rest
    if signature.inputs or signature.schema_rest is not None:
        schema = json_schema.write(signature.inputs, signature.schema_rest)
        document["input_schema"] = {"parameters": schema} if "input_schema" in rest else schema
    return document


def _requirements(value: object) -> Requirements:
    # What a call needs beside its inputs. Which provider wants which scope stays in the rest.
    if value is None:
        return Requirements()
    if not isinstance(value, dict):
        raise members.wrong("requirements", value, "an object")
    providers = [_named(each, "authorization") for each in members.array(value, "authorization", _WHERE)]
    secrets = [_named(each, "secrets") for each in members.array(value, "secrets", _WHERE)]
    user = value.get("user_id")
    if user is not None and not isinstance(user, bool):
        raise members.wrong("requirements.user_id", user, "true or false")
    return Requirements(
        scopes=tuple(scope for each in providers for scope in _scopes(each)),
        secrets=tuple(members.name(each, "id", "requirements.secrets.") for each in secrets),
        user=user is True,
    )


def _named(each: object, member: str) -> dict[str, Any]:
    if isinstance(each, dict):
        return each
    raise members.wrong(f"requirements.{member}", each, "an array of objects")


def _scopes_of(provider: dict[str, Any]) -> list[str]:
    oauth2 = provider.get("oauth2")
    scopes = members.array(oauth2, "scopes", _OAUTH2) if isinstance(oauth2, dict) else []
    if not all(isinstance(scope, str) for scope in scopes):
        raise members.wrong(f"{_OAUTH2}scopes", scopes, "an array of text")
    return scopes


def _scopes(provider: dict[str, Any]) -> list[str]:
    scopes = _scopes_of(provider)
    # A provider that wants no particular scope is named by itself; the published schema lets it be nameless,
    # and then it is shown nowhere.
    if scopes or provider.get("id") is None:
        return scopes
    return [members.name(provider, "id", "requirements.authorization.")]
