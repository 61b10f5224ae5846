"""`manage.py enumerate [ENDPOINT]`: read one endpoint now, or all of them, in the foreground."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalog import search
from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, ToolVersion
from catalog.models.runs import RunStatus, Trigger
from catalog.review import inspector


class Command(BaseCommand):
    help = "Reads the tools of one endpoint (by number), or of every live endpoint, now and with progress."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("endpoint", nargs="?", type=int)

    def handle(self, *args: Any, endpoint: int | None, **options: Any) -> None:
        endpoints = Endpoint.objects.live().select_related("vendor").order_by("pk")
        if endpoint is not None:
            endpoints = endpoints.filter(pk=endpoint)
            if not endpoints:
                raise CommandError(f"There is no endpoint {endpoint}.")
        runs = [self.perform_run(row) for row in endpoints]
        if not runs:
            self.stdout.write("There is no endpoint to read yet. Connect a vendor first.")
        if failed := [run for run in runs if run.status == RunStatus.FAILED]:
            raise CommandError(f"{len(failed)} of {len(runs)} endpoints could not be read.")

    def perform_run(self, endpoint: Endpoint) -> Run:
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
        self.stdout.write(f"{endpoint.vendor}, {endpoint} (run {run.pk})")
        run = enumeration_runs.perform(run.pk, on_progress=self.show, is_divided=False)
        if run.status == RunStatus.SUCCEEDED:
            self.follow_up(run)
        elif run.is_active:
            self.stdout.write("  a worker is reading it at this moment")
        else:
            self.stderr.write(f"  {run.error_code}: {run.error_message}")
        return run

    def follow_up(self, run: Run) -> None:
        """Run the tasks that a worker runs after an enumeration."""
        self.stdout.write(
            f"  {run.seen} tools on {run.pages} pages: {run.added} added, {run.changed} changed, "
            f"{run.unchanged} unchanged, {run.withdrawn} withdrawn, {run.rejected} rejected"
        )
        inspector.inspect_pending(run.endpoint_id)
        search.index_pending()
        versions = ToolVersion.objects.filter(tool__endpoint=run.endpoint_id)
        before = versions.count()
        older_versions.read_all(run.endpoint_id)
        if version_count := versions.count() - before:
            self.stdout.write(f"  {version_count} older versions")

    def show(self, pages: int, tool_count: int, rejected_count: int) -> None:
        self.stdout.write(f"  page {pages}, {tool_count} tools so far")
