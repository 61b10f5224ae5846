from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from core.errors import DomainError
from core.terminal import sentences
from designer.agents import agent_keys
from people.models import CALLS_AT_ONCE, KeyScope, User


class Command(BaseCommand):
    help = "Makes an API key and prints it, alone and once, on standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what will use it")
        parser.add_argument("--user", required=True, help="whose rights it carries, at most")
        parser.add_argument(
            "--scope",
            action="append",
            choices=KeyScope.values,
            help="may be given several times; without it the key may do what its owner may, or with"
            " --agent read releases",
        )
        parser.add_argument(
            "--agent",
            action="append",
            default=[],
            metavar="SLUG",
            help="reaches this agent's releases alone; may be given several times, with the scopes runtime"
            " and invoke. Sub-agents are named by themselves",
        )
        parser.add_argument(
            "--calls-at-once",
            type=int,
            default=CALLS_AT_ONCE,
            help=f"how many tool calls may run with it at the same time (default: {CALLS_AT_ONCE})",
        )
        parser.add_argument("--days", type=int, default=90, help="how long it works, at most 366")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username__iexact=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"No user signs in as {options['user']}.")
        try:
            _, plain = agent_keys.issue(
                user,
                actor=None,
                name=options["name"],
                scopes=options["scope"] or [KeyScope.RUNTIME if options["agent"] else KeyScope.ADMIN],
                agents=agent_keys.find_agents(user, options["agent"]),
                calls_at_once=options["calls_at_once"],
                expires_at=timezone.now() + timedelta(days=min(options["days"], 100_000)),
            )
        except DomainError as error:
            raise CommandError(sentences(error)) from error
        self.stdout.write(plain)
