"""An agent as a file, to carry it from one installation to another: its tools by their vendors' addresses and
ids, our words, its procedures by the names that are shown, and its sub-agents.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from django.db import transaction

import protocols
from catalog.models import Endpoint, Tool, ToolVersion, Vendor
from catalog.models.tools import ToolStatus
from catalog.rules import retries
from catalog.tools import definitions, versions
from core import strict_json
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from core.query_deadline import long_transaction
from designer import agent_budgets, agent_vendors, agents, pinned_signatures, pins, transfers, tunings
from designer.models import Agent, Pin, Procedure, Transfer
from designer.models.pins import PinMode
from designer.procedures import editing, references, vocabulary
from designer.rehearsals import plans, sentences
from designer.signatures import model_names
from designer.signatures.words import NOTHING, Words, merged
from people.models import Team, User
from protocols import definition
from protocols.base import UnreadableItemError

SCHEMA = "pegboard.agent/1"
# Strings of the file are bounded one by one as well, or a single one could be all of it.
MAX_BYTES = 900_000  # a body of REST has at most 1 MB
MAX_AGENTS = 50
# More than any real agent has; the import makes each with its audit row, in one transaction.
MAX_PINS = 1_000
MAX_VENDORS = 1_000
MAX_ENDPOINTS = 100
SHOWN = 80
CODES = (
    "vendor_missing",
    "endpoint_missing",
    "tool_missing",
    "version_missing",
    "tool_refused",
    "words_refused",
)

Text = Annotated[str, msgspec.Meta(max_length=60_000)]
Line = Annotated[str, msgspec.Meta(max_length=2_048)]


class FiledRetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is stated of a retry policy; the rest is another place's to say."""

    retry: retries.When | None = None
    give_up_after_seconds: Annotated[int, msgspec.Meta(ge=1, le=retries.MAX_GIVE_UP_SECONDS)] | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1, le=retries.MAX_ATTEMPTS)] | None = None


NO_RETRY = FiledRetry()


class FiledPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name` is the one that a model is shown; `digest` is that of the vendor's own text of the version.

    `definition` is the whole form of a tool that is defined here, which goes along because no vendor has it.
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
    # Left out for a vendor's tool, so that files are as they were before there were definitions.
    definition: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class FiledProcedure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: Line
    slug: Line
    body: Text


class FiledTransfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the parent hands over; empty is the default."""

    name: Line = ""
    description: Text = ""


class FiledLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many tokens its tools and procedures may take; more than that may stop publishing."""

    tokens: Annotated[int, msgspec.Meta(ge=1, le=agent_budgets.MAX_TOKENS)]
    stops: bool = False


class FiledGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rehearsals mean for publishing."""

    gate: Literal["off", "warn", "refuse"]
    at_least: Annotated[int, msgspec.Meta(ge=1, le=sentences.MAX_SENTENCES)] | None = None
    on_flips: bool = True


class FiledVendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor that the agent may use, by the addresses of its endpoints."""

    vendor: Line
    endpoints: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_ENDPOINTS)]


class FiledAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`parent` is the slug of an agent before this one in the file; the first has none. `vendors` are those
    that it may use, None for all."""

    slug: Line
    name: Line
    description: Text
    parent: Line | None
    transfer: FiledTransfer = FiledTransfer()
    token_limit: FiledLimit | None = None
    # Left out where nothing was said, so that files are as they were before there were rehearsals.
    rehearsal_gate: FiledGate | msgspec.UnsetType = msgspec.UNSET
    retry: FiledRetry = NO_RETRY
    vendors: Annotated[tuple[FiledVendor, ...], msgspec.Meta(max_length=MAX_VENDORS)] | None = None
    pins: Annotated[tuple[FiledPin, ...], msgspec.Meta(max_length=MAX_PINS)]
    procedures: Annotated[tuple[FiledProcedure, ...], msgspec.Meta(max_length=editing.MAX_PROCEDURES)]


class AgentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    agents: Annotated[tuple[FiledAgent, ...], msgspec.Meta(min_length=1, max_length=MAX_AGENTS)]


@dataclass(frozen=True, slots=True)
class Missing:
    """What the file names and is not here as it says. `agent` and `name` are the file's."""

    code: str
    agent: str
    name: str
    message: str


@dataclass(slots=True)
class Imported:
    """`agents` are the new ones, by the file's slugs; after a dry run they are not there."""

    agents: dict[str, Agent] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    pins: int = 0
    procedures: int = 0


def write(agent: Agent) -> dict[str, Any]:
    """Words for all agents go along with the agent's own, because another installation has its own; so does
    what the agents above it say about vendors.
    """
    filed = [_filed(each, is_first=each == agent) for each in _with_all_below(agent)]
    written: dict[str, Any] = msgspec.to_builtins(AgentFile(schema=SCHEMA, agents=tuple(filed)))
    return written


def _with_all_below(agent: Agent) -> Iterator[Agent]:
    yield agent
    # In this order also the reader makes them: an agent after its parent.
    for child in agent.children.live().select_related("parent", "transfer").order_by("name", "pk"):
        yield from _with_all_below(child)


def _filed(agent: Agent, *, is_first: bool) -> FiledAgent:
    transfer = FiledTransfer()
    if not is_first and hasattr(agent, "transfer"):
        transfer = FiledTransfer(name=agent.transfer.alias, description=agent.transfer.description)
    limit, allowed = agent_budgets.limit_of(agent), agent_vendors.of(agent).vendors
    if not is_first and not agent.limits_vendors:
        allowed = None  # the agents above it, which are in the file, say it
    found = list(Procedure.objects.live().filter(agent=agent))
    known = vocabulary.of_agent(agent, texts=[each.text for each in found])
    return FiledAgent(
        slug=agent.slug,
        name=agent.name,
        description=agent.description,
        parent=None if is_first or agent.parent is None else agent.parent.slug,
        transfer=transfer,
        token_limit=FiledLimit(tokens=limit.tokens, stops=limit.stops) if limit else None,
        rehearsal_gate=_filed_gate(agent),
        retry=msgspec.convert(agent.retry, FiledRetry),
        vendors=None if allowed is None else tuple(_filed_vendor(vendor) for vendor in allowed.values()),
        pins=tuple(_filed_pin(pin) for pin in pinned_signatures.pinned_items([agent])),
        procedures=tuple(
            FiledProcedure(
                title=each.title,
                slug=each.slug,
                body=references.shown(references.parse(each.text, known)),
            )
            for each in found
        ),
    )


def _filed_gate(agent: Agent) -> FiledGate | msgspec.UnsetType:
    row = plans.of(agent)
    rules = {"gate": row.gate, "at_least": row.at_least, "on_flips": row.on_flips}
    said = msgspec.convert(rules, FiledGate)
    return msgspec.UNSET if said == FiledGate(gate="warn") else said


def _filed_vendor(vendor: Vendor) -> FiledVendor:
    urls = Endpoint.objects.live().filter(vendor=vendor).order_by("pk").values_list("url", flat=True)
    return FiledVendor(vendor=vendor.slug, endpoints=tuple(dict.fromkeys(urls))[:MAX_ENDPOINTS])


def _filed_pin(pin: Pin) -> FiledPin:
    endpoint = pin.tool.endpoint
    return FiledPin(
        name=pin.name,
        vendor=endpoint.vendor.slug,
        endpoint=endpoint.url,
        protocol=endpoint.protocol,
        tool_id=pin.tool.tool_id,
        version=pin.version.label,
        # By this it is found again; labels of two installations may mean different texts.
        digest=pin.version.digest,
        # All layers in one, because words for all agents and configurations are another installation's own.
        tuning=merged(pinned_signatures.words_about(pin.tool), pinned_signatures.agents_words(pin)),
        retry=msgspec.convert(pin.retry, FiledRetry),
        mode="fresh" if pin.mode == PinMode.FRESH else "cached",
        definition=endpoint.speak().write(pin.version.decoded(), pin.tool.tool_id, pin.version.label)
        if endpoint.vendor.is_own
        else msgspec.UNSET,
    )


def read(body: bytes) -> AgentFile:
    """Raises DomainError for what is no such file."""
    if len(body) > MAX_BYTES:
        raise _no_file("too_large", f"The file has {len(body):,} bytes; {MAX_BYTES:,} are the most.")
    try:
        return checked(strict_json.loads(body))
    except ProtocolViolationError as error:
        says = str(error).replace("The reply", "The file")
        raise _no_file("not_json", f"This is no file of an agent: {says}") from None


def checked(given: Any) -> AgentFile:
    if len(canonical(given)) > MAX_BYTES:
        raise _no_file("too_large", f"The file is too large: {MAX_BYTES:,} bytes are the most.")
    if found := strict_json.unstorable(given):
        raise _no_file("not_an_agent", f"The file holds {found[1]}.")
    try:
        filed = msgspec.convert(given, AgentFile)
    except msgspec.ValidationError as error:
        says, _, where = str(error).partition(" - at ")
        place = f" at {printable(where.strip('`$. '), SHOWN)}" if where else ""
        raise _no_file(
            "not_an_agent", f"This is no file of an agent{place}: {printable(says, 200)}."
        ) from None
    if filed.schema != SCHEMA:
        message = f"“{printable(filed.schema, SHOWN)}” is another form of file; this Pegboard reads {SCHEMA}."
        raise _no_file("not_an_agent", message)
    # Parents come before their children, so that one pass makes the tree.
    known: set[str | None] = {None}
    for number, each in enumerate(filed.agents):
        if each.parent not in known or (each.parent is None) != (number == 0) or each.slug in known:
            message = (
                f"“{printable(each.slug, SHOWN)}” has no place in the tree of the file: the first agent has "
                "no parent, each other one a parent before it, and no two have one short name."
            )
            raise _no_file("not_an_agent", message)
        known.add(each.slug)
    return filed


