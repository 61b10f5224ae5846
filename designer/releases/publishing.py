"""Publishing: an agent and its sub-agents as they are now become a release with a number and a digest."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from django.db import connection
from django.http import Http404
from django.utils.http import parse_etags
from msgspec import structs

from catalog.models import ToolVersion
from catalog.notifications import outbox
from core.errors import DomainError
from core.prepared_statements import run_prepared
from core.query_deadline import long_transaction
from designer import agent_addresses, agents, exports, transfers
from designer.errors import ChecksFailedError
from designer.exports import document as release_document
from designer.exports.base import Carried, Format, carried
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import tools_in
from designer.models import AGENTS_OF_KEY, Agent, Export, Place, Release, Retirement
from designer.releases import (
    binding_snapshots,
    channels,
    composition,
    draft_checks,
    effective_versions,
    proofs,
    signing,
)
from designer.releases.checks import Check, not_accepted
from designer.releases.composition import Node
from designer.texts import checked
from people import audit
from people.models import TEAMS_OF, ApiKey, User

# Kept by the caller, but asked about each time: which release is live may change any moment.
CACHE_CONTROL = "private, no-cache"
MAX_NOTE_LENGTH = 2_000
# What the others are told of it; designer/news.py has the words.
PUBLISHED = "release.published"
# What an export is called that goes without the tools that its format cannot carry.
PARTIAL = ".partial"
REASONS_SHOWN = 3
_FIND = """
    SELECT release.id, release.agent_id, release.number, release.digest, agent.slug, agent.name,
        retirement.retired_at, retirement.sunset_at, ARRAY(
        SELECT export.format FROM designer_export export
        WHERE export.release_id = release.id AND export.format = ANY(%s)
    ) AS written, ARRAY(
        SELECT place.id || ' ' || place.is_default || ' ' || place.name
        FROM designer_environment place WHERE place.agent_id = agent.id ORDER BY place.name
    ) AS places
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
    """Makes a release of the agent and all that is below it, as they are now. Raises DomainError when there
    is nothing (new) to publish, ChecksFailedError when a check fails whose code is not in `accept`. `reason`
    says why it was accepted.

    `seen` is the digest of the draft that the user looked at; another draft by now is not published. No
    channel leads to the release unless `channel` names one that is to; `expected` is as for `channels.move`.
    """
    note = checked(note, field="note", limit=MAX_NOTE_LENGTH)
    reason = checked(reason, field="reason", limit=MAX_NOTE_LENGTH)
    # What older releases hold, and no more than that, is numbered outside of the transaction, which holds the
    # whole tree: there may be hundreds of them.
    effective_versions.number(agent.pk)
    with long_transaction():
        agent = _with_all_below_locked(agent)
        tree = composition.trees([agent])[agent.pk]
        document = _something_new(agent, tree)
        draft_facts = draft_checks.read_facts(tree, document)
        found = draft_checks.checks_of(draft_facts, actor)
        if failed := not_accepted(found, accept, is_admin=actor.can_administer):
            raise ChecksFailedError(_says_failed(agent, failed), found)
        accepted = [
            {"code": check.code, "message": check.message} for check in found if check.severity == "error"
        ]
        reason = reason if accepted else ""
        release = _written_down(
            agent, document, actor, seen=seen, note=note, accepted=accepted, reason=reason
        )
        _write_exports(release, draft_facts.carried[agent.slug])
        # In the same transaction, so that no release is ever there without a signature.
        signing.sign(release)
        effective_versions.number(agent.pk)
        # From now on a runtime may know the agent, and those below it, by these addresses.
        for node in tree:
            agent_addresses.hold(node.agent)
        facts: dict[str, Any] = {"number": release.number, "digest": release.digest, "note": note}
        if document.agents:
            facts["sub_agents"] = [each.slug for each in document.agents]
        if accepted:
            facts |= {"accepted": [each["message"] for each in accepted], "reason": reason}
        audit.record(actor, "publish", release, after=facts, why=reason or note, agent=agent.pk)
        outbox.put(PUBLISHED, release.pk)
        if channel:
            channels.move(agent, channel, actor=actor, release=release, note=note, expected=expected)
        return release


