import re
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from people.audit import verify

HEAD = re.compile(r"\d+:[0-9a-f]{64}")


class Command(BaseCommand):
    help = (
        "Walk the audit trail's chain and name the first entry that was changed, removed, inserted or moved."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head", action="store_true", help="print nothing but the head, to be kept elsewhere"
        )
        parser.add_argument(
            "--kept", default="", metavar="HEAD", help="a head kept earlier, which must lie in the chain"
        )

    def handle(self, *args: object, head: bool, kept: str, **options: object) -> None:
        if kept and not HEAD.fullmatch(kept):
            raise CommandError("A head reads POSITION:HASH, as --head printed it.")
        result = verify.verify(kept)
        good = "One entry is" if result.good == 1 else f"{result.good:,} entries are"
        if result.broken:
            raise CommandError(f"{good} good. Then: {result.broken}")
        erased = f"Names of users were erased from {result.erased:,} of them.\n" if result.erased else ""
        self.stdout.write(result.head if head else f"{good} good.\n{erased}Head: {result.head}")
