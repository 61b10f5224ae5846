"""Publishing: an agent as it stands, sealed under a number and a digest, in every format at once.

A release holds the agent's own pins; a sub-agent is published by itself. Everything an export
needs is inside the document, so it can be written when the vendor is long gone.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec
from django.db import transaction
from django.db.models import QuerySet
from django.utils.http import parse_etags

from catalog import holds
from catalog.models import Endpoint, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.protocols.base import canonical
from catalog.protocols.errors import printable
from designer import addresses, exports, names, proofs, sealed
from designer.agents import locked
from designer.effective import Effective, Misfit, Words, effective, merged, misfits
from designer.errors import DesignerError
from designer.exports.base import CannotCarryError, Format, Remark, remarks
from designer.models import NAMED_FOR, Agent, Export, Pin, Release
from designer.sealed import Sealed, SealedAgent, SealedTool, SealedVersion
from designer.texts import checked
from designer.tunings import words_of
from people import audit
from people.models import TEAMS_OF, ApiToken, User

LIVE = "live"
# Kept by the caller, but asked about each time: which release is live may change any moment.
CACHE_CONTROL = "private, no-cache"
LONGEST_NOTE = 2_000
_FIND = """
    SELECT release.id, release.digest
    FROM designer_release release JOIN designer_agent agent ON agent.id = release.agent_id
    WHERE agent.slug = %s AND agent.removed_at IS NULL {}
    ORDER BY release.number DESC LIMIT 1
"""
_NAMED_BY = {"number": "AND release.number = %s", "digest": "AND release.digest = %s"}
_OF_THEIR_TEAMS = f"AND agent.team_id IN ({TEAMS_OF})"
_NAMED = f"AND agent.id IN ({NAMED_FOR})"


@transaction.atomic
def publish(agent: Agent, *, actor: User, note: str = "", seen: str = "") -> Release:
    """Seals the agent as it stands. Raises DesignerError when there is nothing (new) to publish.

    `seen` is the digest of the draft that the person looked at; another draft by now is not published.
    """
    note = checked(note, field="note", limit=LONGEST_NOTE)
    agent = locked(agent)
    pins = list(pinned([agent]))
    if not pins:
        message = f"“{agent}” has no tools. Pin one, then publish."
        raise DesignerError("nothing_to_publish", message, status=409)
    _check_fit(pins)
    last = agent.releases.order_by("-number").first()
    document = _draft(agent, pins, number=last.number + 1 if last else 1)
    if last and is_same(document, sealed.decode(last.document)):
        message = f"Nothing has changed since release {last.number}."
        raise DesignerError("nothing_changed", message, status=409)
    text = sealed.encode(document)
    digest, key = sealed.digest(text), proofs.key()
    if seen not in ("", digest):
        message = f"“{agent}” has changed since this page was opened. Look at what differs now, then publish."
        raise DesignerError("draft_changed", message, status=409)
    release = Release.objects.create(
        agent=agent,
        number=document.number,
        digest=digest,
        proof=proofs.of_release(
            key, agent=agent.pk, number=document.number, digest=digest, created_by=actor.pk
        ),
        document=text.decode(),
        tool_count=len(pins),
        note=note,
        created_by=actor,
    )
    Export.objects.bulk_create(_written(release, document, key))
    addresses.hold(agent)
    facts = {"number": release.number, "digest": release.digest, "note": note}
    audit.record(actor, "publish", release, after=facts, why=note, agent=agent.pk)
    return release


def draft(agent: Agent) -> Sealed:
    """What `publish` would seal now."""
    last = agent.releases.order_by("-number").first()
    return _draft(agent, pinned([agent]), number=last.number + 1 if last else 1)


def drafts(agents: Sequence[Agent]) -> dict[int, Sealed]:
    """The same for several agents in one query, by their primary keys. All are numbered 0."""
    pins: defaultdict[int, list[Pin]] = defaultdict(list)
    for pin in pinned(agents):
        pins[pin.agent_id].append(pin)
    return {agent.pk: _draft(agent, pins[agent.pk], number=0) for agent in agents}


def remarks_on(release: Sealed) -> dict[str, list[Remark]]:
    """By format name: what blocks it, what may be refused elsewhere and what gets lost."""
    return {format_.name: remarks(release, format_.limits) for format_ in exports.FORMATS}


def named(text: str) -> dict[str, str | int] | None:
    """Which release is meant, as conditions on its columns: `live` is the newest, any other one goes by its
    number or by `sha256:DIGEST`. None for what names no release."""
    if text == LIVE:
        return {}
    if re.fullmatch("[0-9]{1,9}", text):
        return {"number": int(text)}
    if re.fullmatch("sha256:[0-9a-f]{64}", text):
        return {"digest": text.removeprefix("sha256:")}
    return None


def is_named_by(digest: str, if_none_match: str) -> bool:
    """RFC 9110, 13.1.2: a list or `*`, compared weakly, because proxies may weaken a tag."""
    etag = f'"{digest}"'
    if if_none_match == etag:
        return True
    given = parse_etags(if_none_match)
    return given == ["*"] or etag in (tag.removeprefix("W/") for tag in given)


def find(slug: str, name: str, reader: User, key: ApiToken | None = None) -> Release | None:
    """The release that `name` means, with its digest and nothing else read; None when there is none, or for
    an agent that `reader` may not see with this key, as `AgentQuerySet.visible_to` has it.

    Runtimes ask this all day to hear that nothing is new. The text of the query is constant, because
    putting it together again each time took longer than running it.
    """
    which = named(name)
    if which is None:
        return None
    asked: list[tuple[str, str | int | None]] = [
        *((_NAMED_BY[column], value) for column, value in which.items()),
        (_OF_THEIR_TEAMS, None if reader.can_administer else reader.pk),
        (_NAMED, key.pk if key and key.is_narrowed else None),
    ]
    conditions = " ".join(text for text, value in asked if value is not None)
    parameters = [slug, *(value for _, value in asked if value is not None)]
    return next(iter(Release.objects.raw(_FIND.format(conditions), parameters)), None)


def before(release: Release) -> Release | None:
    """The agent's release before this one."""
    earlier = Release.objects.filter(agent=release.agent_id, number__lt=release.number)
    return earlier.order_by("-number").first()


