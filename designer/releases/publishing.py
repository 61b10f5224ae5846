"""Publishing: an agent as it is now becomes a release with a number and a digest, in every format at once.

A release holds the agent's own pins and procedures; a sub-agent is published by itself. Everything an export
needs is inside the document, so it can be written when the vendor is long gone.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.http import Http404
from django.urls import reverse
from django.utils.http import parse_etags

from catalog.models import Endpoint, Tool, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.models.tools import ToolStatus
from catalog.protocols.base import canonical
from catalog.review import holds
from catalog.rules import diff as signature_diff
from core.errors import DomainError
from designer import agent_addresses, agent_budgets, agent_vendors, exports, pinned_signatures
from designer.agents import locked
from designer.errors import ChecksFailedError
from designer.exports import document as release_document
from designer.exports.base import Carried, Format, carried
from designer.exports.document import ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.models import AGENTS_OF_KEY, Agent, Export, Pin, Procedure, Release, Retirement
from designer.procedures import checking, rendering
from designer.releases import channels, proofs, signing
from designer.releases.checks import Budget, Check, Facts, ToolFacts, checks, not_accepted
from designer.signatures.words import Words
from designer.texts import checked
from people import audit
from people.models import TEAMS_OF, ApiKey, User

# Kept by the caller, but asked about each time: which release is live may change any moment.
CACHE_CONTROL = "private, no-cache"
MAX_NOTE_LENGTH = 2_000
# What an export is called that goes without the tools that its format cannot carry.
PARTIAL = ".partial"
REASONS_SHOWN = 3
# Remarks on procedures that the check of the pin itself makes, once and not at each mention.
_TOLD_OF_PINS = frozenset(("version_held", "version_blocked", "tool_withdrawn"))
_FIND = """
    SELECT release.id, release.digest, release.agent_id, release.number,
        retirement.retired_at, retirement.sunset_at, ARRAY(
        SELECT export.format FROM designer_export export
        WHERE export.release_id = release.id AND export.format = ANY(%s)
    ) AS written
    FROM designer_release release JOIN designer_agent agent ON agent.id = release.agent_id
    LEFT JOIN designer_retirement retirement ON retirement.release_id = release.id
    WHERE agent.slug = %s AND agent.removed_at IS NULL {}
    ORDER BY release.number DESC LIMIT 1
