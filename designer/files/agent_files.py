"""An agent as a file, for import into another installation.

The file contains the agent's tools by their vendors' addresses and ids, the tuned texts, the procedures with
the names that models see, and the sub-agents.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from django.db import transaction

import protocols
from catalog.models import Endpoint, Tool, Vendor
from catalog.models.tools import ToolStatus
from catalog.rules import retries
from catalog.tools import definitions, versions
from core import strict_json
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from core.query_deadline import long_transaction
from designer.agents import agent_budgets, agent_vendors, agents, transfers
from designer.models import Agent, Pin, Procedure, Transfer
from designer.models.budgets import MAX_TOKENS
from designer.models.pins import PinMode
from designer.models.rehearsals import MAX_SENTENCES
from designer.pins import masking, pinned_signatures, pins, tunings
from designer.procedures import editing, references, vocabulary
from designer.rehearsals import plans
from designer.signatures import model_names
from designer.signatures.words import NOTHING, Words, merge_words
from people.models import Team, User
from protocols import definition
from protocols.list_pages import UnreadableItemError

SCHEMA = "pegboard.agent/1"
# Each string of the file has its own limit, or a single one could fill it.
MAX_BYTES = 900_000  # a REST body has at most 1 MB
MAX_AGENTS = 50
# More than any real agent has. The import creates each pin with its audit row in one transaction.
MAX_PINS = 1_000
MAX_VENDORS = 1_000
MAX_ENDPOINTS = 100
MAX_QUOTE_LENGTH = 80
CODES = (
    "vendor_missing",
    "endpoint_missing",
    "tool_missing",
    "version_missing",
    "tool_refused",
    "words_refused",
    "preset_masked",
)

Text = Annotated[str, msgspec.Meta(max_length=60_000)]
Line = Annotated[str, msgspec.Meta(max_length=2_048)]


class FiledRetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The stated members of a retry policy. The others are inherited."""

    retry: retries.When | None = None
    give_up_after_seconds: Annotated[int, msgspec.Meta(ge=1, le=retries.MAX_GIVE_UP_SECONDS)] | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1, le=retries.MAX_ATTEMPTS)] | None = None


NO_RETRY = FiledRetry()


class FiledPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pinned tool.

    name: the name that a model sees.
    digest: the digest of the vendor's text of the version.
    definition: the definition of a tool that is defined in Pegboard; no vendor has it, so the file contains
        it.
    """

    name: Line
    vendor: Line
    endpoint: Line
    protocol: Line
    tool_id: Line
    version: Line
    digest: Line
    tuning: Words = NOTHING
    retry: FiledRetry = NO_RETRY
    mode: Literal["cached", "fresh"] = "cached"
    # Omitted for a vendor's tool, so that files without definitions stay unchanged.
    definition: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class FiledProcedure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: Line
    slug: Line
    body: Text


class FiledTransfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The transfer from the parent to this agent. Empty values mean the defaults."""

    name: Line = ""
    description: Text = ""


class FiledLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token limit of the agent. `stops`: an agent above it cannot be published."""

    tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    stops: bool = False


class FiledGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule by which tests decide about publishing."""

    gate: Literal["off", "warn", "refuse"]
    at_least: Annotated[int, msgspec.Meta(ge=1, le=MAX_SENTENCES)] | None = None
    on_flips: bool = True


class FiledVendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor that the agent may use, identified by its endpoints' addresses."""

    vendor: Line
    endpoints: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_ENDPOINTS)]


class FiledAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent in a file.

    parent: the slug of an earlier agent in the file; only the first agent has none.
    vendors: the vendors that the agent may use, None for all.
    """

    slug: Line
    name: Line
    description: Text
    parent: Line | None
    transfer: FiledTransfer = FiledTransfer()
    token_limit: FiledLimit | None = None
    # Omitted for the default, so that files without tests stay unchanged.
    rehearsal_gate: FiledGate | msgspec.UnsetType = msgspec.UNSET
    retry: FiledRetry = NO_RETRY
    vendors: Annotated[tuple[FiledVendor, ...], msgspec.Meta(max_length=MAX_VENDORS)] | None = None
    pins: Annotated[tuple[FiledPin, ...], msgspec.Meta(max_length=MAX_PINS)]
    procedures: Annotated[tuple[FiledProcedure, ...], msgspec.Meta(max_length=editing.MAX_PROCEDURES)]


class AgentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    agents: Annotated[tuple[FiledAgent, ...], msgspec.Meta(min_length=1, max_length=MAX_AGENTS)]


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A part of the file that this installation lacks. `agent` and `name` are those in the file."""

    code: str
    agent: str
    name: str
    message: str


@dataclass(slots=True)
class ImportResult:
    """The result of an import. agents: the new agents by their slugs in the file. A dry run removes them
    again.
    """

    agents: dict[str, Agent] = field(default_factory=dict)
    missing: list[MissingPart] = field(default_factory=list)
    pins: int = 0
    procedures: int = 0


def write_file(agent: Agent) -> dict[str, Any]:
    """Return the file of an agent.

    It contains the tuned texts for all agents and the vendor limits of the agents above, because another
    installation has its own.
    """
    agent_entries = [_file_agent(member, is_first=member == agent) for member in _with_all_below(agent)]
    document: dict[str, Any] = msgspec.to_builtins(AgentFile(schema=SCHEMA, agents=tuple(agent_entries)))
    return document


def _with_all_below(agent: Agent) -> Iterator[Agent]:
    yield agent
    # The import creates agents in this order: a parent before its sub-agents.
    for child in agent.children.live().select_related("parent", "transfer").order_by("name", "pk"):
        yield from _with_all_below(child)


def _file_agent(agent: Agent, *, is_first: bool) -> FiledAgent:
    transfer = FiledTransfer()
    if not is_first and hasattr(agent, "transfer"):
        transfer = FiledTransfer(name=agent.transfer.alias, description=agent.transfer.description)
    limit, allowed = agent_budgets.limit_of(agent), agent_vendors.allowed_vendors_of(agent).vendors
    if not is_first and not agent.limits_vendors:
        allowed = None  # The agents above it, which the file contains, set the limit.
    plan = plans.plan_of(agent)
    rules = {"gate": plan.gate, "at_least": plan.at_least, "on_flips": plan.on_flips}
    gate = msgspec.convert(rules, FiledGate)
    procedures = list(Procedure.objects.live().filter(agent=agent))
    names = vocabulary.vocabulary_of(agent, texts=[procedure.text for procedure in procedures])
    return FiledAgent(
        slug=agent.slug,
        name=agent.name,
        description=agent.description,
        parent=None if is_first or agent.parent is None else agent.parent.slug,
        transfer=transfer,
        token_limit=FiledLimit(tokens=limit.tokens, stops=limit.stops) if limit else None,
        rehearsal_gate=msgspec.UNSET if gate == FiledGate(gate="warn") else gate,
        retry=msgspec.convert(agent.retry, FiledRetry),
        vendors=None if allowed is None else tuple(map(_file_vendor, allowed.values())),
        pins=tuple(map(_file_pin, pinned_signatures.pinned_items([agent]))),
        procedures=tuple(
            FiledProcedure(
                title=procedure.title,
                slug=procedure.slug,
                body=references.display_text(references.parse(procedure.text, names)),
            )
            for procedure in procedures
        ),
    )


def _file_vendor(vendor: Vendor) -> FiledVendor:
    urls = Endpoint.objects.live().filter(vendor=vendor).order_by("pk").values_list("url", flat=True)
    return FiledVendor(vendor=vendor.slug, endpoints=tuple(dict.fromkeys(urls))[:MAX_ENDPOINTS])


