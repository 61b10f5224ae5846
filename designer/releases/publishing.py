"""Publishing turns an agent and its sub-agents into a release with a number and a digest."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from django.db import models
from django.http import Http404
from django.utils.http import parse_etags
from django.utils.translation import gettext as _
from django.utils.translation import override
from msgspec import structs

from catalog.models import ToolVersion
from catalog.notifications import outbox
from core.errors import DomainError
from core.query_deadline import long_transaction
from core.translatable import Wording, first_sentences, mark
from designer import exports
from designer.agents import agent_addresses, agents, transfers
from designer.errors import ChecksFailedError
from designer.exports import document as release_document
from designer.exports.base import CarriedTools, Format, carried
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.parts import tools_in
from designer.models import Agent, Export, Release
from designer.models.releases import MAX_NOTE_LENGTH
from designer.pins import token_budget
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
from designer.texts import validated_text
from people import audit
from people.models import User

# The client stores it but has to revalidate: another release may become live at any moment.
CACHE_CONTROL = "private, no-cache"
# The digest of the draft that the user saw.
SEEN: "models.CharField[str, str]" = models.CharField(max_length=64, blank=True)
# The event for notifications; designer/news/news.py has the texts.
PUBLISHED = "release.published"
# The suffix of an export without the tools that its format cannot carry.
PARTIAL = ".partial"
REASONS_SHOWN = 3


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
    """Publish the agent with all its sub-agents. Return the release.

    seen: the digest of the draft that the user saw; a draft that has changed since is not published.
    channel: a channel to move to the release. `expected` is as for `channels.move`.
    accept, reason: codes of failed checks that the user accepts, and why.
    Raises DomainError if there is nothing (new) to publish, ChecksFailedError if a check fails that is not
    accepted.
    """
    note = validated_text(note, field="note", limit=MAX_NOTE_LENGTH)
    reason = validated_text(reason, field="reason", limit=MAX_NOTE_LENGTH)
    # Older releases are numbered outside of the transaction, which locks the whole tree: there may be
    # hundreds of them.
    effective_versions.store_numbers(agent.pk)
    with long_transaction():
        agent = _lock_tree_of(agent)
        tree = composition.trees([agent])[agent.pk]
        document = _compose_changed(agent, tree)
        with override("en"):  # the release and the audit trail store the sentences
            draft_facts = draft_checks.read_facts(tree, document, channels.baseline(agent))
            check_rows = draft_checks.checks_of(draft_facts, actor)
        if failed_checks := not_accepted(check_rows, accept, is_admin=actor.can_administer):
            raise ChecksFailedError(_describe_failed_checks(agent, failed_checks), check_rows)
        accepted = [
            {"code": check.code, "message": str(check.message)}
            for check in check_rows
            if check.severity == "error"
        ]
        reason = reason if accepted else ""
        fits = draft_facts.carried[agent.slug]
        release = Release(agent=agent, created_by=actor, note=note, accepted=accepted, reason=reason)
        _store_release(release, document, fits, seen=seen)
        # In the same transaction, so that no release ever exists without a signature.
        signing.sign(release)
        effective_versions.store_numbers(agent.pk)
        # From now on runtimes may use these addresses of the agent and its sub-agents.
        for node in tree:
            agent_addresses.reserve(node.agent)
        facts: dict[str, Any] = {"number": release.number, "digest": release.digest, "note": note}
        if document.agents:
            facts["sub_agents"] = [sub_agent.slug for sub_agent in document.agents]
        if accepted:
            facts |= {"accepted": [row["message"] for row in accepted], "reason": reason}
        audit.record(actor, "publish", release, after=facts, why=reason or note, agent=agent.pk)
        outbox.add_notice(PUBLISHED, release.pk)
        if channel:
            channels.move(agent, channel, actor=actor, release=release, note=note, expected=expected)
        return release


def _lock_tree_of(agent: Agent) -> Agent:
    # Until the transaction ends no agent of the tree is edited or moved, and no pins or procedures of it
    # change.
    transfers.lock_tree(is_shared=True)
    tree = agents.with_all_below([agent])[agent.pk]
    # In one order, so that users who publish parts of one tree cannot deadlock.
    rows = Agent.objects.filter(pk__in=[row.pk for row in tree]).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk"))
    return agents.lock_agent(agent)


def _compose_changed(agent: Agent, tree: Sequence[Node]) -> ReleaseDocument:
    newest = agent.releases.order_by("-number").first()
    document = composition.document(
        tree, number=composition.number_after(agent, newest.number if newest else 0)
    )
    if document.is_empty:
        message = _("“{agent}” has no tools. Pin one, then publish.").format(agent=agent)
        raise DomainError("nothing_to_publish", message, status=409)
    is_same = newest is not None and composition.is_same(document, release_document.decode(newest.document))
    # The bindings belong to the release, although the digest only covers what a model sees.
    if newest and is_same and not binding_snapshots.list_moved_bindings(agent.pk, newest, document):
        message = _("Nothing has changed since release {number}.").format(number=newest.number)
        raise DomainError("nothing_changed", message, status=409)
    return document


def _store_release(
    release: Release, document: ReleaseDocument, fits: Iterable[tuple[Format, CarriedTools]], *, seen: str
) -> None:
    """Store a new release with its document, and with one export for each format that can carry any of it.

    seen: as for `publish`. Raises DomainError (draft_changed).
    """
    text = release_document.encode(document)
    digest = release_document.digest(text)
    # The digest covers the bytes that would be written, so it detects any change.
    if seen not in ("", digest):
        message = _(
            "“{agent}” has changed since this page was opened. Check the differences, then publish."
        ).format(agent=release.agent)
        raise DomainError("draft_changed", message, status=409)
    key, agent_id = proofs.key(), release.agent_id
    release.number, release.digest, release.document = document.number, digest, text.decode()
    release.proof = proofs.proof_of_release(
        key, agent=agent_id, number=document.number, digest=digest, created_by=release.created_by_id
    )
    release.tool_count = len(document.all_tools)
    release.tokens = token_budget.tokens_of_agent(document.nodes[0])
    release.bindings = binding_snapshots.read_bindings(agent_id, document, records_names=True)
    release.save(force_insert=True)
    # One for each format that can carry any of the release; its page lists what is left out. Exports of
    # sub-agents are written when they are first requested.
    Export.objects.bulk_create(
        _build_export(release, format_, carried_part, key)
        for format_, carried_part in fits
        if carried_part.is_any
    )


def etag_matches(tag: str, if_none_match: str) -> bool:
    """Return whether If-None-Match contains the tag: RFC 9110, 13.1.2."""
    etag = f'"{tag}"'
    # Nearly every runtime sends exactly this, which needs no parsing.
    if if_none_match == etag:
        return True
    # A list or `*`, compared weakly, because proxies may weaken a tag.
    tags = parse_etags(if_none_match)
    return tags == ["*"] or etag in (tag.removeprefix("W/") for tag in tags)


def not_found_error(name: str) -> Exception:
    """Return the error for a release that does not exist, of an agent that the caller may see."""
    if not channels.NAME.fullmatch(name):
        return Http404()
    message = f"“{name}” points to no release of this agent yet. A designer can promote one."
    return DomainError("channel_empty", message, status=404)


def previous_release(release: Release) -> Release | None:
    # The agent's release before this one.
    earlier = Release.objects.filter(agent=release.agent_id, number__lt=release.number)
    return earlier.order_by("-number").first()


def export_names(name: str, *, is_partial: bool, sub_agent: str = "") -> list[str]:
    """Return the names under which an export may be stored: the complete one, and the one without some tools.
    Those of a sub-agent begin with its slug.
    """
    name = f"{sub_agent}/{name}" if sub_agent else name
    return [name, f"{name}{PARTIAL}"] if is_partial else [name]


def export(
    release: Release, name: str, *, is_partial: bool = False, sub_agent: str = ""
) -> tuple[bytes, str]:
    """Return one agent of the release in one format, and the name under which it is stored.

    The bytes never change; they are written when it is published or first requested.
    is_partial: leave out tools that the format cannot carry. sub_agent: a slug, "" for the published agent.
    Raises DomainError for an unknown format and for one that cannot carry the agent; Http404 for an agent
    that is not in the release.
    """
    format_ = find_format(name)
    names = export_names(name, is_partial=is_partial, sub_agent=sub_agent)
    rows = dict(release.exports.filter(format__in=names).values_list("format", "body"))
    if stored_name := next((name_ for name_ in names if name_ in rows), ""):
        return bytes(rows[stored_name]), stored_name
    # The first export of a sub-agent, or the format was added after the release: it is written and stored.
    carried_part = carried(part_of(release, sub_agent), format_.limits)
    if not carried_part.is_whole and not (is_partial and carried_part.is_any):
        raise DomainError("format_cannot_carry", _explain_refusal(name, carried_part), status=409)
    # Two concurrent first requests write the same bytes; both return the stored row.
    row = _build_export(release, format_, carried_part, proofs.key(), sub_agent)
    stored, _ = Export.objects.get_or_create(
        release=release, format=row.format, defaults={"body": row.body, "proof": row.proof}
    )
    return stored.as_bytes(), stored.format


def export_of_tool(release: Release, name: str, tool: str, *, sub_agent: str = "") -> bytes:
    """Return one tool in one format, as in the complete export. `tool` is the name for models.

    Raises DomainError for an unknown format and for one that has no tools or cannot carry this one; Http404.
    """
    format_ = find_format(name)
    carried_part = carried(part_of(release, sub_agent), format_.limits)
    names = [row.signature.name for row in carried_part.fitting.tools]
    if tool not in (*names, *carried_part.left_out):
        raise Http404
    if format_.places is None:
        message = f"“{name}” does not contain single tools. Use another format."
        raise DomainError("format_cannot_carry", message, status=409)
    if tool in carried_part.left_out:
        reasons = [remark.message for remark in carried_part.blocking if remark.tool == tool]
        raise DomainError("format_cannot_carry", " ".join(reasons[:REASONS_SHOWN]), status=409)
    full_export, _ = export(release, name, is_partial=True, sub_agent=sub_agent)
    return msgspec.json.encode(tools_in(msgspec.json.decode(full_export), format_.places)[names.index(tool)])


def export_of_version(
    release: Release, name: str, tool: ReleasedTool, *, sub_agent: str = ""
) -> bytes | None:
    """Return the export of a tool in another version than the released one; None if the format cannot carry
    it.
    """
    format_ = find_format(name)
    document = structs.replace(part_of(release, sub_agent), tools=(tool,), transfers=(), procedures=())
    carried_part = carried(document, format_.limits)
    if format_.places is None or not carried_part.fitting.tools:
        return None
    export_document = msgspec.json.decode(format_.body(carried_part.fitting))
    return msgspec.json.encode(tools_in(export_document, format_.places)[0])


def part_of(release: Release, sub_agent: str) -> ReleaseDocument:
    """Return one agent of the release; "" is the published one. Raises Http404."""
    document = release_document.decode(release.document).for_agent(sub_agent)
    if document is None:
        raise Http404
    return document


def _explain_refusal(name: str, carried_part: CarriedTools) -> str:
    # The first reasons only, because a list of hundreds is not read, and what to do.
    reasons = [remark.message for remark in carried_part.blocking]
    message = " ".join(reasons[:REASONS_SHOWN])
    if len(reasons) > REASONS_SHOWN:
        message += f" And {len(reasons) - REASONS_SHOWN} more like these."
    count = len(carried_part.left_out)
    if not count:
        return message
    advice = (
        f"Add partial=1 to leave out {count} of {count + len(carried_part.fitting.tools)} tools."
        if carried_part.is_partial
        else f"“{name}” supports none of its tools. Use another format."
    )
    return f"{message} {advice}"


def find_format(name: str) -> Format:
    try:
        return exports.get(name)
    except KeyError:
        names = ", ".join(format_.name for format_ in exports.FORMATS)
        message = f"The formats are: {names}."
        raise DomainError("unknown_format", message, fields={"format": message}) from None


def verify(release: Release) -> list[str]:
    """Return a sentence for each part that differs from the published one; empty if none does."""
    document = release.document.encode()
    problems = []
    if release_document.digest(document) != release.digest:
        problems.append("The document does not match its digest.")
    tools = release_document.decode(document).all_items
    # Without the texts, which are long: the digest detects changes.
    rows = ToolVersion.objects.filter(tool__in=[tool.id for tool in tools]).defer("signature", "raw")
    version_rows = {(row.tool_id, row.ordinal): row for row in rows}
    for tool in tools:
        row = version_rows.get((tool.id, tool.version.ordinal))
        if row is None:
            problems.append(
                f"The catalog no longer has the version of “{tool.signature.name}” in this release."
            )
        elif row.digest != tool.version.digest:
            problems.append(f"The catalog's version {row.name} of “{tool.signature.name}” differs.")
    return problems


def _describe_failed_checks(agent: Agent, failed: Sequence[Check]) -> Wording:
    reasons = first_sentences((check.message for check in failed), REASONS_SHOWN)
    if any(check.accepted_by == "admin" for check in failed):
        template = mark("“{agent}” is not published: {reasons} Fix this, or an administrator accepts it.")
    else:
        template = mark(
            "“{agent}” is not published: {reasons} Fix this, or accept it by its code, with a reason."
        )
    return Wording(template, {"agent": agent, "reasons": reasons})


def _build_export(
    release: Release, format_: Format, carried_part: CarriedTools, key: bytes, sub_agent: str = ""
) -> Export:
    full_name, *partial = export_names(
        format_.name, is_partial=not carried_part.is_whole, sub_agent=sub_agent
    )
    name = partial[0] if partial else full_name
    body = format_.body(carried_part.fitting)
    proof = proofs.proof_of_export(key, release=release.pk, format_=name, body=body)
    return Export(release=release, format=name, body=body, proof=proof)
