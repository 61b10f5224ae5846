"""Second looks: read an endpoint's list as another client and compare it with Pegboard's list.

Only this detects a vendor that shows a good tool to reviewers and a poisoned one to Pegboard. If an
administrator has turned it on, a worker reads the list about once a week and on request, without the
credential, and under another name if one was entered. Fewer tools for strangers are honest. The same version
with other bytes is a finding, which stores both documents.

A look writes nothing that an enumeration writes: no tool, version, cached page, failure, circuit or state of
a credential. An endpoint has one look at a time, claimed by compare-and-set with a lease; `attempt` fences
off a worker that resumes late. docs/decisions/0021-second-look.md gives the reasons.
"""

import logging
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Greatest, Now
from django.utils import timezone
from django.utils.translation import gettext as _
from msgspec import structs

from catalog import worker_audit
from catalog.credentials import sessions
from catalog.credentials.circuit_breaker import is_about_token
from catalog.enumeration import current_tools
from catalog.enumeration.lease import LostLeaseError
from catalog.models import Endpoint, Finding, OtherAnswer, Run, SecondLook, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE
from catalog.models.second_looks import LookResult, OtherClient
from catalog.notifications import outbox
from catalog.rules import diff
from catalog.second_look import cloaking
from catalog.second_look.cloaking import CODE, Sight
from core import log_context, wakes
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.session import AGENT
from people import audit
from people.models import User
from protocols import list_pages, signature
from protocols.list_pages import Item, NoKnownPages, UnreadableItemError, identity
from protocols.signature import Signature

logger = logging.getLogger(__name__)

# A vendor that treats callers differently does so for long, and a look costs as much as several enumerations.
EVERY = timedelta(days=7)
AGAIN = timedelta(days=1)
# An enumeration of the same endpoint is under way, or about to be: it comes first.
PUT_OFF = timedelta(minutes=1)
# Longer than the longest pause of a living worker between two extensions.
LEASE = timedelta(minutes=5)
EXTEND_EVERY = 10.0
MAX_TRIES = 3
AT_ONCE = 2
MAX_SECONDS = 200.0  # the task is ended after 350, and the last page of each client may take 60 more
MAX_FINDINGS = 100
TASK = "catalog.tasks.look_again"
# A header carries it: visible ASCII characters, and blanks between them.
_NAME = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?")
# Lists after the first one as another client. A vendor that alternates its answers, or two servers that
# differ, match this order only by chance: it is the Thue-Morse sequence. The first ENOUGH of them do when
# the time is over.
REPEATS = (False, False, True, False, True, True, False)  # True: as another client
ENOUGH = 3


class _PutOffError(Exception):
    """A run of the endpoint has begun in the meantime."""


@dataclass(frozen=True, slots=True)
class DifferentItem:
    """A tool of which `client` is shown something else than we are, which is `version`."""

    tool: str
    client: OtherClient
    version: ToolVersion
    item: Item
    signature: Signature
    severity: str
    message: str

    @property
    def subject(self) -> str:
        return cloaking.subject(self.version.digest, self.item.digest)


def look_of_endpoint(endpoint: Endpoint) -> SecondLook:
    """Return the row of an endpoint. It is unsaved until an administrator turns the second look on."""
    look = SecondLook.objects.filter(pk=endpoint.pk).select_related("requested_by").first()
    return look or SecondLook(endpoint=endpoint, due_at=timezone.now())


@transaction.atomic
def request(endpoint: Endpoint, *, actor: User) -> SecondLook:
    """Request a second look at the endpoint's tools, and return its row. A running look is not repeated.

    Raises DomainError: 409 `second_look_off` or `not_read`.
    """
    look = _lock_row(endpoint)
    if not look.is_on:
        message = _("The cross-check of this endpoint is off. An administrator can turn it on.")
        raise DomainError("second_look_off", message, status=409)
    if endpoint.last_success_at is None:
        message = _("There is nothing to compare with yet. Sync this endpoint first, then check again.")
        raise DomainError("not_read", message, status=409)
    if not look.is_under_way:
        look.due_at, look.requested_by, look.tries = Now(), actor, 0
        look.save(update_fields=["due_at", "requested_by", "tries"])
        audit.record(actor, "ask for a second look", endpoint)
        transaction.on_commit(partial(_wake_worker, endpoint.pk), robust=True)
    return SecondLook.objects.select_related("requested_by").get(pk=endpoint.pk)


