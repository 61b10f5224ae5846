from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.errors import DomainError
from people.models import User
from people.sso import accounts, provider


class Command(BaseCommand):
    help = "Lets a user sign in to an existing account with their identity at the single sign-on provider."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the account")
        parser.add_argument("subject", help="the “sub” by which the provider knows them")
        parser.add_argument("--remove", action="store_true", help="take the link away again")

    def handle(self, *args: Any, **options: Any) -> None:
        identity_provider = provider.configured_provider()
        if identity_provider is None:
            raise CommandError("Single sign-on is not set up. Set PEGBOARD_OIDC_ISSUER first.")
        user = User.objects.filter(username__iexact=options["username"]).first()
        if user is None:
            raise CommandError("No user signs in with this name.")
        if options["remove"]:
            if not accounts.unlink(
                user, actor=None, issuer=identity_provider.issuer, subject=options["subject"]
            ):
                raise CommandError("This account has no such identity.")
            self.stdout.write(f"{user.username} cannot sign in as {options['subject']} any more.")
            return
        try:
            identity = accounts.link(
                user, actor=None, issuer=identity_provider.issuer, subject=options["subject"]
            )
        except DomainError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{user.username} can sign in as {identity}.")
