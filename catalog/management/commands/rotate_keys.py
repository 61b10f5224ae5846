"""`manage.py rotate_keys`: encrypts every secret under the first of PEGBOARD_KEYS; older keys may then go."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalog.credentials import rotation
from catalog.credentials.rotation import RotationProgress
from core import encryption
from core.encryption import Keyring, KeyringError
from core.errors import DomainError
from core.own_commands import MANAGE


class Command(BaseCommand):
    help = "Encrypts every secret under the first of PEGBOARD_KEYS. The product may run meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--forget",
            metavar="KEY",
            help="give up the secrets of a key that is lost; people enter them again",
        )

    def handle(self, *args: Any, forget: str | None, **options: Any) -> None:
        try:
            if forget:
                self.stdout.write(f"{_format_count(rotation.forget(forget))} forgotten.")
            ring = encryption.keyring()
            progress = rotation.rotate(self.show)
        except (KeyringError, DomainError) as exc:
            raise CommandError(str(exc)) from exc
        self.stdout.write(f"{_format_count(progress.encrypted)} encrypted again under “{ring.first}”.")
        counts = encryption.secrets_by_key()
        for key_id in {**ring.keys, **counts}:
            self.stdout.write(
                f"  {key_id}: {_format_count(counts.get(key_id, 0))}. {_advise(key_id, ring, counts)}"
            )
        if progress.undecryptable:
            raise CommandError(
                f"{_format_count(progress.undecryptable)} cannot be decrypted, although the key is there: "
                "they are damaged. The log names the rows. Enter these secrets again."
            )
        if remaining_keys := [key_id for key_id in counts if key_id != ring.first]:
            raise CommandError(
                f"Not everything is encrypted under “{ring.first}” yet; see {', '.join(remaining_keys)} "
                "above."
            )

    def show(self, progress: RotationProgress) -> None:
        self.stdout.write(f"  {progress.encrypted:,} so far")


def _format_count(count: int) -> str:
    return f"{count:,} secret{'' if count == 1 else 's'}"


def _advise(key_id: str, ring: Keyring, counts: dict[str, int]) -> str:
    if key_id == ring.first:
        return "New ones are encrypted under this key."
    if key_id not in ring.keys:
        return (
            "This key is not in PEGBOARD_KEYS. Put it back; if it is lost, "
            f"give its secrets up: {MANAGE} rotate_keys --forget {key_id}"
        )
    if counts.get(key_id):
        return "Run this command again."
    return f"Once every process runs with “{ring.first}” in front, take this key out of PEGBOARD_KEYS."
