"""Keys of calls and of their threads. No caller chooses or computes one, so no team can block another's.

A key is a keyed digest of an owner and of the name that identifies the call among the owner's. The id that a
client has chosen is stored beside it (`Call.idempotency_key`). A key is stored longer than its call, so that
nothing runs twice.
"""

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from catalog.models import Call, CallId
from core import encryption, portions
from core.canonical_json import canonical, digest
from core.errors import DomainError

FIELD = "catalog.call.key"
MAX_STORED_LENGTH = 255
# Clients are promised a day (docs/exports.md). The additional hour allows for clocks that differ.
ID_RETENTION = timedelta(hours=25)
# Of each step of a test of a procedure.
MAX_TRIES = 20
_TEST = re.compile(r"test:([0-9]{1,18}):([0-9a-f-]{36}):([0-9]{1,4})")


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
    """Return the key of a call. Raises UndecryptableError if the key of digests cannot be decrypted."""
    facts = canonical([owner, name, part]).decode()
    return uuid.UUID(encryption.keyed_digest(facts, field=FIELD)[:32], version=5)


def key_of_client_call(call_id: ClientCallId, *, user: int, api_key: int | None) -> uuid.UUID:
    return key_for(owner_of_call(user, api_key), call_id.text, call_id.part)


def key_of_step(parent: int, name: str) -> uuid.UUID:
    """Return the key of a call that Pegboard itself makes for the call with this primary key."""
    return key_for(f"call:{parent}", name)


def key_of_test_step(procedure: int, run: str, step: int, again: int) -> uuid.UUID:
    return key_for(f"procedure:{procedure}", run, f"{step}.{again}")


def mark_of_test(procedure: int, run: uuid.UUID, steps: int) -> str:
    """Return the mark of the calls of a test, by which `keys_of_test` finds them all."""
    return f"test:{procedure}:{run}:{steps}"


def name_of_test(mark: str) -> str:
    """Return the mark without the number of steps, which an edit changes; "" if it is not that of a test."""
    return mark.rpartition(":")[0] if _TEST.fullmatch(mark) else ""


def keys_of_test(mark: str) -> list[uuid.UUID]:
    """Return the keys of all tries of the test's steps; none if the mark is not that of a test."""
    if (match := _TEST.fullmatch(mark)) is None:
        return []
    procedure, run, steps = match.groups()
    return [
        key_of_test_step(int(procedure), run, step, again)
        for step in range(1, int(steps) + 1)
        for again in range(MAX_TRIES)
    ]


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


def knows_id(keys: Collection[uuid.UUID]) -> bool:
    """Return whether a call was made with one of these keys in the last day, even if it is not stored."""
    return CallId.objects.filter(key__in=keys).exists()


def find_earlier(call: Call, earlier_key: uuid.UUID | None) -> Call | None:
    """Return the earlier call with this key. Raises DomainError if it differs or is not stored any more."""
    keys, digest_now = [call.key, *([earlier_key] if earlier_key else [])], digest_of_request(call)
    # The call's row may be deleted. Its id is stored longer, so that nothing runs twice. The id is read
    # first: both are committed at once, so a process that reads the id of a running call also reads its row.
    digests = dict(CallId.objects.filter(key__in=keys).values_list("key", "digest"))
    existing = Call.objects.filter(key__in=keys, requested_by=call.requested_by, api_key=call.api_key).first()
    if call.key in digests:
        stored_digest = digests[call.key]
    elif existing:
        stored_digest = digest_of_request(existing)
    elif earlier_key and digests.get(earlier_key) == digest_now:
        # The digest includes the owner, so the id of another owner never matches.
        stored_digest = digest_now
    else:
        return None
    if stored_digest != digest_now:
        raise DomainError("key_taken", "Another call was made with this id. Use a new one.", status=409)
    if existing is None:
        message = (
            "This call was made before and is not sent again. Its result is not stored any more. "
            "To run the tool once more, use a new id."
        )
        raise DomainError("call_forgotten", message, status=409)
    return existing


def digest_of_request(call: Call) -> str:
    """Return a digest of the request and its user. Calls with the same digest are one call."""
    facts = ("tool_id", "version_id", "requested_by_id", "api_key_id", "agent", "continues_id", "arguments")
    # Without these members, so that earlier calls keep their digests.
    sub_agent = [call.sub_agent] if call.sub_agent else []
    user = [{"on_behalf_of": call.on_behalf_of}] if call.on_behalf_of else []
    thread = [{"thread": call.thread_id}] if call.thread_id else []
    environment = [{"environment": call.environment}] if call.environment else []
    optional_members = [*sub_agent, *user, *thread, *environment]
    return digest([*(getattr(call, fact) for fact in facts), *optional_members])


def forget_ids() -> bool:
    """Delete ids that are too old to be repeated. Return whether more are left."""
    return portions.delete(CallId.objects.filter(made_at__lt=Now() - ID_RETENTION))