def export(release: Release, name: str) -> bytes:
    """The release in one format: the same bytes each time, written when it was published.

    A format that was added later is written on first request and kept. Raises DesignerError for a
    format that is not there, or that cannot carry this release.
    """
    body = Export.objects.filter(release=release, format=name).values_list("body", flat=True).first()
    if body is not None:
        return bytes(body)
    format_ = find_format(name)
    try:
        written = _encoded(format_, sealed.decode(release.document))
    except CannotCarryError as exc:
        raise DesignerError("format_cannot_carry", str(exc), status=409) from exc
    # Two first requests write the same bytes; the row of whoever came first is what both answer.
    proof = proofs.of_export(proofs.key(), release=release.pk, format_=name, body=written)
    kept, _ = Export.objects.get_or_create(
        release=release, format=name, defaults={"body": written, "proof": proof}
    )
    return kept.as_bytes()


def find_format(name: str) -> Format:
    try:
        return exports.get(name)
    except KeyError:
        known = ", ".join(format_.name for format_ in exports.FORMATS)
        message = f"The formats are: {known}."
        raise DesignerError("unknown_format", message, fields={"format": message}) from None


def verify(release: Release) -> list[str]:
    """Sentences about what is not as it was sealed; empty when all is."""
    document = release.document.encode()
    wrong = []
    if sealed.digest(document) != release.digest:
        wrong.append("The document does not match its digest.")
    tools = sealed.decode(document).tools
    rows = ToolVersion.objects.filter(tool__in=[tool.id for tool in tools]).defer("signature", "raw")
    held = {(row.tool_id, row.ordinal): row for row in rows}
    for tool in tools:
        row = held.get((tool.id, tool.version.ordinal))
        if row is None:
            wrong.append(f"The catalog has lost the version of “{tool.signature.name}” that is in here.")
        elif row.digest != tool.version.digest:
            wrong.append(f"The catalog's version {row.name} of “{tool.signature.name}” differs.")
    return wrong


