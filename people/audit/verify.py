"""Verify the audit trail: walk the hash chain and describe the first entry that was tampered with."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import F

from people.audit import content_of
from people.audit.hash_chain import (
    ERASE,
    GENESIS,
    NOTED_IDS,
    digest_of,
    digest_of_erasure,
    hash_of,
    with_id,
)
from people.models import AuditEntry, AuditHead, ErasedEntry

# Entries in memory at once; a trail has millions.
BATCH = 2_000


class FaultCode(StrEnum):
    CHANGED = "changed"
    ID_CHANGED = "id_changed"
    INSERTED = "inserted"
    MOVED = "moved"
    REMOVED = "removed"
    END_REMOVED = "end_removed"
    REWRITTEN = "rewritten"


class AuditFault(NamedTuple):
    """The first fault in the trail, with a sentence about it."""

    code: FaultCode
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a walk along the chain.

    good: how many entries are intact, from the first one on. head: of the last intact entry.
    fault: of the entry after it; None if all are intact.
    passed: whether the earlier head is part of the chain.
    erased: the number of entries from which names of users were erased.
    """

    good: int
    head: str
    fault: AuditFault | None = None
    passed: bool = False
    erased: int = 0

    @property
    def broken(self) -> str:
        return self.fault.message if self.fault else ""


def verify(earlier_head: str = "") -> Verification:
    """Verify the chain. An earlier head, "position:hash", proves that the entries before it are unchanged."""
    is_alone = not connection.in_atomic_block
    with transaction.atomic():
        if is_alone:
            with connection.cursor() as cursor:
                # Both tables are read in one state, whatever is written meanwhile.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL statement_timeout = 0")
        end = AuditHead.objects.filter(pk=1).first() or AuditHead(position=0, hash=GENESIS)
        good, previous, passed = 0, GENESIS, earlier_head in ("", f"0:{GENESIS}")
        erasures = _Erasures()
        ids = _Ids(erasures)
        for entry in AuditEntry.objects.order_by(F("position").asc(nulls_last=True), "pk").iterator(BATCH):
            fault = (
                _find_fault(entry, good + 1, previous, erasures)
                or ids.fault_at(entry)
                or erasures.fault_at(entry)
            )
            if fault:
                return Verification(good, f"{good}:{previous}", fault, passed)
            good, previous = good + 1, entry.hash
            passed = passed or earlier_head == f"{good}:{previous}"
        fault = None
        if (good, previous) != (end.position, end.hash):
            message = (
                f"The last entries are missing: the trail ended at position {end.position:,}, not {good:,}."
            )
            fault = AuditFault(FaultCode.END_REMOVED, message)
        elif ids.are_open:
            message = f"The entry that records the ids of the first {ids.count:,} entries is missing."
            fault = AuditFault(FaultCode.END_REMOVED, message)
        elif erasures.are_open:
            message = "Names were erased from entries, and the entry that records this is missing."
            fault = AuditFault(FaultCode.END_REMOVED, message)
        elif not passed:
            message = f"The head {earlier_head} is not part of this chain: the chain was rewritten."
            fault = AuditFault(FaultCode.REWRITTEN, message)
        return Verification(good, f"{good}:{previous}", fault, passed, erasures.count)


class _Erasures:
    """The entries from which names of users were erased, and the entries that record the erasures."""

    def __init__(self) -> None:
        # If an entry was erased twice, the later row describes the remaining content.
        self._rows = {row.entry: row for row in ErasedEntry.objects.order_by("erasure").iterator(BATCH)}
        self._unrecorded = set(ErasedEntry.objects.values_list("erasure", flat=True).distinct())

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def are_open(self) -> bool:
        return bool(self._unrecorded)

    def covers_id(self, entry: AuditEntry) -> bool:
        """Return whether the digest of the entry, as it was before an erasure, covers its id."""
        if row := self._rows.get(entry.pk):
            return row.covers_id
        return entry.digest != digest_of(content_of(entry))

    def has_expected_content(self, entry: AuditEntry) -> bool:
        content = digest_of(content_of(entry))
        if row := self._rows.get(entry.pk):
            return row.digest == content
        # Entries from before ids were hashed have only the digest of their content.
        return entry.digest in (content, with_id(entry.pk, content))

    def fault_at(self, entry: AuditEntry) -> AuditFault | None:
        """Return a fault if the entry does not match the erasures under its id."""
        if entry.pk not in self._unrecorded:
            return None
        rows = ErasedEntry.objects.filter(erasure=entry.pk).order_by("entry")
        digest = digest_of_erasure(rows.values_list("entry", "covers_id", "digest").iterator(BATCH))
        if entry.action != ERASE or (entry.after or {}).get("digest") != digest:
            message = f"An entry before {_name(entry)} was changed: the erasure left something else in it."
            return AuditFault(FaultCode.CHANGED, message)
        self._unrecorded.discard(entry.pk)
        return None


class _Ids:
    """The ids of entries whose digests do not cover them, up to the entry that records all of them."""

    def __init__(self, erasures: _Erasures) -> None:
        self._erasures = erasures
        self.count = 0
        self.are_open = False
        self._are_recorded = False
        self._digest = hashlib.sha256()

    def fault_at(self, entry: AuditEntry) -> AuditFault | None:
        """Return a fault if `entry` shows that its id or an earlier one was changed."""
        if not self._erasures.covers_id(entry):
            if self._are_recorded:
                message = f"{_name(entry)} was changed: the hash does not cover its id."
                return AuditFault(FaultCode.ID_CHANGED, message)
            line = f"{entry.position}:{entry.pk}"
            self._digest.update((f"\n{line}" if self.count else line).encode())
            self.count, self.are_open = self.count + 1, True
            return None
        if entry.action == NOTED_IDS and self.are_open:
            if (entry.after or {}).get("ids") != self._digest.hexdigest():
                message = f"An entry before {_name(entry)} was changed: it has another id than recorded."
                return AuditFault(FaultCode.ID_CHANGED, message)
            self.are_open = False
        self._are_recorded = not self.are_open
        return None


def _name(entry: AuditEntry) -> str:
    # Control characters are replaced, because a terminal would interpret them.
    text = f"{entry.actor_name}: {entry.action} {entry.label}, {entry.at:%Y-%m-%d %H:%M:%S} UTC"
    return f"Entry {entry.pk} ({''.join(char if char.isprintable() else '?' for char in text)})"


def _find_fault(entry: AuditEntry, expected: int, previous: str, erasures: _Erasures) -> AuditFault | None:
    """Return the fault of this entry, or of the entries between it and the one before it."""
    name = _name(entry)
    if entry.position is None:
        return AuditFault(FaultCode.INSERTED, f"{name} was inserted outside the chain: it has no position.")
    if entry.position < expected:
        message = f"{name} was inserted: another entry has the position {entry.position:,}."
        return AuditFault(FaultCode.INSERTED, message)
    if entry.position > expected:
        message = f"{name} follows a gap: the entry at position {expected:,} was removed."
        return AuditFault(FaultCode.REMOVED, message)
    if not erasures.has_expected_content(entry):
        message = f"{name} was changed: its content or its id differs from its digest."
        return AuditFault(FaultCode.CHANGED, message)
    if entry.previous != previous:
        return AuditFault(FaultCode.MOVED, f"{name} was moved, or the entry before it was replaced.")
    if hash_of(entry.position, entry.previous, entry.digest) != entry.hash:
        message = f"{name} was changed: its hash does not follow from its content."
        return AuditFault(FaultCode.CHANGED, message)
    return None
