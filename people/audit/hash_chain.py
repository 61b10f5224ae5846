"""The chain through the audit trail: what is hashed, and how. Pure; docs/decisions/0017-audit-chain.md.

`digest` is SHA-256 over the entry's id and the SHA-256 of the canonical JSON of its content; the latter is
computed where the entry is written, the former by the database, which gives the id. Entries that are older
than that have the latter alone, and one entry (NOTED_IDS) notes the ids of all of them.
`hash` is SHA-256 over the entry's place in the chain, the hash before it and that digest; the database
computes it when the transaction commits. Neither rule can change without breaking every chain there is.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

# What stands before the first entry.
GENESIS = "0" * 64
# What the entry does that notes the ids of those before it.
NOTED_IDS = "note ids"
# The action of the entry that names the digest of an erasure.
ERASE = "erase"
CONTENT = (
    *("at", "actor", "actor_name", "action", "kind", "object_id", "label", "agent"),
    *("before", "after", "why"),
)


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of the members CONTENT and of the salt; `at` is an aware datetime, the rest JSON.

    Entries that are older than salts, and erased ones, have none.
    """
    at: datetime = content["at"]
    told = {name: _plain(content[name]) for name in CONTENT if name != "at"}
    if salt := content.get("salt"):
        told["salt"] = salt
    told["at"] = at.astimezone(UTC).isoformat(timespec="microseconds")
    # One text for one content, whatever wrote it: this is what is hashed for ever.
    written = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(written.encode()).hexdigest()


def with_id(pk: int, digest: str) -> str:
    # The trigger `audit_enter` writes the same.
    return hashlib.sha256(f"{pk}\n{digest}".encode()).hexdigest()


def hash_of(position: int, previous: str, digest: str) -> str:
    # All three as text, with a line end between them; the trigger `audit_link` writes the same.
    return hashlib.sha256(f"{position}\n{previous}\n{digest}".encode()).hexdigest()


def digest_of_erasure(lines: Iterable[tuple[int, bool, str]]) -> str:
    """Return the digest of one erasure.

    lines: of each erased entry, in the order of their ids, the id, whether the digest of the entry covers it,
    and the digest of what is left.
    """
    text = "\n".join(f"{entry}:{covers_id:d}:{digest}" for entry, covers_id, digest in lines)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    # As the database gives it back: to it, 1e2, 100.0 and 100 are one number.
    if isinstance(value, Mapping):
        return {str(key): _plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(below) for below in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