@transaction.atomic
def switch(
    endpoint: Endpoint, *, actor: User, is_on: bool | None = None, other_name: str | None = None
) -> SecondLook:
    """Turn the second look on or off, and set its other name. None leaves a value as it is."""
    look = _lock_row(endpoint)
    before = _audited_values(look)
    look.is_on = look.is_on if is_on is None else is_on
    look.other_name = look.other_name if other_name is None else other_name.strip()
    if look.other_name and not _NAME.fullmatch(look.other_name):
        raise invalid(other_name=_("Enter up to 100 ASCII characters."))
    if look.is_on and not endpoint.credential_id and not look.other_name:
        message = _("This endpoint has no credential, so the check needs another client name. Enter one.")
        raise invalid(other_name=message)
    if (after := _audited_values(look)) != before:
        if not look.is_on:
            # The next attempt's number keeps a worker that looks at this moment from writing.
            look.attempt, look.tries, look.lease_until, look.requested_by = look.attempt + 1, 0, None, None
        elif not before["second_look"]:
            look.due_at = Now()
        look.save()
        audit.record(actor, "edit", endpoint, before=before, after=after)
        look.refresh_from_db()
    return look


def _audited_values(look: SecondLook) -> dict[str, Any]:
    return {"second_look": look.is_on, "second_look_name": look.other_name}


def _lock_row(endpoint: Endpoint) -> SecondLook:
    if not endpoint.is_live:
        message = _("This endpoint was removed, so it is not synced any more.")
        raise DomainError("endpoint_removed", message, status=409)
    SecondLook.objects.bulk_create([SecondLook(endpoint=endpoint, due_at=Now())], ignore_conflicts=True)
    return SecondLook.objects.select_for_update(of=("self",), no_key=True).get(pk=endpoint.pk)


def tick() -> None:
    """Start due looks, a few at a time. Called once a minute; safe to call twice."""
    hopeless = SecondLook.objects.filter(lease_until__lt=Now(), tries__gte=MAX_TRIES)
    for look in hopeless.select_related("endpoint"):
        message = (
            f"The worker stopped {MAX_TRIES} times during the check, so it was given up for now. Check the "
            "worker's log."
        )
        _conclude(look, LookResult.FAILED, message, EVERY)
    free = max(0, AT_ONCE - SecondLook.objects.filter(lease_until__gte=Now()).count())
    for endpoint_id in _due_looks().order_by("due_at").values_list("pk", flat=True)[:free]:
        if not _wake_worker(endpoint_id):
            return


def _wake_worker(endpoint_id: int) -> bool:
    return wakes.wake_worker(TASK, endpoint_id)


def _due_looks() -> QuerySet[SecondLook]:
    # Looks that are on, due and unclaimed. Without a request only endpoints whose runs succeed.
    active = Run.objects.filter(endpoint=OuterRef("pk"), status__in=ACTIVE)
    is_free = Q(lease_until=None) | Q(lease_until__lt=Now())
    is_well = Q(
        endpoint__is_paused=False,
        endpoint__failures=0,
        endpoint__held_run=None,
        endpoint__last_success_at__isnull=False,
    )
    is_shut = Q(endpoint__circuit__open_until__gt=Now())
    due = SecondLook.objects.filter(is_free, is_on=True, due_at__lte=Now(), tries__lt=MAX_TRIES)
    live = due.filter(endpoint__removed_at=None, endpoint__vendor__removed_at=None)
    requested_or_well = live.filter(Q(requested_by__isnull=False) | (is_well & ~is_shut))
    return requested_or_well.exclude(Exists(active))


