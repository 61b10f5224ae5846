"""/metrics: a few counts in the text format of Prometheus, each from an index or a small table."""

from collections.abc import Iterable, Iterator

from django.db.models import Count, Min
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from catalog.models import Endpoint, Finding, Run, Tool
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE
from catalog.models.vendors import EndpointStatus
from people.models import Role


class AnyAccepted(BaseContentNegotiation):
    """Scrapers ask for formats of their own and take plain text when there is nothing else."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return None

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class Metrics(APIView):
    """For an administrator's browser and for any token that may read."""

    schema = None
    content_negotiation_class = AnyAccepted

    @property
    def read_role(self) -> Role:
        return Role.VIEWER if self.request.auth else Role.ADMIN

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse("\n".join(_lines()) + "\n", content_type="text/plain; version=0.0.4")


def _lines() -> Iterator[str]:
    yield from _gauge("pegboard_tools", "Tools in the catalog.", _by_status(Tool))
    runs = {"queued": 0, "running": 0, **_by_status(Run, status__in=ACTIVE)}
    yield from _gauge("pegboard_runs_active", "Enumerations that wait or read.", runs)
    queued = Run.objects.filter(status="queued").aggregate(oldest=Min("queued_at"))["oldest"]
    waited = (timezone.now() - queued).total_seconds() if queued else 0
    yield from _gauge("pegboard_queue_oldest_seconds", "How long the oldest has waited.", round(waited, 1))
    yield from _gauge("pegboard_endpoints", "Endpoints by the status that pages show.", _endpoints())
    waiting = Finding.objects.filter(state=FindingState.OPEN).count()
    yield from _gauge("pegboard_findings_open", "Findings waiting for a person.", waiting)


def _by_status(model: type[Tool] | type[Run], **conditions: object) -> dict[str, int]:
    rows = model.objects.filter(**conditions).order_by().values_list("status")
    return dict(rows.annotate(count=Count("pk")))


def _endpoints() -> dict[str, int]:
    counts = dict.fromkeys(EndpointStatus.values, 0)
    for endpoint in Endpoint.objects.live():
        counts[endpoint.status] += 1
    del counts[EndpointStatus.REMOVED]
    return counts


def _gauge(name: str, says: str, value: float | dict[str, int]) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} gauge"
    if isinstance(value, dict):
        yield from (f'{name}{{status="{label}"}} {count}' for label, count in value.items())
    else:
        yield f"{name} {value}"
