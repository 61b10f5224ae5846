from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import check

from pegboard.management import agent_command


class Command(check.Command):
    """Django's own, which looks at the settings; with `--as`, the check of a lock file."""

    help = (
        f"{check.Command.help} With {agent_command.AS} and a lock file: what has moved since it was written."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        agent_command.add_arguments(parser, is_required=False)
        parser.add_argument(
            "--strict",
            action="store_true",
            help="of a lock file: 1 for any move, not for a breaking one alone",
        )

    def handle(self, *labels: Any, **options: Any) -> None:
        if options["username"] is None:
            if unknown := [label for label in labels if label not in apps.app_configs]:
                message = f"No app is called {unknown[0]}. For a lock file, say with --as who asks."
                raise CommandError(message, returncode=2)
            super().handle(*labels, **options)
        elif len(labels) == 1:
            agent_command.carry_out("check", options | {"lock_file": labels[0]})
        else:
            raise CommandError("Name one lock file.", returncode=2)
