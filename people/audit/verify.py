"""Whether the audit trail is as it was written: walks the chain and names the first entry that is not."""

import hashlib
from dataclasses import dataclass

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

# Entries in memory at once; the trail has millions.
BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Verified:
    """How many entries are good, from the first on, and where they end; `broken` says what comes then.

    `passed` tells whether the head that was asked about lies on the way. `erased`: the number of entries from
    which names of users were erased.
    """

    good: int
    head: str
    broken: str = ""
    passed: bool = False
    erased: int = 0


def verify(kept: str = "") -> Verified:
    """`kept` is a head, "position:hash", that was noted earlier: it proves what came before it."""
    is_alone = not connection.in_atomic_block
    with transaction.atomic():
        if is_alone:
            with connection.cursor() as cursor:
                # One state of both tables, whatever is written meanwhile.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL statement_timeout = 0")
        head = AuditHead.objects.filter(pk=1).first() or AuditHead(position=0, hash=GENESIS)
        return _walk(head, kept)


def _walk(end: AuditHead, kept: str) -> Verified:
    good, previous, passed = 0, GENESIS, kept in ("", f"0:{GENESIS}")
    erasures = _Erasures()
    ids = _Ids(erasures)
    for entry in AuditEntry.objects.order_by(F("position").asc(nulls_last=True), "pk").iterator(BATCH):
        broken = (
            _fault(entry, good + 1, previous, erasures) or ids.fault_at(entry) or erasures.fault_at(entry)
        )
        if broken:
            return Verified(good, f"{good}:{previous}", broken, passed)
        good, previous = good + 1, entry.hash
        passed = passed or kept == f"{good}:{previous}"
    broken = ""
    if (good, previous) != (end.position, end.hash):
        broken = f"The last entries are missing: the trail went on from place {good:,} to {end.position:,}."
    elif ids.are_open:
        broken = (
            f"The ids of the first {ids.count:,} entries are noted nowhere: the entry that does is missing."
        )
    elif erasures.are_open:
        broken = "Names were erased from entries, and the entry that records this is missing."
    elif not passed:
        broken = f"The head {kept} that was kept does not lie in this chain: it was written anew."
    return Verified(good, f"{good}:{previous}", broken, passed, erasures.count)


class _Erasures:
    """The entries from which names of users were erased, and the entries that record it."""

    def __init__(self) -> None:
        # Of an entry that was erased twice the later row states what is left.
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
        # Entries from before ids were hashed have the digest of their content alone.
        return entry.digest in (content, with_id(entry.pk, content))

    def fault_at(self, entry: AuditEntry) -> str:
        """Return a sentence when the entry does not record what was erased under its id."""
        if entry.pk not in self._unrecorded:
            return ""
        rows = ErasedEntry.objects.filter(erasure=entry.pk).order_by("entry")
        digest = digest_of_erasure(rows.values_list("entry", "covers_id", "digest").iterator(BATCH))
        if entry.action != ERASE or (entry.after or {}).get("digest") != digest:
            return f"An entry before {_name(entry)} was changed: the erasure left something else in it."
        self._unrecorded.discard(entry.pk)
        return ""


class _Ids:
    """The ids of entries whose own digests do not cover them, until the entry that notes them all."""

    def __init__(self, erasures: _Erasures) -> None:
        self._erasures = erasures
        self.count = 0
        self.are_open = False
        self._are_noted = False
        self._noted = hashlib.sha256()

    def fault_at(self, entry: AuditEntry) -> str:
        """A sentence when `entry` shows that an id was changed, its own or one before it."""
        if not self._erasures.covers_id(entry):
            if self._are_noted:
                return f"{_name(entry)} was changed: its id is not part of what was hashed."
            line = f"{entry.position}:{entry.pk}"
            self._noted.update((f"\n{line}" if self.count else line).encode())
            self.count, self.are_open = self.count + 1, True
            return ""
        if entry.action == NOTED_IDS and self.are_open:
            if (entry.after or {}).get("ids") != self._noted.hexdigest():
                return (
                    f"An entry before {_name(entry)} was changed: it has another id than when ids were noted."
                )
            self.are_open = False
        self._are_noted = not self.are_open
        return ""


def _name(entry: AuditEntry) -> str:
    # Without control characters, which a terminal would obey.
    told = f"{entry.actor_name}: {entry.action} {entry.label}, {entry.at:%Y-%m-%d %H:%M:%S} UTC"
    return f"Entry {entry.pk} ({''.join(each if each.isprintable() else '?' for each in told)})"


def _fault(entry: AuditEntry, expected: int, previous: str, erasures: _Erasures) -> str:
    # A sentence about what was done to this entry, or before it; "" when nothing was.
    name = _name(entry)
    if entry.position is None:
        return f"{name} was inserted past the chain: it has no place in it."
    if entry.position < expected:
        return f"{name} was inserted: place {entry.position:,} is taken by another entry."
    if entry.position > expected:
        return f"{name} follows a gap: the entry at place {expected:,} was removed."
    if not erasures.has_expected_content(entry):
        return f"{name} was changed: its content, or its id, is not what was hashed."
    if entry.previous != previous:
        return f"{name} stands at another place than it was written, or the one before it was replaced."
    if hash_of(entry.position, entry.previous, entry.digest) != entry.hash:
        return f"{name} was changed: its hash does not follow from its content."
    return ""
