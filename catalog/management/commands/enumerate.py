"""`manage.py enumerate [ENDPOINT]`: read one endpoint now, or all of them, in the foreground."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalog import enumeration, search
from catalog.models import Endpoint, Run
from catalog.models.runs import RunStatus, Trigger


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
        runs = [self.read(each) for each in endpoints]
        if failed := [run for run in runs if run.status != RunStatus.SUCCEEDED]:
            raise CommandError(f"{len(failed)} of {len(runs)} endpoints could not be read.")

    def read(self, endpoint: Endpoint) -> Run:
        run = enumeration.request_run(endpoint, trigger=Trigger.COMMAND)
        self.stdout.write(f"{endpoint.vendor}, {endpoint} (run {run.pk})")
        run = enumeration.perform(run.pk, on_progress=self.show)
        if run.status == RunStatus.SUCCEEDED:
            search.index_pending(endpoint.pk)
            self.stdout.write(
                f"  {run.seen} tools on {run.pages} pages: {run.added} added, {run.changed} changed, "
                f"{run.unchanged} unchanged, {run.withdrawn} withdrawn, {run.rejected} rejected"
            )
        elif run.is_active:
            self.stdout.write("  a worker is reading it at this moment")
        else:
            self.stderr.write(f"  {run.error_code}: {run.error_message}")
        return run

    def show(self, pages: int, seen: int, rejected: int) -> None:
        self.stdout.write(f"  page {pages}, {seen} tools so far")
