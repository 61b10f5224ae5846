"""Checks before anything is served: keys, networks, the pooler. If one fails, no process starts."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connections

from core import encryption
from core.encryption import KeyringError
from core.outbound.policy import callback_policy, installation_egress, outbound_policy
from core.own_commands import MANAGE
from core.public_url import own_address_problems
from pegboard import pooler

MIN_SECRET_KEY_LENGTH = 32
WELL_KNOWN = ("unsafe-", "django-insecure-")  # the first one is our own default


def problems() -> Iterator[str]:
    """Yield the problems of the settings, each with what to do. An unreachable database is none."""
    if settings.SECRET_KEY.startswith(WELL_KNOWN) or len(settings.SECRET_KEY) < MIN_SECRET_KEY_LENGTH:
        yield (
            "PEGBOARD_SECRET_KEY is missing, too short, or a well-known one. "
            "Give it 50 random characters or more: sessions are signed with it."
        )
    yield from own_address_problems()
    yield from network_problems()
    if is_foreign(Path(settings.SEARCH_DIRECTORY)):
        yield (
            f"Another account owns {settings.SEARCH_DIRECTORY}, so an index of tools is not safe there. "
            "Set PEGBOARD_SEARCH_DIRECTORY to a directory of this account."
        )
    if refusal := pooler.refusal():
        yield refusal
    try:
        ring = encryption.keyring()
    except KeyringError as exc:
        yield str(exc)
        return
    try:
        missing = encryption.missing_keys(ring)
    except DatabaseError:
        missing = {}  # without a database, and before the first migration, there is no secret to decrypt
    for key_id, count in sorted(missing.items()):
        yield (
            f"The key “{key_id}” is not in PEGBOARD_KEYS, and {count:,} stored secrets cannot be "
            "decrypted without it. Put it back. If it is lost, give these secrets up and enter them again: "
            f"{MANAGE} rotate_keys --forget {key_id}"
        )


def is_foreign(directory: Path) -> bool:
    """Return whether another account made the directory in a place where every account may write."""
    try:
        is_shared = bool(directory.parent.stat().st_mode & stat.S_IWOTH)
        return is_shared and directory.lstat().st_uid != os.getuid()
    except OSError:
        return False


def network_problems() -> Iterator[str]:
    """Return the settings of outbound requests that cannot be read."""
    try:
        installation_egress()
    except ValueError as exc:
        yield f"{exc}."
        return
    try:
        outbound_policy()
        callback_policy()
    except ValueError as exc:
        yield f"{exc}. Write networks as 10.20.0.0/16:443,8000-8100 and ports as 443,8443."


# A process that has passed sets this for its forks: another check would write to shared memory.
has_passed = False


def refuse_with_problems(**_: object) -> None:
    """Check the settings of a process that serves, before it forks. Raises SystemExit with the problem."""
    if has_passed:
        return
    messages = list(problems())
    connections.close_all()  # children open their own
    if messages:
        raise SystemExit("Pegboard does not start.\n" + "\n".join(messages))