def _no_file(code: str, message: str) -> DomainError:
    return DomainError(code, message, fields={"file": message})


def bring_in(
    filed: AgentFile, *, actor: User, team: Team | None = None, is_dry_run: bool, accept_missing: bool = False
) -> Imported:
    """Makes the agents of the file, all of them or none. A dry run does the same and takes it back, so it
    knows of everything that would be missing.

    Raises DomainError (`import_incomplete`) where something is missing, unless that is accepted: then tools
    that are not here are left out, and other versions taken where the file's are not.
    """
    done = Imported()
    with long_transaction():
        transfers.lock_tree()
        # All agents before any content: transfers and procedures name agents that come later in the file.
        for each in filed.agents:
            done.agents[each.slug] = _made(each, done, actor, team)
        for each in filed.agents:
            _fill(done.agents[each.slug], each, done, actor)
        # Nothing else tells what would be missing: each step depends on those before it.
        if is_dry_run:
            transaction.set_rollback(True)
        elif done.missing and not accept_missing:
            first = " ".join(each.message for each in done.missing[:3])
            more = f" And {len(done.missing) - 3} more." if len(done.missing) > 3 else ""
            message = f"{first}{more} Nothing was made. Add what is missing, or accept to go without it."
            raise DomainError("import_incomplete", message, status=409)
    return done


def _made(filed: FiledAgent, done: Imported, actor: User, team: Team | None) -> Agent:
    parent = None if filed.parent is None else done.agents[filed.parent]
    facts: dict[str, Any] = {"name": filed.name, "description": filed.description, "parent": parent}
    facts["team"] = None if parent else team
    facts["retry"] = msgspec.to_builtins(filed.retry)
    facts["vendors"] = None if filed.vendors is None else _vendors(filed, filed.vendors, done)
    try:
        return agents.create_agent(actor=actor, slug=filed.slug, **facts)
    except DomainError as error:
        if "slug" not in error.fields:
            raise
        # The address is taken here, or none that we would give: one is made from the name.
        return agents.create_agent(actor=actor, **facts)


def _vendors(filed: FiledAgent, named: Iterable[FiledVendor], done: Imported) -> list[Vendor]:
    # Those that have one of the addresses here; of several at one address, all.
    found: dict[int, Vendor] = {}
    for each in named:
        spelled = [spelling for url in each.endpoints for spelling in _spellings(url)]
        rows = Vendor.objects.live().filter(endpoints__url__in=spelled, endpoints__removed_at=None).distinct()
        if not rows:
            name = printable(each.vendor, SHOWN)
            says = f"“{printable(filed.name, SHOWN)}” may use “{name}”, and no vendor here has its address."
            done.missing.append(Missing("vendor_missing", filed.slug, name, says))
        found |= {row.pk: row for row in rows}
    return list(found.values())


def _fill(agent: Agent, filed: FiledAgent, done: Imported, actor: User) -> None:
    # Words of transfers first: pins and procedures give way to their names, or refer to them.
    words = filed.transfer
    if agent.parent and (words.name or words.description):
        transfer = Transfer.objects.get(child=agent)
        transfers.word_transfer(transfer, actor=actor, name=words.name, description=words.description)
    if limit := filed.token_limit:
        agent_budgets.set_limit(agent, actor=actor, limit=limit.tokens, stops=limit.stops)
    if gate := filed.rehearsal_gate:
        plans.set_gate(agent, actor=actor, gate=gate.gate, at_least=gate.at_least, on_flips=gate.on_flips)
    for each in filed.pins:
        done.missing += (
            Missing(code, filed.slug, each.name, says) for code, says in _pin(agent, each, actor)
        )
    done.pins += agent.pins.live().count()
    for procedure in filed.procedures:
        facts = {"title": procedure.title, "body": procedure.body}
        editing.create_procedure(agent, actor=actor, slug=procedure.slug, **facts)
        done.procedures += 1


