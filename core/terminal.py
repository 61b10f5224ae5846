"""Questions of commands at a terminal."""

import getpass

from django.core.management.base import CommandError

from core.errors import DomainError

FROM_THE_COMMAND_LINE = "From the command line."


def ask_for_text(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except (EOFError, KeyboardInterrupt) as error:
        raise CommandError("Nothing was entered, so nothing was changed.") from error


def ask_for_password() -> str:
    try:
        password = getpass.getpass("Password: ")
        again = getpass.getpass("The same again: ")
    except (EOFError, KeyboardInterrupt) as error:
        raise CommandError("Nothing was entered, so nothing was changed.") from error
    if password != again:
        raise CommandError("The two are not the same, so nothing was changed.")
    return password


def sentences(error: DomainError) -> str:
    return " ".join(dict.fromkeys([error.message, *error.fields.values()]))
