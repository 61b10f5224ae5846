"""Older versions of tools, read from the vendor after the listing, so that they can be pinned too.

A listing names current versions only. Whatever a vendor publishes under a tool's history is added
behind the versions we know; the current one is never moved from here.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from catalog import credentials
from catalog.errors import CatalogError
from catalog.models import Endpoint, Finding, Tool, ToolVersion
from catalog.models.findings import Severity
from catalog.models.tools import ToolStatus
from catalog.protocols import base, signature
from catalog.protocols.base import Item, Protocol, UnreadableItemError
from catalog.protocols.errors import ProtocolError, UnavailableError
from catalog.tokens import estimate_tokens

logger = logging.getLogger(__name__)

BATCH = 100
MAX_VERSIONS = 200
SILENT_TOOLS = 5


def read_pending(endpoint_id: int) -> bool:
    """Read the history of up to `BATCH` tools that may have one. True when more are waiting.

    One reader per endpoint at a time; a second one leaves at once. A vendor that is away is asked
    again after its next complete run.
    """
    endpoint = Endpoint.objects.select_related("credential", "vendor").get(pk=endpoint_id)
    with _only_reader(endpoint_id) as is_alone:
        if not is_alone or not endpoint.is_live:
            return False
        tools = list(_pending(endpoint)[: BATCH + 1])
        try:
            _read_all(endpoint, tools[:BATCH])
        except (ProtocolError, CatalogError) as exc:
            logger.warning("older versions of endpoint %s: %s", endpoint_id, exc.message)
            return False
    return len(tools) > BATCH


def _pending(endpoint: Endpoint) -> QuerySet[Tool]:
    """Tools whose label says that there was something before, and whose history was not read since."""
    return (
        Tool.objects.filter(endpoint=endpoint, status=ToolStatus.ACTIVE, versions_read_at=None)
        .filter(current__label_key__gt=[1])
        .order_by("pk")
    )


@contextmanager
def _only_reader(endpoint_id: int) -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext('catalog.history'), %s)", [endpoint_id])
        (is_alone,) = cursor.fetchone()
        try:
            yield is_alone
        finally:
            if is_alone:
                cursor.execute("SELECT pg_advisory_unlock(hashtext('catalog.history'), %s)", [endpoint_id])


def _read_all(endpoint: Endpoint, tools: list[Tool]) -> None:
    protocol = endpoint.speak()
    silent = 0
    with credentials.open_session(endpoint) as session:
        for tool in tools:
            found = list(_listed(protocol, session, tool))
            _add(protocol, tool, found)
            silent = 0 if found else silent + 1
            if silent == SILENT_TOOLS:
                # A vendor that offers no history for five tools in a row offers none at all.
                Tool.objects.filter(pk__in=_pending(endpoint).values("pk")).update(
                    versions_read_at=timezone.now()
                )
                return


def _listed(protocol: Protocol, session: base.Session, tool: Tool) -> Iterator[Item]:
    cursors = set()
    count = 0
    for page in protocol.versions(session, tool.tool_id):
        yield from page.items
        count += len(page.items)
        if page.next in cursors or count > MAX_VERSIONS:
            raise UnavailableError("CURSOR_LOOP", f"The list of versions of {tool.tool_id} does not end.")
        cursors.add(page.next)


@transaction.atomic
def _add(protocol: Protocol, tool: Tool, items: list[Item]) -> None:
    """Append the versions that we do not hold, oldest first; other bytes under a known label are drift."""
    tool = Tool.objects.select_for_update().get(pk=tool.pk)
    held = set(tool.versions.values_list("label", "digest"))
    labels = {label for label, _ in held}
    for item in sorted(items, key=lambda item: item.label_key):
        version = None if (item.label, item.digest) in held else _decoded(protocol, tool, item)
        if version is None:
            continue
        tool.version_count += 1
        version.ordinal = tool.version_count
        version.save(force_insert=True)
        held.add((item.label, item.digest))
        if item.label in labels:
            _raise_drift(tool, version)
        labels.add(item.label)
    tool.versions_read_at = timezone.now()
    tool.save(update_fields=["version_count", "versions_read_at"])


def _decoded(protocol: Protocol, tool: Tool, item: Item) -> ToolVersion | None:
    document = item.document or {}
    try:
        encoded = signature.to_json(protocol.read(document))
    except UnreadableItemError as exc:
        logger.info("version %s of tool %s is unreadable: %s", item.label, tool.pk, exc.reason)
        return None
    return ToolVersion(
        tool=tool,
        label=item.label,
        label_key=list(item.label_key),
        digest=item.digest,
        signature=msgspec.json.decode(encoded),
        raw=base.canonical(document).decode(),
        tokens=estimate_tokens(encoded),
    )


def _raise_drift(tool: Tool, version: ToolVersion) -> None:
    Finding.objects.bulk_create(
        [
            Finding(
                endpoint_id=tool.endpoint_id,
                tool=tool,
                version=version,
                code="DRIFT",
                severity=Severity.HIGH,
                subject=version.digest,
                message=f"The vendor's history shows version {version.label} of “{tool.name}” with other "
                "content than when we first read it. Agents that pinned it keep what they pinned.",
            )
        ],
        ignore_conflicts=True,
    )