"""
_NAMED_BY = {
    "number": "AND release.number = %s",
    "digest": "AND release.digest = %s",
    "channels__name": """AND release.id = (
        SELECT release_id FROM designer_channel WHERE agent_id = agent.id AND name = %s)""",
}
_OF_THEIR_TEAMS = f"AND agent.team_id IN ({TEAMS_OF})"
_NAMED = f"AND agent.id IN ({AGENTS_OF_KEY})"


@transaction.atomic
def publish(
    agent: Agent,
    *,
    actor: User,
    note: str = "",
    seen: str = "",
    channel: str = "",
    expected: int | None = None,
    accept: Collection[str] = (),
    reason: str = "",
) -> Release:
    """Makes a release of the agent as it is now. Raises DomainError when there is nothing (new) to publish,
    ChecksFailedError when a check fails whose code is not in `accept`. `reason` says why it was accepted.

    `seen` is the digest of the draft that the user looked at; another draft by now is not published. No
    channel leads to the release unless `channel` names one that is to; `expected` is as for `channels.move`.
    """
    note = checked(note, field="note", limit=MAX_NOTE_LENGTH)
    reason = checked(reason, field="reason", limit=MAX_NOTE_LENGTH)
    agent = locked(agent)
    pins = list(pinned_signatures.pinned([agent]))
    rows = rendering.rows_of([agent])[agent.pk]
    if not pins and not rows.procedures:
        message = f"“{agent}” has no tools. Pin one, then publish."
        raise DomainError("nothing_to_publish", message, status=409)
    last = agent.releases.order_by("-number").first()
    document = _draft(agent, pins, rows, number=last.number + 1 if last else 1)
    if last and is_same(document, release_document.decode(last.document)):
        message = f"Nothing has changed since release {last.number}."
        raise DomainError("nothing_changed", message, status=409)
    found = checks_of(agent, pins, document, actor)
    if failed := not_accepted(found, accept, is_admin=actor.can_administer):
        raise ChecksFailedError(_says_failed(agent, failed), found)
    accepted = [
        {"code": check.code, "message": check.message} for check in found if check.severity == "error"
    ]
    text = release_document.encode(document)
    digest, key = release_document.digest(text), proofs.key()
    if seen not in ("", digest):
        message = f"“{agent}” has changed since this page was opened. Look at what differs now, then publish."
        raise DomainError("draft_changed", message, status=409)
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
        accepted=accepted,
        reason=reason if accepted else "",
        created_by=actor,
    )
    # One for each format that can carry any of the release; its page tells the designer what is left out.
    Export.objects.bulk_create(
        _written(release, format_, judged, key)
        for format_, judged in carried_by_format(document)
        if judged.is_any
    )
    signing.sign(release)
    agent_addresses.hold(agent)
    facts: dict[str, Any] = {"number": release.number, "digest": release.digest, "note": note}
    if accepted:
        facts |= {"accepted": [each["message"] for each in accepted], "reason": release.reason}
    why = release.reason or note
    audit.record(actor, "publish", release, after=facts, why=why, agent=agent.pk)
    if channel:
        channels.move(agent, channel, actor=actor, release=release, note=note, expected=expected)
    return release


def draft(agent: Agent) -> ReleaseDocument:
    """What `publish` would write now."""
    last = agent.releases.order_by("-number").first()
    rows = rendering.rows_of([agent])[agent.pk]
    return _draft(agent, pinned_signatures.pinned([agent]), rows, number=last.number + 1 if last else 1)


def drafts(agents: Sequence[Agent]) -> dict[int, ReleaseDocument]:
    """The same for several agents in a few queries, by their primary keys. All are numbered 0."""
    rows = rendering.rows_of(agents)
    pins: defaultdict[int, list[Pin]] = defaultdict(list)
    for pin in pinned_signatures.pinned(agents):
        pins[pin.agent_id].append(pin)
    return {agent.pk: _draft(agent, pins[agent.pk], rows[agent.pk], number=0) for agent in agents}


def tools_of(agent: Agent, *, tried: Mapping[int, Words] | None = None) -> ReleaseDocument:
    """The same without procedures. `tried` are words, by pin, that stand for those that are kept."""
    released = [_released_tool(pin, (tried or {}).get(pin.pk)) for pin in pinned_signatures.pinned([agent])]
    last = agent.releases.aggregate(last=Max("number"))["last"]
    return ReleaseDocument(
        schema=release_document.SCHEMA,
        agent=ReleasedAgent(slug=agent.slug, name=agent.name, description=agent.description),
        number=(last or 0) + 1,
        tools=tuple(sorted(released, key=lambda tool: tool.signature.name)),
    )


def carried_by_format(release: ReleaseDocument) -> list[tuple[Format, Carried]]:
    """What each format can carry of it, and what it remarks: what blocks, may be refused or gets lost."""
    return [(format_, carried(release, format_.limits)) for format_ in exports.FORMATS]


def release_conditions(text: str) -> dict[str, str | int] | None:
    """Which release of an agent is meant, as one condition on it: a number, `sha256:DIGEST`, or a channel
    that leads to it. None for what can name no release."""
    if channels.NAME.fullmatch(text):
        return {"channels__name": text}
    if re.fullmatch("[0-9]{1,9}", text):
        return {"number": int(text)}
    if re.fullmatch("sha256:[0-9a-f]{64}", text):
        return {"digest": text.removeprefix("sha256:")}
    return None


def etag_matches(tag: str, if_none_match: str) -> bool:
    """Whether If-None-Match names the tag: RFC 9110, 13.1.2."""
    etag = f'"{tag}"'
    # What nearly every runtime sends costs no parsing.
    if if_none_match == etag:
        return True
    # A list or `*`, compared weakly, because proxies may weaken a tag.
    given = parse_etags(if_none_match)
    return given == ["*"] or etag in (tag.removeprefix("W/") for tag in given)


def find(
    slug: str, name: str, reader: User, key: ApiKey | None = None, *, formats: Sequence[str] = ()
) -> Release | None:
    """The release that `name` means, without its document; in `written` those of `formats` that are kept of
    it, and the dates of its retirement. None when there is none, or for an agent that `reader` may not see
    with this key, as `AgentQuerySet.visible_to` has it.
    """
    # Runtimes ask this all day to hear that nothing is new. The text of the query is constant, because
    # putting it together again each time took longer than running it.
    which = release_conditions(name)
    if which is None:
        return None
    asked: list[tuple[str, str | int | None]] = [
        *((_NAMED_BY[column], value) for column, value in which.items()),
        (_OF_THEIR_TEAMS, None if reader.can_administer else reader.pk),
        (_NAMED, key.pk if key and key.is_narrowed else None),
    ]
    conditions = " ".join(text for text, value in asked if value is not None)
    parameters = [list(formats), slug, *(value for _, value in asked if value is not None)]
    found = next(iter(Release.objects.raw(_FIND.format(conditions), parameters)), None)
    if found:
        # As `select_related` leaves it, so that no other query asks whether there is one.
        dates = {"retired_at": found.retired_at, "sunset_at": found.sunset_at}
        retirement = Retirement(release=found, **dates) if found.retired_at else None
        Release.retirement.related.set_cached_value(found, retirement)
    return found


def nothing_there(name: str) -> Exception:
    """For a release that is not there, of an agent that the caller may see."""
    if not channels.NAME.fullmatch(name):
        return Http404()
    message = f"“{name}” leads to no release of this agent yet. A designer promotes one to it."
    return DomainError("channel_empty", message, status=404)


def previous_release(release: Release) -> Release | None:
    # The agent's release before this one.
    earlier = Release.objects.filter(agent=release.agent_id, number__lt=release.number)
    return earlier.order_by("-number").first()


def export_names(name: str, *, is_partial: bool) -> list[str]:
    """The names that an export may be kept under: the whole one's, and that of one without some tools."""
    return [name, f"{name}{PARTIAL}"] if is_partial else [name]


