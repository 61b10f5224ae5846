import os
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from pegboard.local.embedded import EmbeddedError
from pegboard.local.processes import die_with_parent
from pegboard.local.product import LocalError, LocalProduct, Wishes


class Command(BaseCommand):
    help = "Run the whole product on this machine; Ctrl-C stops it and keeps the data."
    # The checks want a database, and this command is what starts it.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        env = os.environ
        parser.add_argument("--port", type=int, default=int(env.get("PORT") or 8000))
        parser.add_argument("--data", type=Path, default=Path(env.get("DATA") or ".data"))
        parser.add_argument("--no-demo", action="store_false", dest="demo", default=env.get("DEMO") != "0")

        parser.add_argument("--restore", type=Path, default=env.get("RESTORE"), help="begin with this backup")
        parser.add_argument("--with-parent", action="store_true", help="stop when what started this dies")

    def handle(
        self, *args: object, port: int, data: Path, demo: bool, restore: Path | None, **options: object
    ) -> None:
        if options["with_parent"]:
            die_with_parent(os.getppid(), signal.SIGTERM)
        try:
            LocalProduct(Wishes(data, port, demo, restore), self._say).run()
        except (EmbeddedError, LocalError) as error:
            raise CommandError(str(error)) from error

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        sys.stdout.flush()
