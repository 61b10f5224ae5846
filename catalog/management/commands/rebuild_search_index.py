"""`manage.py rebuild_search_index`: builds the search index of this host again."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from catalog.search import index
from catalog.search.engines import IndexUnusableError


class Command(BaseCommand):
    help = (
        "Builds the search index of this host again from the database. Searches use the former one until the "
        "new one is complete. The index of another host, or container, is built there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--missing",
            action="store_true",
            help="only index what the index lacks",
        )

    def handle(self, *args: Any, missing: bool, **options: Any) -> None:
        try:
            if missing:
                index.index_pending()
                return
            for state in index.rebuild():
                if state.filled_through is not None:
                    self.show(state.filled_through)
        except IndexUnusableError as exc:
            raise CommandError(f"{exc}. Make room, or set PEGBOARD_SEARCH_DIRECTORY.") from exc
        self.stdout.write("The search index is complete.")

    def show(self, through: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FILTER (WHERE id <= %s), count(*) FROM catalog_tool WHERE status = 'active'",
                [through],
            )
            done, tools = cursor.fetchone()
        self.stdout.write(f"Indexing {done:,} of {tools:,}")
