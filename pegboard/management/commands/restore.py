import os
from argparse import ArgumentParser
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from pegboard.ops.backup_files import BackupError
from pegboard.ops.backups import restore
from pegboard.server_addresses import parse_database_address


class Command(BaseCommand):
    help = "Read a backup into an empty database, and see whether it is whole."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--newest",
            action="store_true",
            help="nothing was written after this backup: release numbers continue without a gap",
        )

    def handle(self, *args: object, file: Path, newest: bool, **options: object) -> None:
        # In the environment and not as an argument, which every user of the machine can read.
        address = os.environ.get("REPLACED_DATABASE_URL", "")
        try:
            replaced = parse_database_address("REPLACED_DATABASE_URL", address) if address else None
            restored = restore(file, replaced_database=replaced, is_newest=newest)
        except (BackupError, ImproperlyConfigured, OSError) as error:
            raise CommandError(str(error)) from error
        tools, releases = pluralize(restored.tools), pluralize(restored.releases)
        self.stdout.write(
            f"Restored: {restored.tools:,} tool{tools}, {restored.releases:,} release{releases}."
        )
        for sentence in restored.newer:
            self.stdout.write(sentence)
        if restored.problems:
            raise CommandError("Restored, and not whole:\n" + "\n".join(restored.problems))
        self.stdout.write("Every claim about the data holds, and the audit trail is whole.")