def perform(endpoint_id: int) -> None:
    """Perform one look if it is due. Does nothing if another worker has claimed it or it is done."""
    rows = SecondLook.objects.filter(pk=endpoint_id)
    with transaction.atomic():
        # The lock first, then the question: an answer from before the wait may be wrong after it.
        is_locked = bool(rows.select_for_update(skip_locked=True).values_list("pk"))
        if not is_locked or not _due_looks().filter(pk=endpoint_id):
            return
        rows.update(attempt=F("attempt") + 1, tries=F("tries") + 1, lease_until=Now() + LEASE)
        look = rows.select_related("endpoint__vendor", "endpoint__credential", "requested_by").get()
    failpoint("look-claimed")
    with log_context.log_context(endpoint_id=endpoint_id):
        try:
            sights, differences = _Look(look).look()
            failpoint("looked")
            _record_look(look, sights, differences)
        except LostLeaseError:
            logger.warning("the second look was taken up by another worker; nothing written")
        except _PutOffError:
            _claimed_row(look).update(
                due_at=Now() + PUT_OFF, lease_until=None, tries=Greatest(F("tries") - 1, 0)
            )
        except (ProtocolError, DomainError) as exc:
            _conclude(look, LookResult.FAILED, exc.message, AGAIN)


def _claimed_row(look: SecondLook) -> QuerySet[SecondLook]:
    return SecondLook.objects.filter(pk=look.pk, attempt=look.attempt, lease_until__isnull=False)


