"""ACP, the Agent Connect Protocol of AGNTCY (0.2): agents that are searched, described and run.

https://github.com/agntcy/acp-spec

An agent is one tool here. There is no list but a search, which some servers answer only by name or
version and whose offset some ignore; docs/protocols.md says what is done about either.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from msgspec import structs

from core import strict_json
from core.canonical_json import canonical, digest
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    UnavailableError,
    printable,
)
from core.schema import audience
from protocols import members
from protocols import parameters as json_schema
from protocols.acp import manifest as acp_manifest
from protocols.acp import runs as acp_runs
from protocols.acp import threads as acp_threads
from protocols.acp.search import AgentSearch, agent_id_of, name_of_entry
from protocols.base import (
    UUID,
    Item,
    KnownPages,
    Note,
    Outcome,
    Page,
    Protocol,
    Rejected,
    Session,
    Setting,
    ThreadState,
    UnreadableItemError,
    WantedCredential,
)
from protocols.calls import arguments as judged
from protocols.signature import Parameter, Signature

MAX_VERSION_LENGTH = 100
MAX_NAMES = 200
MAX_SHOWN = 10
MAX_FACT_LENGTH = 300
# What stands for the description of a configuration that has none.
CONFIG = "How the agent is to work in this run."
NO_CONFIG = {"type": "object", "properties": {}, "additionalProperties": False}
# A server that fails so often in a row is away, and no longer a server with a bad agent or two.
MAX_UNAVAILABLE_IN_A_ROW = 5

_SEMVER = re.compile(r"v?([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})(?:[-+].*)?", re.DOTALL)
_NO_SHAPE = json_schema.Shape((), None)
# Values of any kind stand here, so that a null in them is one.
_VALUES = ("default", "const", "enum", "example", "examples")
# What an input is to the protocol, where the input's schema does not say it: in `Parameter.rest`.
_CONFIG = {"in": "config"}
_DESCRIPTION = {"ref", "description"}
_SCHEMAS = {"input", "output", "config", "thread_state", "custom_streaming_update"}
_INTERRUPT_SCHEMAS = {"interrupt_payload", "resume_payload"}
_WHOLE = {"in": "input"}


@dataclass(slots=True)
class _Outage:
    """How many descriptors in a row the server could not give, over all pages."""

    length: int = 0


class ACP(Protocol):
    name = "acp"
    label = "ACP (AGNTCY)"
    summary = "The vendor offers agents, each of which is run as one tool."
    url_hint = "The address before /agents, such as https://agents.example.com."
    fetches_alone = True
    content_members = frozenset({"metadata", "specs"})
    keeps_runs = True
    settings = (
        Setting(
            name="page_size",
            label="Agents per page",
            help="How many agents to ask for at a time.",
            kind="integer",
            default=100,
            minimum=1,
            maximum=1000,
        ),
        Setting(
            name="agent_names",
            label="Agent names",
            help="For a server that lists agents only by name or version.",
            kind="lines",
        ),
        Setting(
            name="agent_versions",
            label="Agent versions",
            help="For a server that lists agents only by name or version.",
            kind="lines",
        ),
        Setting(
            name="manifest_url",
            label="Manifest address",
            help="Where the agent's manifest is, if there is one. It says which credential is needed.",
        ),
    )

    def wanted_credential(self, session: Session) -> WantedCredential | None:
        # The first that can be entered by hand.
        wanted = acp_manifest.read(session, str(self.values["manifest_url"])).credentials
        return next((each for each in wanted if each.kind), None)

    def enumerate(self, session: Session, known: KnownPages) -> Iterator[Page]:
        # An unchanged search says nothing about the descriptors, so no page is recalled. A page is yielded
        # once it is known whether another one follows.
        manifest = acp_manifest.read(session, str(self.values["manifest_url"]))
        search = AgentSearch(session, self._queries_by_name(manifest), int(self.values["page_size"]))
        outage = _Outage()
        page: Page | None = None
        while True:
            try:
                entries = search.read_next()
            except ProtocolError:
                if page:
                    yield replace(page, next=search.position)
                raise
            if entries is None:
                break
            if page:
                yield replace(page, next=search.position)
            items, rejected = _described_agents(session, entries, outage)
            is_first = page is None
            page = Page(
                items,
                rejected,
                notes=manifest.notes if is_first else (),
                cursor="" if is_first else search.position,
            )
        yield replace(page or Page((), notes=manifest.notes), ending=search.ending)

    def _queries_by_name(self, manifest: acp_manifest.Manifest) -> list[dict[str, str]]:
        named = {member: self.values[f"agent_{member}s"] or () for member in ("name", "version")}
        queries = [{member: text} for member, texts in named.items() for text in texts]
        if not queries and manifest.name:
            queries = [{"name": manifest.name}]
        return queries[:MAX_NAMES]

    def read(self, document: dict[str, Any]) -> Signature:
        return _signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return _document(signature, label)

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        form = super().audience_form(document, read_at)
        if isinstance(metadata := form.get("metadata"), dict):
            form["metadata"] = {name: metadata[name] for name in metadata.keys() & _DESCRIPTION}
        if isinstance(specs := audience.without_extensions(form.get("specs")), dict):
            schemas = {name: specs[name] for name in specs.keys() & _SCHEMAS}
            form["specs"] = specs | {
                name: audience.canonical_schema(value, read_at, digest) for name, value in schemas.items()
            }
            if isinstance(interrupts := specs.get("interrupts"), list):
                form["specs"]["interrupts"] = [_interrupt_form(each, read_at) for each in interrupts]
        return form

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        return [Note(code, message) for code, message in _oddities(document, signature)]

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        return list(_facts(signature))

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        item = _described(session, tool_id, None)
        if label not in (None, item.label):
            raise ProtocolViolationError("WRONG_TOOL", "The vendor offers this agent in another version.")
        return item

    def versions(self, session: Session, tool_id: str) -> Iterator[Page]:
        return iter(())

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        return acp_runs.run(session, signature, _request(tool_id, signature, arguments), self._place)

    def start(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome | str:
        request = _request(tool_id, signature, arguments)
        if self.context.webhook and _can(signature, "callbacks"):
            request["webhook"] = self.context.webhook
        return acp_runs.start(session, signature, request, self._place)

    def find(self, session: Session) -> str | None:
        return acp_runs.find(session, session.mark, self._place)

    def look(self, session: Session, signature: Signature, run_id: str) -> Outcome | None:
        return acp_runs.look(session, signature, run_id, self._place)

    def stop(self, session: Session, run_id: str) -> None:
        acp_runs.stop(session, run_id, self._place)

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        return acp_runs.resume(session, signature, state, answers, self._place)

    @property
    def _place(self) -> acp_runs.Place:
        return acp_runs.Place(self.context.thread)

    def may_tell_partials(self, signature: Signature) -> bool:
        return acp_runs.streams(signature)

    def configuration(self, signature: Signature) -> Parameter | None:
        return _config(signature)

    def has_threads(self, signature: Signature) -> bool:
        return _can(signature, "threads")

    def create_thread(self, session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
        return acp_threads.create(session, thread_id, metadata)

    def thread_state(self, session: Session, signature: Signature, thread_id: str) -> ThreadState:
        return acp_threads.state(session, signature, thread_id)

    def thread_history(
        self, session: Session, signature: Signature, thread_id: str, limit: int, before: str = ""
    ) -> list[ThreadState]:
        return acp_threads.history(session, signature, thread_id, limit, before)

    def remove_thread(self, session: Session, thread_id: str) -> None:
        acp_threads.remove(session, thread_id)


def _can(signature: Signature, capability: str) -> bool:
    capabilities = ((signature.rest or {}).get("specs") or {}).get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(capability) is True


def _request(tool_id: str, signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = judged.given(signature, arguments)
    request: dict[str, Any] = {"agent_id": tool_id}
    if config := _config(signature):
        request["config"] = {"configurable": given.pop(config.name, {})}
    inputs = _own_inputs(signature)
    request["input"] = given.get(inputs[0].name) if _is_whole(inputs) else given
    return request


def _described_agents(
    session: Session, entries: Sequence[Any], outage: _Outage
) -> tuple[list[Item], list[Rejected]]:
    items: list[Item] = []
    rejected: list[Rejected] = []
    for number, entry in enumerate(entries, start=1):
        try:
            items.append(_described(session, agent_id_of(entry), entry))
            outage.length = 0
        except UnreadableItemError as error:
            rejected.append(Rejected(name_of_entry(entry, number), error.code, error.reason))
        except ProtocolError as error:
            outage.length += isinstance(error, UnavailableError)
            if outage.length >= MAX_UNAVAILABLE_IN_A_ROW:
                raise
            reason = f"Its descriptor cannot be read: {error.message}"
            rejected.append(Rejected(name_of_entry(entry, number), "NO_DESCRIPTOR", reason))
    return items, rejected


def _described(session: Session, agent_id: str, entry: dict[str, Any] | None) -> Item:
    # The agent by its descriptor.
    path = f"/agents/{quote(agent_id, safe='')}"
    document = strict_json.require_json(session.get(f"{path}/descriptor"))
    if not isinstance(document, dict):
        raise members.wrong("descriptor", document, "an object")
    # Some servers leave out of the descriptor what their search said; both together are the agent.
    if document.get("metadata") is None:
        entry = entry or strict_json.require_json(session.get(path))
        if isinstance(entry, dict):
            document = document | {"metadata": entry.get("metadata")}
    label = _label(document)
    content = members.content(document, "descriptor")
    numbers = _SEMVER.fullmatch(label)
    key = tuple(map(int, numbers.groups())) if numbers else ()
    odd = Note("NOT_A_UUID", f"The id {printable(agent_id, 60)} is not a UUID.")
    notes = () if UUID.fullmatch(agent_id) else (odd,)
    return Item(agent_id, label, key, hashlib.sha256(content).hexdigest(), document, notes)


def _object(raw: Mapping[str, Any], member: str, where: str = "") -> dict[str, Any]:
    value = raw.get(member)
    if isinstance(value, dict):
        return value
    raise members.wrong(where + member, value, "an object")


def _label(document: Mapping[str, Any]) -> str:
    version = _object(_object(document, "metadata"), "ref", "metadata.").get("version")
    if version is None or (isinstance(version, str) and len(version) <= MAX_VERSION_LENGTH):
        return version or ""
    wanted = f"text of at most {MAX_VERSION_LENGTH} characters"
    raise members.wrong("metadata.ref.version", version, wanted, code="BAD_VERSION")


def _interrupt_form(interrupt: Any, read_at: datetime | None) -> Any:
    form = audience.without_extensions(interrupt)
    if not isinstance(form, dict):
        return form
    schemas = {name: form[name] for name in form.keys() & _INTERRUPT_SCHEMAS}
    return form | {name: audience.canonical_schema(value, read_at, digest) for name, value in schemas.items()}


def _signature(document: dict[str, Any]) -> Signature:
    metadata, specs = _object(document, "metadata"), _object(document, "specs")
    ref = _object(metadata, "ref", "metadata.")
    taken, given = _shape(specs, "input"), _shape(specs, "output")
    config = _config_inputs(specs, taken.parameters)
    read = Signature(
        name=members.name(ref, "name", "metadata.ref.", code="BAD_NAME"),
        description=members.text(metadata, "description", "metadata."),
        kind="agent",
        inputs=(*_beside(config, taken.parameters), *config),
        outputs=given.parameters,
        schema_rest=taken.rest,
        outputs_rest=given.rest,
    )
    return structs.replace(read, rest=_rest(document, read) or None)


def _shape(specs: Mapping[str, Any], member: str) -> json_schema.Shape:
    schema = specs.get(member)
    if schema is None:
        return _NO_SHAPE
    clean = _clean(schema, f"specs.{member}")
    if isinstance(schema, dict) and "properties" in schema and schema["properties"] is None:
        # The protocol's own examples have a null for the properties, with them beside it. It is unknown what
        # that means, so such a schema is one parameter that stands for the whole.
        whole = Parameter(
            id=member, name=member, type="json", required=True, description="", schema=clean, is_whole=True
        )
        return json_schema.Shape((whole,), None)
    return json_schema.read(clean, f"specs.{member}", whole_name=member)


def _clean(schema: Any, where: str) -> Any:
    # Servers send null for members that are absent.
    json_schema.check(schema, where)
    return _without_nulls(schema)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        member: each if member in _VALUES else _without_nulls(each)
        for member, each in value.items()
        if each is not None or member in _VALUES
    }


def _config_inputs(specs: Mapping[str, Any], inputs: Sequence[Parameter]) -> tuple[Parameter, ...]:
    # What a designer may set for a run, as one more input.
    if specs.get("config") is None:
        return ()
    schema = _clean(specs["config"], "specs.config")
    # The protocol wants this member. An object that holds nothing offers nothing to set.
    if schema == NO_CONFIG:
        return ()
    if not isinstance(schema, dict | bool):
        raise members.wrong("specs.config", schema, "a JSON Schema", code="BAD_SCHEMA")
    taken = {parameter.name for parameter in inputs}
    # A name that no input of the agent has. `rest` tells it from these.
    names = ("config", "agent_config", *(f"agent_config_{n}" for n in range(2, len(taken) + 3)))
    name = next(name for name in names if name not in taken)
    said = schema.get("description") if isinstance(schema, dict) else None
    config = Parameter(
        id=name,
        name=name,
        type="json",
        required=False,
        description=members.text({"description": said}, "description") if isinstance(said, str) else CONFIG,
        schema=schema,
        rest=_CONFIG,
    )
    return (config,)


def _beside(config: Sequence[Parameter], inputs: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    # An input that is the whole value is a member like any other once there is something beside it.
    if config and len(inputs) == 1 and inputs[0].is_whole:
        return (structs.replace(inputs[0], is_whole=False, rest=_WHOLE),)
    return inputs


def _is_whole(inputs: Sequence[Parameter]) -> bool:
    return len(inputs) == 1 and (inputs[0].is_whole or inputs[0].rest == _WHOLE)


def _config(signature: Signature) -> Parameter | None:
    return next((parameter for parameter in signature.inputs if parameter.rest == _CONFIG), None)


def _own_inputs(signature: Signature) -> tuple[Parameter, ...]:
    return tuple(parameter for parameter in signature.inputs if parameter.rest != _CONFIG)


def _document(signature: Signature, label: str) -> dict[str, Any]:
    rest = signature.rest or {}
    metadata, specs = rest.get("metadata", {}), rest.get("specs", {})
    ref: dict[str, Any] = {"name": signature.name, **({"version": label} if label else {})}
    described = {"description": signature.description} if signature.description else {}
    inputs, config = _own_inputs(signature), _config(signature)
    written: dict[str, Any] = {}
    if _is_whole(inputs):
        written["input"] = json_schema.write_parameter(inputs[0])
    elif inputs or signature.schema_rest is not None:
        written["input"] = json_schema.write(inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        written["output"] = json_schema.write(signature.outputs, signature.outputs_rest)
    if config:
        written["config"] = config.schema
    return {
        **rest,
        "metadata": {**described, **metadata, "ref": ref | metadata.get("ref", {})},
        "specs": {**written, **specs},
    }


def _rest(document: dict[str, Any], read: Signature) -> dict[str, Any]:
    # What `_document` would not write by itself: capabilities, interrupts, the state of threads, ...
    written = _document(read, _label(document))
    metadata = _beyond(document["metadata"], written["metadata"])
    if "ref" in metadata:
        metadata["ref"] = _beyond(document["metadata"]["ref"], written["metadata"]["ref"])
    parts = {"metadata": metadata, "specs": _beyond(document["specs"], written["specs"])}
    return _beyond(document, written) | {member: part for member, part in parts.items() if part}


def _beyond(document: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    return {
        member: value
        for member, value in document.items()
        if member not in written or canonical(written[member]) != canonical(value)
    }


def _oddities(document: dict[str, Any], signature: Signature) -> Iterator[tuple[str, str]]:
    agent = f"“{printable(signature.name, 60)}”"
    if not _label(document):
        yield "NO_VERSION", f"{agent} names no version; its content alone tells one from the next."
    for member in ("input", "output", "config"):
        schema = document["specs"].get(member)
        if isinstance(schema, dict) and "properties" in schema and schema["properties"] is None:
            yield "NO_PROPERTIES", f"The {member} of {agent} has “properties” that are null."


def _facts(signature: Signature) -> Iterator[tuple[str, str]]:
    specs = (signature.rest or {}).get("specs") or {}
    said = specs.get("capabilities")
    capabilities: dict[str, Any] = said if isinstance(said, dict) else {}
    yield "Threads", "Runs can share one" if capabilities.get("threads") is True else "None"
    modes = capabilities.get("streaming")
    streamed = [mode for mode, is_on in modes.items() if is_on is True] if isinstance(modes, dict) else []
    yield "Streaming", ", ".join(streamed[:MAX_SHOWN]) or "None"
    yield (
        "Callbacks",
        "Taken as a hint that a run has ended" if capabilities.get("callbacks") is True else "None",
    )
    for name, interrupt in list(acp_runs.declared(signature).items())[:MAX_SHOWN]:
        answer = interrupt.get("resume_payload")
        properties = answer.get("properties") if isinstance(answer, dict) else None
        wanted = ", ".join(list(properties)[:MAX_SHOWN]) if isinstance(properties, dict) else ""
        yield "May ask for", printable(f"{name} ({wanted})" if wanted else name, MAX_FACT_LENGTH)
