"""Several calls of one release, asked for at once. Each is a call like any other: only that they are made
side by side, within a time that holds for all of them.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from django.db import connection

from catalog.calls import queue
from catalog.calls.invocation import NoRoomError
from catalog.calls.queue import TooManyCallsError
from catalog.models.calls import Mode
from core.errors import DomainError
from core.postgresql.base import give_back
from designer.models import Release
from executor import calls
from executor.calls import Answer, Wish
from executor.released_documents import sealed
from people.models import ApiKey, User

MAX_CALLS = 20
# Each holds a thread, of which other requests want some, too.
AT_ONCE = 8
# In seconds, until another call may have ended: calls of a day may hold all places of a key.
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0


class NoTimeError(DomainError):
    retry_after = 1

    def __init__(self) -> None:
        message = "The time of the batch was over before this call's turn. Nothing was sent. Send it again."
        super().__init__("no_time", message, status=503)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A call of a batch. `admit` raises where the caller may not make one more call now."""

    wish: Wish
    admit: Callable[[], None]


def run(
    release: Release, wanted: Sequence[Wanted], *, actor: User, key: ApiKey | None, seconds: float
) -> list[Answer | Exception]:
    """What came of each, in their order: what it raised stands in the place of an answer.

    A call that would be one too many for its key or for this process waits for its turn. None runs longer
    than what is left of the `seconds`, and what has had no turn by then is not made. What a call raises is
    as of `executor.calls.run`.
    """
    ends = time.monotonic() + seconds
    give_back()
    at_once = min(AT_ONCE, len(wanted), key.calls_at_once if key else queue.USERS_CALLS_AT_ONCE)
    with ThreadPoolExecutor(max_workers=max(1, at_once), thread_name_prefix="batch") as threads:
        made = [
            threads.submit(copy_context().run, _of_a_thread, release, each, ends, actor, key)
            for each in wanted
        ]
        return [each.result() for each in made]


def _of_a_thread(
    release: Release, wanted: Wanted, ends: float, actor: User, key: ApiKey | None
) -> Answer | Exception:
    try:
        return _in_turn(release, wanted, ends, partial(calls.run, release, actor=actor, key=key))
    except Exception as error:  # noqa: BLE001 - the other calls have run, and their answers go out
        return error
    finally:
        connection.close()


def _in_turn(release: Release, wanted: Wanted, ends: float, make: Callable[..., Answer]) -> Answer:
    pause = FIRST_PAUSE
    is_admitted, wish, is_waited_for = False, wanted.wish, wanted.wish.mode == Mode.WAIT
    tool = sealed(release).tool(wish.tool, wish.sub_agent)
    usual = tool.retry_policy.give_up_after_seconds if tool else queue.DEADLINE
    while (left := ceil(ends - time.monotonic())) > 0:
        if not is_admitted:
            wanted.admit()
            is_admitted = True
        if is_waited_for and (wish.deadline_seconds or usual) > left:
            wish = replace(wish, deadline_seconds=left)
        try:
            return make(wish)
        except (TooManyCallsError, NoRoomError):
            if not is_waited_for:
                raise
        give_back()
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)
    raise NoTimeError