def pinned(agents: Sequence[Agent]) -> QuerySet[Pin]:
    """The agents' pins with all that their effective signatures need."""
    return (
        Pin.objects.live()
        .filter(agent__in=agents)
        .select_related("version", "tuning", "tool__tuning", "tool__endpoint__vendor")
    )


def effective_of(pin: Pin) -> Effective:
    """What a model is shown of this pin; read it through `pinned` to spare queries."""
    return effective(
        pin.version.decoded(),
        name=pin.name,
        catalog_tuning=_tuning(pin.tool),
        agent_tuning=_tuning(pin),
    )


def effective_of_tool(tool: Tool) -> Effective | None:
    """What agents that pin its current version are shown, before any words of their own."""
    if tool.current is None:
        return None
    signature = tool.current.decoded()
    return effective(signature, name=names.derive(signature.name), catalog_tuning=_tuning(tool))


def misfits_of(pin: Pin) -> list[Misfit]:
    """Tuned words that the pinned version has no place for."""
    return misfits(pin.version.decoded(), merged(_tuning(pin.tool), _tuning(pin)))


def _tuning(target: Pin | Tool) -> Words:
    return words_of(getattr(target, "tuning", None))


def _check_fit(pins: list[Pin]) -> None:
    """Refuses to show a model an input that somebody hid, or to send a version that review keeps out."""
    for pin in pins:
        for misfit in misfits_of(pin):
            if misfit.exposes:
                message = f"“{pin.name}”: {misfit.message}"
                raise DesignerError("tuning_does_not_fit", message, status=409)
    for state, message in kept_out(pins).values():
        code = "version_blocked" if state == FindingState.BLOCKED else "version_held"
        raise DesignerError(code, message, status=409)


def kept_out(pins: Collection[Pin]) -> dict[int, tuple[FindingState, str]]:
    """By pin: why review does not let its version be published. An accepted review lets it through."""
    standings = holds.standings(pin.version for pin in pins)
    found: dict[int, tuple[FindingState, str]] = {}
    for pin in pins:
        state = standings.get(pin.version_id)
        which = f"“{pin.name}” is pinned to version {printable(pin.version.name, 60)}, which"
        if state == FindingState.BLOCKED:
            found[pin.pk] = state, f"{which} was blocked in review. Move the pin to another version."
        elif state:
            message = f"{which} waits for review. An administrator decides there; or move the pin."
            found[pin.pk] = state, message
    return found


def _draft(agent: Agent, pins: Iterable[Pin], *, number: int) -> Sealed:
    tools = sorted((_sealed_tool(pin) for pin in pins), key=lambda tool: tool.signature.name)
    return Sealed(
        schema=sealed.SCHEMA,
        agent=SealedAgent(slug=agent.slug, name=agent.name, description=agent.description),
        number=number,
        tools=tuple(tools),
    )


def _sealed_tool(pin: Pin) -> SealedTool:
    endpoint: Endpoint = pin.tool.endpoint
    version = pin.version
    return SealedTool(
        id=pin.tool_id,
        tool_id=pin.tool.tool_id,
        vendor=endpoint.vendor.slug,
        endpoint=endpoint.url,
        protocol=endpoint.protocol,
        version=SealedVersion(ordinal=version.ordinal, label=version.label, digest=version.digest),
        signature=effective_of(pin),
        tuning={"catalog": _tuning(pin.tool), "agent": _tuning(pin)},
    )


def is_same(one: Sealed, other: Sealed) -> bool:
    """Apart from the number."""
    return canonical([one.agent, one.tools]) == canonical([other.agent, other.tools])


def _written(release: Release, document: Sealed, key: bytes) -> list[Export]:
    written = []
    for format_ in exports.FORMATS:
        try:
            body = _encoded(format_, document)
        except CannotCarryError:
            continue  # `remarks_on` tells the designer; the other formats are not held up
        proof = proofs.of_export(key, release=release.pk, format_=format_.name, body=body)
        written.append(Export(release=release, format=format_.name, body=body, proof=proof))
    return written


def _encoded(format_: Format, release: Sealed) -> bytes:
    return msgspec.json.encode(format_.write(release))