def _with_all_below_locked(agent: Agent) -> Agent:
    # Until the transaction ends no agent of the tree is edited, moved, or gets other pins or procedures.
    transfers.lock_tree(is_shared=True)
    below = agents.with_all_below([agent])[agent.pk]
    # In one order, so that no two who publish parts of one tree wait for each other.
    rows = Agent.objects.filter(pk__in=[each.pk for each in below]).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk"))
    return agents.locked(agent)


def _something_new(agent: Agent, tree: Sequence[Node]) -> ReleaseDocument:
    last = agent.releases.order_by("-number").first()
    document = composition.document(tree, number=composition.number_after(agent, last.number if last else 0))
    if document.is_empty:
        message = f"“{agent}” has no tools. Pin one, then publish."
        raise DomainError("nothing_to_publish", message, status=409)
    is_same = last is not None and composition.is_same(document, release_document.decode(last.document))
    # What runs belongs to what was released, though the digest is of what a model is shown.
    if last and is_same and not binding_snapshots.list_moved_bindings(agent.pk, last, document):
        message = f"Nothing has changed since release {last.number}."
        raise DomainError("nothing_changed", message, status=409)
    return document


def _written_down(
    agent: Agent,
    document: ReleaseDocument,
    actor: User,
    *,
    seen: str,
    note: str,
    accepted: list[dict[str, str]],
    reason: str,
) -> Release:
    text = release_document.encode(document)
    digest = release_document.digest(text)
    # It is of the bytes that would be written, so whatever has changed meanwhile, it differs.
    if seen not in ("", digest):
        message = f"“{agent}” has changed since this page was opened. Look at what differs now, then publish."
        raise DomainError("draft_changed", message, status=409)
    return Release.objects.create(
        agent=agent,
        number=document.number,
        digest=digest,
        proof=proofs.of_release(
            proofs.key(), agent=agent.pk, number=document.number, digest=digest, created_by=actor.pk
        ),
        document=text.decode(),
        tool_count=len(document.all_tools),
        note=note,
        accepted=accepted,
        reason=reason,
        bindings=binding_snapshots.read_bindings(agent.pk, document, records_names=True),
        created_by=actor,
    )


