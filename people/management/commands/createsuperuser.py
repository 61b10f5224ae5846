"""Replaces Django's command, which would leave no entry in the audit trail."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.errors import DomainError
from core.terminal import FROM_THE_COMMAND_LINE, ask_for_password, ask_for_text, sentences
from people import users
from people.models import Role


class Command(BaseCommand):
    help = "Adds an administrator."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--username", help="what they sign in with; DJANGO_SUPERUSER_USERNAME says it too"
        )
        parser.add_argument(
            *("--noinput", "--no-input"),
            action="store_false",
            dest="interactive",
            help="asks nothing: the password is in DJANGO_SUPERUSER_PASSWORD; without it there is none, and"
            " `changepassword` sets one",
        )

    def handle(self, *args: Any, interactive: bool, username: str | None, **options: Any) -> None:
        username = username or os.environ.get("DJANGO_SUPERUSER_USERNAME")
        password = os.environ.get("DJANGO_SUPERUSER_PASSWORD")
        if interactive:
            username = username or ask_for_text("Signs in as: ")
            password = ask_for_password()
        if not username:
            raise CommandError("Name the user: --username NAME.")
        try:
            user = users.add_user(
                actor=None,
                username=username,
                password=password or None,
                role=Role.ADMIN,
                why=FROM_THE_COMMAND_LINE,
            )
        except DomainError as error:
            raise CommandError(sentences(error)) from error
        if options["verbosity"]:
            self.stdout.write(f"{user} is an administrator.")