def _file_pin(pin: Pin) -> FiledPin:
    endpoint = pin.tool.endpoint
    return FiledPin(
        name=pin.name,
        vendor=endpoint.vendor.slug,
        endpoint=endpoint.url,
        protocol=endpoint.protocol,
        tool_id=pin.tool.tool_id,
        version=pin.version.label,
        # The import finds the version by its digest; one label may mean different texts in two installations.
        digest=pin.version.digest,
        # All layers are merged, because another installation has its own texts and configurations.
        tuning=masking.masked_words(
            pin.tool_id,
            merge_words(pinned_signatures.words_about(pin.tool), pinned_signatures.agent_words(pin)),
        ),
        retry=msgspec.convert(pin.retry, FiledRetry),
        mode="fresh" if pin.mode == PinMode.FRESH else "cached",
        definition=endpoint.build_protocol().write(pin.version.decoded(), pin.tool.tool_id, pin.version.label)
        if endpoint.vendor.is_own
        else msgspec.UNSET,
    )


def read_file(body: bytes) -> AgentFile:
    """Parse a file. Raises DomainError if it is not the file of an agent."""
    if len(body) > MAX_BYTES:
        raise _invalid_file(
            "too_large", f"The file has {len(body):,} bytes; at most {MAX_BYTES:,} are allowed."
        )
    try:
        return parse_file(strict_json.loads(body))
    except ProtocolViolationError as error:
        message = str(error).replace("The reply", "The file")
        raise _invalid_file("not_json", f"This is not the file of an agent: {message}") from None


def parse_file(document: Any) -> AgentFile:
    if len(canonical(document)) > MAX_BYTES:
        raise _invalid_file("too_large", f"The file is too large: at most {MAX_BYTES:,} bytes are allowed.")
    if problem := strict_json.unstorable(document):
        raise _invalid_file("not_an_agent", f"The file contains {problem[1]}.")
    try:
        agent_file = msgspec.convert(document, AgentFile)
    except msgspec.ValidationError as error:
        problem_text, _, pointer = str(error).partition(" - at ")
        position = f" at {printable(pointer.strip('`$. '), MAX_QUOTE_LENGTH)}" if pointer else ""
        raise _invalid_file(
            "not_an_agent", f"This is not the file of an agent{position}: {printable(problem_text, 200)}."
        ) from None
    if agent_file.schema != SCHEMA:
        schema = printable(agent_file.schema, MAX_QUOTE_LENGTH)
        message = f"“{schema}” is another file format; this Pegboard reads {SCHEMA}."
        raise _invalid_file("not_an_agent", message)
    # Parents come before their sub-agents, so that one pass creates the tree.
    known_slugs: set[str | None] = {None}
    for number, entry in enumerate(agent_file.agents):
        is_root = entry.parent is None
        if entry.parent not in known_slugs or is_root != (number == 0) or entry.slug in known_slugs:
            message = (
                f"“{printable(entry.slug, MAX_QUOTE_LENGTH)}” does not fit into the file's tree: the first "
                "agent has no parent, each other agent has a parent before it, and slugs are unique."
            )
            raise _invalid_file("not_an_agent", message)
        known_slugs.add(entry.slug)
    return agent_file


def _invalid_file(code: str, message: str) -> DomainError:
    return DomainError(code, message, fields={"file": message})


def import_file(
    agent_file: AgentFile,
    *,
    actor: User,
    team: Team | None = None,
    is_dry_run: bool,
    accept_missing: bool = False,
) -> ImportResult:
    """Create the agents of the file, all or none. A dry run does the same and rolls it back, so that it finds
    everything that is missing.

    Raises DomainError (`import_incomplete`) if something is missing, unless that is accepted: then missing
    tools are left out, and other versions replace missing ones.
    """
    result = ImportResult()
    steps = _Import(actor, result)
    with long_transaction():
        transfers.lock_tree()
        # All agents come before any content: transfers and procedures may name agents that come later in the
        # file.
        for entry in agent_file.agents:
            result.agents[entry.slug] = steps.create_agent(entry, team)
        for entry in agent_file.agents:
            steps.fill_agent(result.agents[entry.slug], entry)
        # The import itself finds what is missing: each step depends on those before it.
        if is_dry_run:
            transaction.set_rollback(True)
        elif result.missing and not accept_missing:
            first = " ".join(part.message for part in result.missing[:3])
            more = f" And {len(result.missing) - 3} more." if len(result.missing) > 3 else ""
            message = (
                f"{first}{more} Nothing was imported. Add what is missing, or accept to import without it."
            )
            raise DomainError("import_incomplete", message, status=409)
    return result