def export(release: Release, name: str, *, is_partial: bool = False) -> tuple[bytes, str]:
    """The release in one format and the name it is kept under: the same bytes each time, written when it was
    published. `is_partial`: without the tools that the format cannot carry, if there are any.

    Raises DomainError for a format that is not there, or that cannot carry what is asked for.
    """
    format_ = find_format(name)
    names = export_names(name, is_partial=is_partial)
    rows = dict(release.exports.filter(format__in=names).values_list("format", "body"))
    if found := next((each for each in names if each in rows), ""):
        return bytes(rows[found]), found
    # The format was added after the release was published: it is written now and kept.
    judged = carried(release_document.decode(release.document), format_.limits)
    if not judged.is_whole and not (is_partial and judged.is_any):
        raise DomainError("format_cannot_carry", _refusal(name, judged), status=409)
    # Two first requests write the same bytes; both answer the row of the first.
    row = _written(release, format_, judged, proofs.key())
    kept, _ = Export.objects.get_or_create(
        release=release, format=row.format, defaults={"body": row.body, "proof": row.proof}
    )
    return kept.as_bytes(), kept.format


def _refusal(name: str, judged: Carried) -> str:
    # The first reasons, because a list of hundreds helps no reader, and what to do.
    reasons = [remark.message for remark in judged.blocking]
    said = " ".join(reasons[:REASONS_SHOWN])
    if len(reasons) > REASONS_SHOWN:
        said += f" And {len(reasons) - REASONS_SHOWN} more like these."
    count = len(judged.left_out)
    if not count:
        return said
    way_on = (
        f"Ask with partial=1 to leave out {count} of {count + len(judged.fitting.tools)} tools."
        if judged.is_partial
        else f"“{name}” can carry none of its tools: take another format."
    )
    return f"{said} {way_on}"