class _Look:
    """One look: the list as each client, and both lists several times more where something differs."""

    def __init__(self, look: SecondLook) -> None:
        self.row = look
        self.endpoint = look.endpoint
        self.protocol = self.endpoint.build_protocol()
        current = current_tools.read_current_tools(self.endpoint)
        self.own_tools = {tool: own_tool for tool, own_tool in current.items() if own_tool.is_active}
        earlier_findings = Finding.objects.filter(endpoint=self.endpoint, code=CODE)
        self.reported_subjects = set(earlier_findings.values_list("tool_id", "subject"))
        self.found_subjects: set[tuple[int, str]] = set()
        self.clients = [
            *([OtherClient.ANONYMOUS] if self.endpoint.credential else []),
            *([OtherClient.OTHER_PROGRAM] if look.other_name else []),
        ]
        self.ends = 0.0
        self.extended = time.monotonic()

    def look(self) -> tuple[list[Sight], list[DifferentItem]]:
        if not self.clients:
            message = "This endpoint has no credential, so the check needs another client name. Enter one."
            raise DomainError("no_other_client", message)
        sights: list[Sight] = []
        every: list[DifferentItem] = []
        for client in self.clients:
            self.ends = time.monotonic() + MAX_SECONDS / len(self.clients)
            sight = Sight(str(client.label), listed_count=len(self.own_tools))
            try:
                differences = self._find_differences(client, sight)
            except ProtocolError as error:
                if is_about_token(error):
                    raise
                sight.error, differences = error, []
            sights.append(sight)
            every += differences
            self.found_subjects |= {
                (difference.version.tool_id, difference.subject) for difference in differences
            }
        return sights, every

    def _find_differences(self, client: OtherClient, sight: Sight) -> list[DifferentItem]:
        items = self._read_list(client)
        sight.shown_count = len(items.keys() & self.own_tools.keys())
        differing = {tool: item for tool, item in items.items() if self._is_different(tool, item)}
        subjects = {}
        for tool, item in differing.items():
            own_tool = self.own_tools[tool]
            subjects[tool] = (own_tool.pk, cloaking.subject(own_tool.digest, item.digest))
        sight.known_count = sum(subject in self.reported_subjects for subject in subjects.values())
        sight.new_count = sum(subject in self.found_subjects for subject in subjects.values())
        reported = self.reported_subjects | self.found_subjects
        fresh = {tool: item for tool, item in differing.items() if subjects[tool] not in reported}
        all_differences = list(self._compare_items(client, fresh, sight))
        suspects = all_differences[:MAX_FINDINGS]
        sight.left_count = len(all_differences) - len(suspects)
        steady = self._confirm_differences(client, suspects)
        sight.new_count += len(steady)
        sight.unsteady = len(suspects) - len(steady)
        return steady

    def _is_different(self, tool: str, item: Item) -> bool:
        # Other content under the same label. Another label means another version, which is honest.
        own_tool = self.own_tools.get(tool)
        return own_tool is not None and item.label == own_tool.label and item.digest != own_tool.digest

    def _compare_items(
        self, client: OtherClient, fresh: Mapping[str, Item], sight: Sight
    ) -> Iterator[DifferentItem]:
        """Yield the tools that differ for a model, and not only in their spelling."""
        own_tools = [self.own_tools[tool] for tool in fresh]
        rows = ToolVersion.objects.filter(
            tool__in=[own_tool.pk for own_tool in own_tools],
            digest__in=[own_tool.digest for own_tool in own_tools],
        ).defer("raw")
        versions = {(row.tool_id, row.label, row.digest): row for row in rows}
        for tool, item in fresh.items():
            own_tool = self.own_tools[tool]
            version = versions[own_tool.pk, own_tool.label, own_tool.digest]
            try:
                other_signature = self.protocol.read(item.document or {})
            except UnreadableItemError:
                sight.unreadable += 1
                continue
            own_signature = version.decoded()
            comparison = diff.compare(other_signature, own_signature)
            if not cloaking.is_same_for_models(other_signature, own_signature, comparison):
                verdict = cloaking.verdict(
                    comparison, name=own_signature.name, label=own_tool.label, client=str(client.label)
                )
                yield DifferentItem(tool, client, version, item, other_signature, *verdict)

    def _confirm_differences(
        self, client: OtherClient, suspects: Sequence[DifferentItem]
    ) -> list[DifferentItem]:
        """Return the differences that repeated lists of both clients confirm, so that a changing list is no
        finding.
        """
        steady = list(suspects)
        for number, is_other in enumerate(REPEATS):
            if not steady:
                break
            try:
                again = self._read_list(client if is_other else None)
            except UnavailableError as error:
                return steady if error.code == "DEADLINE" and number >= ENOUGH else []
            revision = self.protocol.revision
            steady = [
                difference
                for difference in steady
                if (item := again.get(difference.tool))
                and item.label == difference.version.label
                and (
                    item.digest == difference.item.digest
                    if is_other
                    else list_pages.is_digest_of(difference.version.digest, item.digest, revision)
                )
            ]
        return steady

    def _read_list(self, client: OtherClient | None) -> dict[str, Item]:
        """Return the listed items by identity, with documents for those that differ. None reads as Pegboard.

        A tool that is listed twice with different content is left out, as in an enumeration.
        """
        _yield_to_runs(self.endpoint)
        if time.monotonic() > self.ends:
            raise UnavailableError("DEADLINE", "The list could not be read often enough in time.")
        self._extend_lease()
        items: dict[str, Item] = {}
        twofold: set[str] = set()
        with sessions.open_as_other_client(
            self.endpoint,
            agent=(client and self.row.other_name) or AGENT,
            with_credential=client != OtherClient.ANONYMOUS,
        ) as session:
            for number, page in enumerate(self.protocol.enumerate(session, NoKnownPages()), start=1):
                for item in page.items:
                    tool = identity(item.tool_id)
                    if tool in items and items[tool].digest != item.digest:
                        twofold.add(tool)
                    items[tool] = (
                        item if self._is_different(tool, item) else structs.replace(item, document=None)
                    )
                if time.monotonic() - self.extended > EXTEND_EVERY:
                    self._extend_lease()
                is_over = len(items) > self.endpoint.max_tools or time.monotonic() > self.ends
                if page.next is not None and is_over:
                    message = f"The list did not end in time ({number} pages were read)."
                    raise UnavailableError("DEADLINE", message)
            if not session.bytes_read:
                raise RefusedError(
                    "BY_HAND", "The list was entered here by hand, so there is no vendor to check."
                )
        return {tool: item for tool, item in items.items() if tool not in twofold}

    def _extend_lease(self) -> None:
        self.extended = time.monotonic()
        if not _claimed_row(self.row).update(lease_until=Now() + LEASE):
            raise LostLeaseError


