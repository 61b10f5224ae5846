from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from pegboard.ops.backup_files import BackupError
from pegboard.ops.backups import back_up


class Command(BaseCommand):
    help = "Write the database as it is now into one file. The keys are not in it: keep those apart."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: object, file: Path, **options: object) -> None:
        try:
            size = back_up(file)
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{file} holds the database, {size:,} bytes. "
            "Without PEGBOARD_KEYS the credentials in it cannot be decrypted: keep those keys elsewhere."
        )