def _write_exports(release: Release, fits: Iterable[tuple[Format, Carried]]) -> None:
    # One for each format that can carry any of the release; its page tells the designer what is left out.
    # Those of sub-agents are written when they are first asked for.
    key = proofs.key()
    Export.objects.bulk_create(
        _written(release, format_, judged, key) for format_, judged in fits if judged.is_any
    )


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
    it, in `places` the environments of its agent, and the dates of its retirement. None when there is none,
    or for an agent that `reader` may not see with this key, as `AgentQuerySet.visible_to` has it.
    """
    # Runtimes ask this all day, with each call and to hear that nothing is new. The text of the query is
    # constant, because putting it together again each time took longer than running it.
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
    ask = key.ask if key else run_prepared
    rows = ask(_FIND.format(conditions), parameters)
    if not rows:
        return None
    *own, slug, agent_name, retired_at, sunset_at, written, places = rows[0]
    found = Release.from_db(connection.alias, ["id", "agent_id", "number", "digest"], own)
    found.agent = Agent.from_db(connection.alias, ["id", "slug", "name"], [found.agent_id, slug, agent_name])
    found.written = written
    found.places = [Place.read(text) for text in places]
    # As `select_related` leaves it, so that no other query asks whether there is one.
    retirement = Retirement(release=found, retired_at=retired_at, sunset_at=sunset_at) if retired_at else None
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


def export_names(name: str, *, is_partial: bool, sub_agent: str = "") -> list[str]:
    """The names that an export may be kept under: the whole one's, and that of one without some tools. Those
    of a sub-agent begin with its slug."""
    name = f"{sub_agent}/{name}" if sub_agent else name
    return [name, f"{name}{PARTIAL}"] if is_partial else [name]


def export(
    release: Release, name: str, *, is_partial: bool = False, sub_agent: str = ""
) -> tuple[bytes, str]:
    """One agent of the release in one format, and the name it is kept under: the same bytes each time,
    written when it was published or first asked for. `is_partial`: without the tools that the format cannot
    carry, if there are any. `sub_agent` is a slug, "" for the agent that was published.

    Raises DomainError for a format that is not there, or that cannot carry what is asked for; Http404 for an
    agent that is not in the release.
    """
    format_ = find_format(name)
    names = export_names(name, is_partial=is_partial, sub_agent=sub_agent)
    rows = dict(release.exports.filter(format__in=names).values_list("format", "body"))
    if found := next((each for each in names if each in rows), ""):
        return bytes(rows[found]), found
    # A sub-agent's first, or the format was added after the release was published: it is written and kept.
    judged = carried(part_of(release, sub_agent), format_.limits)
    if not judged.is_whole and not (is_partial and judged.is_any):
        raise DomainError("format_cannot_carry", _refusal(name, judged), status=409)
    # Two first requests write the same bytes; both answer the row of the first.
    row = _written(release, format_, judged, proofs.key(), sub_agent)
    kept, _ = Export.objects.get_or_create(
        release=release, format=row.format, defaults={"body": row.body, "proof": row.proof}
    )
    return kept.as_bytes(), kept.format


def export_of_tool(release: Release, name: str, tool: str, *, sub_agent: str = "") -> bytes:
    """One tool in one format, as the export of the whole has it. `tool` is as a model knows it.

    Raises DomainError for a format that is not there, holds no tools, or cannot carry this one; Http404.
    """
    format_ = find_format(name)
    judged = carried(part_of(release, sub_agent), format_.limits)
    names = [each.signature.name for each in judged.fitting.tools]
    if tool not in (*names, *judged.left_out):
        raise Http404
    if format_.places is None:
        message = f"“{name}” holds no tools one by one. Take another format."
        raise DomainError("format_cannot_carry", message, status=409)
    if tool in judged.left_out:
        reasons = [remark.message for remark in judged.blocking if remark.tool == tool]
        raise DomainError("format_cannot_carry", " ".join(reasons[:REASONS_SHOWN]), status=409)
    whole, _ = export(release, name, is_partial=True, sub_agent=sub_agent)
    return msgspec.json.encode(tools_in(msgspec.json.decode(whole), format_.places)[names.index(tool)])


def export_of_version(
    release: Release, name: str, tool: ReleasedTool, *, sub_agent: str = ""
) -> bytes | None:
    """The same of a tool in another version than the released one; None where the format cannot carry it."""
    format_ = find_format(name)
    alone = structs.replace(part_of(release, sub_agent), tools=(tool,), transfers=(), procedures=())
    judged = carried(alone, format_.limits)
    if format_.places is None or not judged.fitting.tools:
        return None
    whole = msgspec.json.decode(format_.body(judged.fitting))
    return msgspec.json.encode(tools_in(whole, format_.places)[0])


def part_of(release: Release, sub_agent: str) -> ReleaseDocument:
    """One agent of the release; "" is the one that was published. Raises Http404."""
    found = release_document.decode(release.document).at(sub_agent)
    if found is None:
        raise Http404
    return found


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
    tools = release_document.decode(document).all_items
    # Without the texts: they are long, and the digest says whether they are the same.
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


def _written(release: Release, format_: Format, judged: Carried, key: bytes, sub_agent: str = "") -> Export:
    whole, *partial = export_names(format_.name, is_partial=not judged.is_whole, sub_agent=sub_agent)
    name = partial[0] if partial else whole
    body = format_.body(judged.fitting)
    proof = proofs.of_export(key, release=release.pk, format_=name, body=body)
    return Export(release=release, format=name, body=body, proof=proof)