def _yield_to_runs(endpoint: Endpoint) -> None:
    if Run.objects.filter(endpoint=endpoint, status__in=ACTIVE).exists():
        raise _PutOffError


@transaction.atomic
def _record_look(look: SecondLook, sights: Sequence[Sight], differences: Sequence[DifferentItem]) -> None:
    # Writes the findings with both documents; raises LostLeaseError if another worker has claimed the look.
    if not _claimed_row(look).select_for_update(no_key=True).values_list("pk"):
        raise LostLeaseError
    _yield_to_runs(look.endpoint)  # it locks tools, too, in an order of its own
    # Drops tools whose version has changed in the meantime, or that were removed.
    tools = Tool.objects.filter(
        pk__in=[difference.version.tool_id for difference in differences], endpoint__removed_at=None
    )
    rows = tools.order_by("pk").select_for_update(no_key=True, of=("self",))
    version_ids = {pk for difference in rows.values_list("current_id", "stopped_id") for pk in difference}
    current = [difference for difference in differences if difference.version.pk in version_ids]
    new_count = _raise_findings(look.endpoint, current)
    failpoint("look-recorded")
    if new_count:
        outbox.report_waiting_review(look.endpoint_id)
        worker_audit.record_cloaking(look, new_count, cloaking.summary(sights))
    _finish(
        look,
        _result_of_sights(sights),
        cloaking.summary(sights),
        AGAIN if any(sight.is_open for sight in sights) else EVERY,
    )


def _raise_findings(endpoint: Endpoint, differences: Sequence[DifferentItem]) -> int:
    """Return the number of new findings. Two documents are reported once, whatever the decision was."""
    rows = [
        Finding(
            endpoint=endpoint,
            tool_id=difference.version.tool_id,
            version=difference.version,
            code=CODE,
            severity=difference.severity,
            subject=difference.subject,
            message=difference.message,
            state=FindingState.OPEN,
        )
        for difference in differences
    ]
    Finding.objects.bulk_create(rows, ignore_conflicts=True)
    about = {(difference.version.tool_id, difference.subject): difference for difference in differences}
    raised = Finding.objects.filter(
        endpoint=endpoint, code=CODE, tool__in=[tool for tool, _unused in about], other_answer=None
    )
    other_answers = [
        OtherAnswer(
            finding=row,
            client=difference.client,
            digest=difference.item.digest,
            signature=signature.to_json(difference.signature).decode(),
            raw=canonical(difference.item.document or {}).decode(),
        )
        for row in raised
        if (difference := about.get((row.tool_id, row.subject)))
    ]
    OtherAnswer.objects.bulk_create(other_answers)
    return len(other_answers)


def _result_of_sights(sights: Sequence[Sight]) -> LookResult:
    if any(sight.others for sight in sights):
        return LookResult.OTHER
    if any(sight.unsteady or sight.unreadable for sight in sights):
        return LookResult.UNSURE
    if any(sight.shown_count for sight in sights):
        return LookResult.SAME
    is_failed = any(sight.error and not sight.is_refused for sight in sights)
    return LookResult.FAILED if is_failed else LookResult.NOTHING


@transaction.atomic
def _conclude(look: SecondLook, result: LookResult, message: str, pause: timedelta) -> None:
    _finish(look, result, message, pause)


def _finish(look: SecondLook, result: LookResult, message: str, pause: timedelta) -> None:
    # Writes the result of a look, if this worker still holds the lease.
    share = random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
    _claimed_row(look).update(
        due_at=Now() + pause * share,
        lease_until=None,
        tries=0,
        requested_by=None,
        looked_at=Now(),
        result=result,
        says=message,
    )
