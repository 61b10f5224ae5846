"""`manage.py rotate_signing_key`: releases are signed with a new key from now on."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.errors import DomainError
from designer.releases import signing


class Command(BaseCommand):
    help = "Makes the key that signs releases from now on. What older keys signed stays valid."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--revoke",
            action="store_true",
            help="the older keys verify nothing any more; releases are signed again when they are asked for",
        )

    def handle(self, *args: Any, revoke: bool, **options: Any) -> None:
        try:
            key = signing.rotate(revoke=revoke)
        except DomainError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"Releases are signed with {key.name} from now on.")
