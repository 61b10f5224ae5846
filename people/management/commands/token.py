from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from people import tokens
from people.errors import DomainError
from people.models import Scope, User


class Command(BaseCommand):
    help = "Makes an API token and prints it, alone and once, on standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what will use it")
        parser.add_argument("--user", required=True, help="whose rights it carries, at most")
        parser.add_argument(
            "--scope",
            action="append",
            choices=Scope.values,
            help="may be given several times; without it the token may do what its owner may",
        )
        parser.add_argument("--days", type=int, default=90, help="how long it works, at most 366")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username__iexact=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"Nobody signs in as {options['user']}.")
        try:
            _, plain = tokens.issue(
                user,
                actor=None,
                name=options["name"],
                scopes=options["scope"] or [Scope.ADMIN],
                expires_at=timezone.now() + timedelta(days=min(options["days"], 100_000)),
            )
        except DomainError as error:
            raise CommandError(" ".join([error.message, *error.fields.values()])) from error
        self.stdout.write(plain)