@dataclass(frozen=True)
class _Import:
    """The steps of an import. Each adds to the result."""

    actor: User
    result: ImportResult

    def create_agent(self, entry: FiledAgent, team: Team | None) -> Agent:
        parent = None if entry.parent is None else self.result.agents[entry.parent]
        facts: dict[str, Any] = {
            "name": entry.name,
            "description": entry.description,
            "parent": parent,
            "team": None if parent else team,
            "retry": msgspec.to_builtins(entry.retry),
            "vendors": None if entry.vendors is None else self.find_vendors(entry, entry.vendors),
        }
        try:
            return agents.create_agent(actor=self.actor, slug=entry.slug, **facts)
        except DomainError as error:
            if "slug" not in error.fields:
                raise
            # The address is in use or reserved here, so it is derived from the name.
            return agents.create_agent(actor=self.actor, **facts)

    def find_vendors(self, entry: FiledAgent, vendor_entries: Iterable[FiledVendor]) -> list[Vendor]:
        """Return the vendors with one of these addresses, all of them if several share it."""
        vendors: dict[int, Vendor] = {}
        for vendor_entry in vendor_entries:
            urls = [spelling for url in vendor_entry.endpoints for spelling in _spellings_of(url)]
            rows = (
                Vendor.objects.live().filter(endpoints__url__in=urls, endpoints__removed_at=None).distinct()
            )
            if not rows:
                name = printable(vendor_entry.vendor, MAX_QUOTE_LENGTH)
                agent_name = printable(entry.name, MAX_QUOTE_LENGTH)
                message = f"“{agent_name}” may use “{name}”, and no vendor here has its address."
                self.result.missing.append(MissingPart("vendor_missing", entry.slug, name, message))
            vendors |= {row.pk: row for row in rows}
        return list(vendors.values())

    def fill_agent(self, agent: Agent, entry: FiledAgent) -> None:
        # Transfers come first: their names take precedence over those of pins, and procedures refer to them.
        texts = entry.transfer
        if agent.parent and (texts.name or texts.description):
            transfer = Transfer.objects.get(child=agent)
            transfers.word_transfer(
                transfer, actor=self.actor, name=texts.name, description=texts.description
            )
        if limit := entry.token_limit:
            agent_budgets.set_limit(agent, actor=self.actor, limit=limit.tokens, stops=limit.stops)
        if rule := entry.rehearsal_gate:
            plans.set_gate(
                agent, actor=self.actor, gate=rule.gate, at_least=rule.at_least, on_flips=rule.on_flips
            )
        for pin_entry in entry.pins:
            self.result.missing += (
                MissingPart(code, entry.slug, pin_entry.name, message)
                for code, message in self.pin_tool(agent, pin_entry)
            )
        self.result.pins += agent.pins.live().count()
        for procedure in entry.procedures:
            facts = {"title": procedure.title, "body": procedure.body}
            editing.create_procedure(agent, actor=self.actor, slug=procedure.slug, **facts)
            self.result.procedures += 1

    def pin_tool(self, agent: Agent, entry: FiledPin) -> Iterator[tuple[str, str]]:
        """Pin the tool if this installation has it. Yield a code and a message for each difference from the
        file.
        """
        name = printable(entry.name, MAX_QUOTE_LENGTH)
        try:
            tool = self.define_tool(entry) if entry.protocol == protocols.OWN.name else self.find_tool(entry)
        except DomainError as error:
            yield error.code, error.message
            return
        # A version with the same text is the same version, whatever its label is here.
        version = tool.versions.filter(digest=entry.digest).order_by("-ordinal").first()
        if version is None:
            version = versions.find_version(tool, version=entry.version) or tool.current
            replacement = f"“{version.name}”" if version else "none"
            file_version = printable(entry.version, 60)
            message = (
                f"“{name}” has no version here with the text of “{file_version}”; it gets {replacement}."
            )
            yield "version_missing", message
        # The pin gets the name that the procedures use. A vendor's name continues to follow the vendor.
        is_vendors = version is not None and model_names.derive(version.decoded().name) == entry.name
        try:
            pin = pins.pin_tool(
                agent,
                actor=self.actor,
                tool=tool,
                ordinal=version.ordinal if version else None,
                alias="" if is_vendors else entry.name,
                retry=msgspec.to_builtins(entry.retry),
                mode=PinMode(entry.mode),
            )
        except DomainError as error:
            yield "tool_refused", f"“{name}”: {error.message}"
            return
        # After the pin: tuned texts that do not fit are left out, and the pin remains.
        tuning, masked_inputs = masking.without_masks(entry.tuning)
        for masked_input in masked_inputs:
            input_name = printable(masked_input, MAX_QUOTE_LENGTH)
            message = f"The preset of “{input_name}” of “{name}” is masked in the file. Enter it here."
            yield "preset_masked", message
        if tuning != NOTHING:
            try:
                tunings.tune(pin, actor=self.actor, **msgspec.to_builtins(tuning))
            except DomainError as error:
                message = (
                    f"The tuned text of “{name}” does not fit, so the vendor's text applies: {error.message}"
                )
                yield "words_refused", message

    def define_tool(self, entry: FiledPin) -> Tool:
        """Return the tool with this id, one with the same name, or a new tool from the file's definition."""
        rows = definitions.all_of_them().select_related("current", "endpoint__vendor")
        if tool := rows.filter(tool_id=entry.tool_id).first():
            return tool
        try:
            if entry.definition is msgspec.UNSET:
                raise UnreadableItemError("SHAPE", "The file does not contain its definition.")
            parts = definition.parts_of(entry.definition)
            tool = rows.filter(name=parts.name, status=ToolStatus.ACTIVE).first()
            return tool or definitions.define(actor=self.actor, parts=parts)
        except (DomainError, UnreadableItemError) as error:
            name = printable(entry.name, MAX_QUOTE_LENGTH)
            message = f"“{name}” is defined in another Pegboard and cannot be defined here: {error}"
            raise DomainError("tool_missing", message) from None

    @staticmethod
    def find_tool(entry: FiledPin) -> Tool:
        """Return the vendor's tool. Raises DomainError if this installation lacks its endpoint or itself."""
        name, address = printable(entry.name, MAX_QUOTE_LENGTH), printable(entry.endpoint, 200)
        endpoints = Endpoint.objects.live().filter(
            url__in=_spellings_of(entry.endpoint), protocol=entry.protocol
        )
        if not endpoints.exists():
            message = f"“{name}” is a tool at {address}, which no vendor here has."
            raise DomainError("endpoint_missing", message)
        tools = Tool.objects.filter(endpoint__in=endpoints, tool_id=entry.tool_id)
        # If several vendors have the address: an active tool first, then the vendor with the same slug.
        candidates = sorted(
            tools.select_related("current", "endpoint__vendor").order_by("pk"),
            key=lambda tool: (tool.status != ToolStatus.ACTIVE, tool.endpoint.vendor.slug != entry.vendor),
        )
        if not candidates:
            tool_id = printable(entry.tool_id, MAX_QUOTE_LENGTH)
            raise DomainError("tool_missing", f"The vendor at {address} has no tool “{tool_id}”.")
        return candidates[0]


def _spellings_of(url: str) -> list[str]:
    # Vendors treat addresses with and without a trailing slash alike.
    return [url, f"{url}/", url.removesuffix("/")]
