"""Keys of calls and of their threads. No caller chooses or computes one, so no team can block another's.

A key is a keyed digest of an owner and of the name that identifies the call among the owner's. The id that a
client has chosen is stored beside it (`Call.idempotency_key`).
"""

import uuid
from dataclasses import dataclass

from core import encryption
from core.canonical_json import canonical

FIELD = "catalog.call.key"
MAX_STORED_LENGTH = 255


@dataclass(frozen=True, slots=True)
class ClientCallId:
    """The id that a client has chosen for a call; `client_call_id` makes one.

    text: the id as the client sent it; "" if the client sent none.
    part: the call among those that were sent with the same id: an item of a batch, the answer to a question.
    """

    text: str
    part: str = ""

    @property
    def stored_text(self) -> str | None:
        return self.text[:MAX_STORED_LENGTH] or None


def client_call_id(text: str, part: str = "") -> ClientCallId:
    """Return the id with a UUID in its usual form, because clients write the same UUID in several forms."""
    try:
        return ClientCallId(str(uuid.UUID(text)), part)
    except ValueError:
        return ClientCallId(text, part)


def batch_part(index: int) -> str:
    return f"batch {index}"


def owner_of_call(user: int, api_key: int | None) -> str:
    """Return the owner of the ids that a client chooses: its API key, or the user without one."""
    return f"key:{api_key}" if api_key else f"user:{user}"


def key_for(owner: str, name: str, part: str = "") -> uuid.UUID:
    """Raises UndecryptableError if the key of digests cannot be decrypted."""
    facts = canonical([owner, name, part]).decode()
    return uuid.UUID(encryption.keyed_digest(facts, field=FIELD)[:32], version=5)


def key_of_client_call(call_id: ClientCallId, *, user: int, api_key: int | None) -> uuid.UUID:
    return key_for(owner_of_call(user, api_key), call_id.text, call_id.part)


def key_of_step(parent: int, name: str) -> uuid.UUID:
    """Return the key of a call that Pegboard itself makes for the call with this primary key."""
    return key_for(f"call:{parent}", name)


def earlier_key(call_id: ClientCallId, *, user: int, api_key: int | None) -> uuid.UUID:
    """Return the key that releases without owners of keys gave such a call.

    It is looked for among the calls of the same owner alone, and only because a client may repeat a call
    across an upgrade.
    """
    text, part = call_id.text, call_id.part
    if part.startswith("batch "):
        owner = f"key {api_key}" if api_key else f"user {user}"
        return uuid.uuid5(uuid.NAMESPACE_OID, f"batch/{owner}/{part.removeprefix('batch ')}/{text}")
    if not part:
        try:
            return uuid.UUID(text)
        except ValueError:
            pass
    owner = str(api_key) if api_key else f"user {user}"
    name = f"run {text}" if part == "run" else f"{text} {part}" if part else text
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{owner}/{name}")
