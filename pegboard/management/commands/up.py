import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from pegboard.local.__main__ import add_arguments


class Command(BaseCommand):
    help = "Run the whole product on this machine; Ctrl-C stops it and keeps the data."
    # The checks want a database, and this command is what starts it.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(
        self, *args: object, port: int, data: Path, demo: bool, restore: Path | None, **options: object
    ) -> None:
        # This process has read its settings. The processes of the product are forks of one that reads them
        # once the servers run.
        arguments = [
            *("--port", str(port), "--data", str(data.resolve())),
            *([] if demo else ["--no-demo"]),
            *(["--restore", str(restore.resolve())] if restore else []),
            *(["--with-parent"] if options["with_parent"] else []),
        ]
        os.chdir(settings.BASE_DIR)
        os.execv(sys.executable, [sys.executable, "-m", "pegboard.local", *arguments])  # noqa: S606 - our own program