def find_format(name: str) -> Format:
    try:
        return exports.get(name)
    except KeyError:
        known = ", ".join(format_.name for format_ in exports.FORMATS)
        message = f"The formats are: {known}."
        raise DomainError("unknown_format", message, fields={"format": message}) from None


def verify(release: Release) -> list[str]:
    """A sentence for each thing that is not as it was published; empty when all is."""
    document = release.document.encode()
    wrong = []
    if release_document.digest(document) != release.digest:
        wrong.append("The document does not match its digest.")
    tools = release_document.decode(document).tools
    rows = ToolVersion.objects.filter(tool__in=[tool.id for tool in tools]).defer("signature", "raw")
    held = {(row.tool_id, row.ordinal): row for row in rows}
    for tool in tools:
        row = held.get((tool.id, tool.version.ordinal))
        if row is None:
            wrong.append(f"The catalog has lost the version of “{tool.signature.name}” that is in here.")
        elif row.digest != tool.version.digest:
            wrong.append(f"The catalog's version {row.name} of “{tool.signature.name}” differs.")
    return wrong


def _says_failed(agent: Agent, failed: Sequence[Check]) -> str:
    more = f" And {len(failed) - REASONS_SHOWN} more." if len(failed) > REASONS_SHOWN else ""
    said = " ".join(check.message for check in failed[:REASONS_SHOWN])
    only_admins = any(check.accepted_by == "admin" for check in failed)
    who = "an administrator accepts it" if only_admins else "accept it by its code, with a reason"
    return f"“{agent}” is not published: {said}{more} Mend that, or {who}."


def compared_with(agent: Agent) -> Release | None:
    """The release that a draft is judged against: the one that `live` leads to, else the newest."""
    return channels.state(agent, channels.LIVE).release or agent.releases.order_by("-number").first()


def checks_of(agent: Agent, pins: Sequence[Pin], draft: ReleaseDocument, reader: User) -> list[Check]:
    """What there is to say about publishing this draft, which is made of these pins."""
    base = compared_with(agent)
    broken = _broken(pins, release_document.decode(base.document)) if base else {}
    kept, reviewed = pinned_signatures.kept_out(pins), holds.under_review(pin.version for pin in pins)
    allowed = agent_vendors.of(agent)
    tools = []
    for pin in pins:
        state, says = kept.get(pin.pk, (None, ""))
        finding = reviewed.get(pin.version_id)
        limit = allowed.against(pin.tool.endpoint.vendor)
        tools.append(
            ToolFacts(
                name=pin.name,
                where=reverse("pin", args=[agent.slug, pin.pk]),
                blocked=says if state == FindingState.BLOCKED else "",
                held=says if state and state != FindingState.BLOCKED else "",
                under_review=finding.message if finding and finding.severity != Severity.LOW else "",
                review_where=f"{reverse('review')}?item={finding.pk}" if finding else "",
                gone=_says_gone(pin.tool),
                outside=allowed.refusal(agent, pin.tool, is_pinned=True),
                outside_where=f"{reverse('agent-edit', args=[limit.slug])}#vendors" if limit else "",
                misfits=tuple(
                    (misfit.message, misfit.exposes) for misfit in pinned_signatures.misfits_of(pin)
                ),
                breaks=broken.get(pin.tool_id, ()),
            )
        )
    by_label = tuple((format_.label, judged) for format_, judged in carried_by_format(draft))
    more = tuple(_remarks_on_procedures(agent, reader)) if draft.procedures else ()
    row, where = agent_budgets.limit_of(agent), f"{reverse('agent', args=[agent.slug])}#budget"
    budget = Budget(row.tokens, row.stops, where) if row else None
    return checks(Facts(draft=draft, tools=tuple(tools), carried=by_label, budget=budget, more=more))


