"""Replaces Django's command, which would leave no entry in the audit trail."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.errors import DomainError
from core.terminal import FROM_THE_COMMAND_LINE, ask_for_password, sentences
from people import users
from people.models import User


class Command(BaseCommand):
    help = "Sets a user's password and ends the user's sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="whose")

    def handle(self, *args: Any, username: str, **options: Any) -> None:
        user = User.objects.filter(username__iexact=username).first()
        if user is None:
            raise CommandError(f"No user signs in as {username}.")
        try:
            users.set_password(user, actor=None, password=ask_for_password(), why=FROM_THE_COMMAND_LINE)
        except DomainError as error:
            raise CommandError(sentences(error)) from error
        self.stdout.write(f"The password of {user} is set. Their sessions have ended.")
