from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from pegboard.ops.backup_files import BackupError, delete_old_backups, name_at
from pegboard.ops.backups import back_up


class Command(BaseCommand):
    help = "Write the database as it is now into one file. The keys are not in it: keep those apart."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            nargs="?",
            type=Path,
            help="a new file, or a directory for a file named by the time (default: PEGBOARD_BACKUPS)",
        )
        parser.add_argument(
            "--keep",
            type=_positive_number,
            metavar="COUNT",
            help="in a directory: delete all but the newest COUNT backups after this one",
        )

    def handle(self, *args: object, file: Path | None, keep: int | None, **options: object) -> None:
        target = file or (Path(settings.BACKUPS) if settings.BACKUPS else None)
        if target is None:
            raise CommandError("Name a file, or set PEGBOARD_BACKUPS to a directory.")
        is_directory = file is None or target.is_dir()
        if keep is not None and not is_directory:
            raise CommandError(f"--keep needs a directory, and {target} is none.")
        now = datetime.now(UTC)
        path = target / name_at(now) if is_directory else target
        try:
            size = back_up(path)
            deleted = delete_old_backups(target, keep=keep, now=now) if keep is not None else 0
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{path} contains the database, {size:,} bytes. "
            "Without PEGBOARD_KEYS the credentials in it cannot be decrypted: keep those keys elsewhere."
        )
        if deleted:
            self.stdout.write(f"Deleted {deleted} older backup{'' if deleted == 1 else 's'}.")


def _positive_number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"“{text}” is not a number from 1 on.")
    return int(text)