def _remarks_on_procedures(agent: Agent, actor: User) -> Iterator[Check]:
    checked = checking.check_agent(agent, actor)
    is_clean = True
    for procedure in Procedure.objects.live().filter(agent=agent):
        where = reverse("procedure", args=[agent.slug, procedure.slug])
        for remark in checked.remarks[procedure.pk]:
            if remark.code in _TOLD_OF_PINS:
                continue
            is_clean = False
            is_error = remark.severity == "error"
            yield Check(
                code=remark.code,
                severity=remark.severity,
                message=f"“{procedure}”, line {remark.line}: {remark.message}",
                where=where,
                accepted_by="designer" if is_error else "",
            )
    where = reverse("procedure-list", args=[agent.slug])
    for remark in checked.of_agent:
        yield Check(code=remark.code, severity=remark.severity, message=remark.message, where=where)
    if is_clean:
        yield Check(code="procedures", severity="ok", message="The procedures name tools that are there.")


def _says_gone(tool: Tool) -> str:
    if tool.endpoint.removed_at or tool.endpoint.vendor.removed_at:
        return "its vendor was removed from Pegboard."
    return f"{tool.endpoint.vendor} does not list it any more." if tool.status == ToolStatus.WITHDRAWN else ""


def _broken(pins: Iterable[Pin], base: ReleaseDocument) -> dict[int, tuple[str, ...]]:
    """By tool, what its pinned version takes away from the one in `base`, where it is another one."""
    released = {tool.id: tool.version for tool in base.tools}
    moved = {
        pin.tool_id: pin.version
        for pin in pins
        if pin.tool_id in released and released[pin.tool_id].digest != pin.version.digest
    }
    found = {}
    for old in ToolVersion.objects.filter(tool__in=moved):
        if released[old.tool_id].ordinal == old.ordinal:
            changes = signature_diff.compare(old.decoded(), moved[old.tool_id].decoded()).changes
            found[old.tool_id] = tuple(each.sentence for each in changes if each.class_ == "breaking")
    return found


def _draft(agent: Agent, pins: Iterable[Pin], rows: rendering.Rows, *, number: int) -> ReleaseDocument:
    released = [(pin, _released_tool(pin)) for pin in pins]
    tools = sorted((tool for _, tool in released), key=lambda tool: tool.signature.name)
    return ReleaseDocument(
        schema=release_document.SCHEMA,
        agent=ReleasedAgent(slug=agent.slug, name=agent.name, description=agent.description),
        number=number,
        tools=tuple(tools),
        procedures=rendering.rendered(rows, ((pin, tool.signature) for pin, tool in released)),
    )


def _released_tool(pin: Pin, tried: Words | None = None) -> ReleasedTool:
    endpoint: Endpoint = pin.tool.endpoint
    version = pin.version
    return ReleasedTool(
        id=pin.tool_id,
        tool_id=pin.tool.tool_id,
        vendor=endpoint.vendor.slug,
        endpoint=endpoint.url,
        protocol=endpoint.protocol,
        version=ReleasedVersion(ordinal=version.ordinal, label=version.label, digest=version.digest),
        signature=pinned_signatures.effective_of(pin, tried),
        tuning={
            "catalog": pinned_signatures.words_about(pin.tool),
            "agent": pinned_signatures.words_about(pin) if tried is None else tried,
        },
    )


def is_same(one: ReleaseDocument, other: ReleaseDocument) -> bool:
    # The number is not compared: it differs between any two.
    return canonical([one.agent, one.tools, one.procedures]) == canonical(
        [other.agent, other.tools, other.procedures]
    )


def _written(release: Release, format_: Format, judged: Carried, key: bytes) -> Export:
    name = format_.name if judged.is_whole else f"{format_.name}{PARTIAL}"
    body = format_.body(judged.fitting)
    proof = proofs.of_export(key, release=release.pk, format_=name, body=body)
    return Export(release=release, format=name, body=body, proof=proof)
