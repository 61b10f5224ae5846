from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from core.errors import DomainError
from core.terminal import FROM_THE_COMMAND_LINE, sentences
from pegboard.ops import erased_users
from people.models import User


class Command(BaseCommand):
    help = (
        "Erase a user: end sessions and API keys, and replace the name, the mail address and the identity"
        " everywhere by a pseudonym, in the audit trail too. Run it as the owner of the tables. It cannot be"
        " taken back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="of the user")
        parser.add_argument("--yes", action="store_true", help="erase; without it nothing is changed")

    def handle(self, *args: Any, username: str, yes: bool, **options: Any) -> None:
        user = User.objects.filter(username__iexact=username).first()
        if user is None:
            raise CommandError(f"No user signs in as {username}.")
        try:
            if not yes:
                pseudonym = erased_users.pseudonym_for(user)
                would = f"{user.username} would be called {pseudonym} for ever."
                raise CommandError(f"{would} Nothing was changed. Add --yes to erase.")
            result = erased_users.erase_user(user, why=FROM_THE_COMMAND_LINE)
        except DomainError as error:
            raise CommandError(sentences(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"PostgreSQL refused: {error}. Let DATABASE_URL name the owner of the tables."
            ) from error
        self.stdout.write(
            f"The user is called {result.pseudonym} now. Names were erased from {result.entries:,} audit"
            " entries. Texts that users wrote were not searched, and backups still contain the names."
        )