def _pin(agent: Agent, filed: FiledPin, actor: User) -> Iterator[tuple[str, str]]:
    # Pins the tool, if it is here, and yields what is not as in the file: a code and a sentence.
    name, address = printable(filed.name, SHOWN), printable(filed.endpoint, 200)
    if filed.protocol == protocols.OWN.name:
        try:
            ours = _defined(filed, actor)
        except (DomainError, UnreadableItemError) as error:
            yield "tool_missing", f"“{name}” is defined in another Pegboard, and cannot be here: {error}"
            return
        yield from _pin_found(agent, filed, ours, actor)
        return
    endpoints = Endpoint.objects.live().filter(url__in=_spellings(filed.endpoint), protocol=filed.protocol)
    if not endpoints.exists():
        yield "endpoint_missing", f"“{name}” is a tool at {address}, which no vendor here has."
        return
    tools = Tool.objects.filter(endpoint__in=endpoints, tool_id=filed.tool_id)
    # Of several at one address, the one that is offered, and of the vendor that has the same short name.
    best = sorted(
        tools.select_related("current", "endpoint__vendor").order_by("pk"),
        key=lambda tool: (tool.status != ToolStatus.ACTIVE, tool.endpoint.vendor.slug != filed.vendor),
    )
    tool = best[0] if best else None
    if tool is None:
        yield "tool_missing", f"The vendor at {address} has no tool “{printable(filed.tool_id, SHOWN)}”."
        return
    yield from _pin_found(agent, filed, tool, actor)


def _defined(filed: FiledPin, actor: User) -> Tool:
    # The same definition, one of the same name, or a new one as the file has it.
    rows = definitions.all_of_them().select_related("current", "endpoint__vendor")
    if found := rows.filter(tool_id=filed.tool_id).first():
        return found
    if filed.definition is msgspec.UNSET:
        raise UnreadableItemError("SHAPE", "The file does not say how it is defined.")
    parts = definition.parts_of(filed.definition)
    found = rows.filter(name=parts.name, status=ToolStatus.ACTIVE).first()
    return found or definitions.define(actor=actor, parts=parts)


def _pin_found(agent: Agent, filed: FiledPin, tool: Tool, actor: User) -> Iterator[tuple[str, str]]:
    name = printable(filed.name, SHOWN)
    # The same text is the same version, whatever it is numbered here.
    version = tool.versions.filter(digest=filed.digest).order_by("-ordinal").first()
    if version is None:
        version = versions.named(tool, version=filed.version) or tool.current
        which = f"“{version.name}”" if version else "none"
        theirs = printable(filed.version, 60)
        says = f"“{name}” has no version here with the text of “{theirs}”; it gets {which}."
        yield "version_missing", says
    try:
        pin = _pinned(agent, filed, tool, version, actor)
    except DomainError as error:
        yield "tool_refused", f"“{name}”: {error.message}"
        return
    # After the pin: words that do not fit are left out, and the tool stays.
    if filed.tuning != NOTHING:
        try:
            tunings.tune(pin, actor=actor, **msgspec.to_builtins(filed.tuning))
        except DomainError as error:
            yield (
                "words_refused",
                f"Your words about “{name}” do not fit, so it keeps the vendor's: {error.message}",
            )


def _pinned(agent: Agent, filed: FiledPin, tool: Tool, version: ToolVersion | None, actor: User) -> Pin:
    # Under the name that the procedures know; one that is the vendor's own goes on to follow it.
    is_vendors = version is not None and model_names.derive(version.decoded().name) == filed.name
    alias = "" if is_vendors else filed.name
    ordinal = version.ordinal if version else None
    retry = msgspec.to_builtins(filed.retry)
    return pins.pin_tool(
        agent,
        actor=actor,
        tool=tool,
        ordinal=ordinal,
        alias=alias,
        retry=retry,
        mode=PinMode(filed.mode),
    )


def _spellings(url: str) -> list[str]:
    # With or without a slash at the end, it is one address to a vendor.
    return [url, f"{url}/", url.removesuffix("/")]
