from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from pegboard.ops.backups import BackupError, restore


class Command(BaseCommand):
    help = "Read a backup into an empty database, and see whether it is whole."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: object, file: Path, **options: object) -> None:
        try:
            found = restore(file)
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        tools, releases = pluralize(found.tools), pluralize(found.releases)
        self.stdout.write(f"Restored: {found.tools:,} tool{tools}, {found.releases:,} release{releases}.")
        if found.problems:
            raise CommandError("Restored, and not whole:\n" + "\n".join(found.problems))
        self.stdout.write("Every claim about the data holds, and the audit trail is whole.")
