"""The hash chain of the audit trail. Pure; docs/decisions/0017-audit-chain.md.

`digest` is SHA-256 over the entry's id and the SHA-256 of the canonical JSON of its content; the latter is
computed by the writer of the entry, the former by the database, which assigns the id. Entries from
before ids were hashed have only the latter, and one entry (NOTED_IDS) records the ids of all of them.
`hash` is SHA-256 over the entry's place in the chain, the hash before it and that digest; the database
computes it when the transaction commits. A change of either rule would break all existing chains.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

# The hash before the first entry.
GENESIS = "0" * 64
# The action of the entry that records the ids of all entries before it.
NOTED_IDS = "note ids"
# The action of the entry that contains the digest of an erasure.
ERASE = "erase"
CONTENT = (
    *("at", "actor", "actor_name", "action", "kind", "object_id", "label", "agent"),
    *("before", "after", "why"),
)


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of the members CONTENT and of the salt; `at` is an aware datetime, the rest JSON.

    Entries that are older than salts, and erased ones, have none.
    """
    written_at: datetime = content["at"]
    members = {name: _normalize_numbers(content[name]) for name in CONTENT if name != "at"}
    if salt := content.get("salt"):
        members["salt"] = salt
    members["at"] = written_at.astimezone(UTC).isoformat(timespec="microseconds")
    # Canonical JSON: equal contents have one text.
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def with_id(pk: int, digest: str) -> str:
    """Return the digest of an entry from its id and its content's digest, as trigger `audit_enter` does."""
    return hashlib.sha256(f"{pk}\n{digest}".encode()).hexdigest()


def hash_of(position: int, previous: str, digest: str) -> str:
    """Return the hash of a link in the chain, as the trigger `audit_link` computes it: one value a line."""
    return hashlib.sha256(f"{position}\n{previous}\n{digest}".encode()).hexdigest()


def digest_of_erasure(lines: Iterable[tuple[int, bool, str]]) -> str:
    """Return the digest of one erasure.

    lines: of each erased entry, in the order of their ids, the id, whether the digest of the entry covers it,
    and the digest of the remaining content.
    """
    text = "\n".join(f"{entry}:{covers_id:d}:{digest}" for entry, covers_id, digest in lines)
    return hashlib.sha256(text.encode()).hexdigest()


def _normalize_numbers(value: Any) -> Any:
    """Return the value as the database returns it: to JSONB, 1e2, 100.0 and 100 are the same number."""
    if isinstance(value, Mapping):
        return {str(key): _normalize_numbers(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalize_numbers(below) for below in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
