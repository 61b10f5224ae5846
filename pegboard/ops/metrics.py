"""/metrics in the text format of Prometheus.

What is true now comes from the database, each figure from an index or a small table; what happened comes
from the counters that all processes share (core/metrics.py).
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import redis
from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Now
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from catalog import waiting_work
from catalog.enumeration import slow_vendors
from catalog.models import Call, Circuit, Credential, Endpoint, Finding, Run, Tool, ToolCircuit
from catalog.models.calls import CallStatus
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE, RunStatus
from catalog.models.vendors import EndpointStatus
from catalog.notifications.models import Delivery, Mail, Notice, SendingState, Webhook
from core import encryption, metrics, redis_client
from people import api_keys
from people.models import Role

Figures = Mapping[str, float]
SEVERITIES: dict[str, float] = dict.fromkeys(("low", "medium", "high"), 0)


class AnyAccepted(BaseContentNegotiation):
    """Content negotiation that accepts any format. Scrapers request other formats, and accept plain text."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return None

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class Metrics(APIView):
    """The metrics, for an administrator's browser and for any API key that may read."""

    schema = None
    content_negotiation_class = AnyAccepted

    @property
    def read_role(self) -> Role:
        return Role.VIEWER if self.request.auth else Role.ADMIN

    def get(self, request: Request) -> HttpResponse:
        lines = []
        for name, help_text, label, figures in GAUGES:
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
            labels = (label,) if label else ()
            for value, figure in figures().items():
                lines.append(f"{name}{metrics.braces(labels, (value,) if label else ())} {figure:g}")
        with suppress(redis.RedisError):  # pegboard_broker_up reports it
            lines += metrics.lines()
        return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4")


def _count_by(rows: QuerySet[Any], column: str) -> dict[str, float]:
    return dict(rows.order_by().values_list(column).annotate(count=Count("pk")))


def _oldest_run() -> Figures:
    # Slow runs wait for each other, and may wait for long.
    queued = Run.objects.filter(status=RunStatus.QUEUED).exclude(slow_vendors.IS_SLOW)
    oldest = queued.aggregate(oldest=Min("queued_at"))["oldest"]
    return {"": round((timezone.now() - oldest).total_seconds(), 1) if oldest else 0}


def _count_endpoints() -> Figures:
    counts = dict.fromkeys(EndpointStatus.values, 0)
    columns = ("removed_at", "held_run", "failures", "is_paused", "last_success_at")
    signing_in = ("credential__kind", "credential__grant__access_token")
    for endpoint in Endpoint.objects.live().with_status().only(*columns, *signing_in):
        counts[endpoint.status] += 1
    del counts[EndpointStatus.REMOVED]
    return {str(status): count for status, count in counts.items()}


def _count_messages() -> Figures:
    try:
        return {
            queue.name: float(redis_client.client().llen(queue.name)) for queue in settings.CELERY_TASK_QUEUES
        }
    except redis.RedisError:
        return {}


GAUGES: list[tuple[str, str, str, Callable[[], Figures]]] = [
    ("pegboard_tools", "Tools in the catalog.", "status", lambda: _count_by(Tool.objects.all(), "status")),
    (
        "pegboard_runs_active",
        "Enumeration runs that wait or run.",
        "status",
        lambda: {"queued": 0, "running": 0, **_count_by(Run.objects.filter(status__in=ACTIVE), "status")},
    ),
    (
        "pegboard_queue_oldest_seconds",
        "How long the oldest waiting enumeration run that is not slow has waited.",
        "",
        _oldest_run,
    ),
    ("pegboard_queue_messages", "Messages that no worker has taken yet.", "queue", _count_messages),
    (
        "pegboard_calls_waiting",
        "Calls of tools that no worker has taken yet.",
        "",
        lambda: {"": Call.objects.filter(status=CallStatus.QUEUED).count()},
    ),
    (
        "pegboard_waiting_oldest_seconds",
        "How long the oldest piece of work has waited for a worker, by kind.",
        "kind",
        waiting_work.oldest_seconds,
    ),
    ("pegboard_endpoints", "Endpoints by the status that pages show.", "status", _count_endpoints),
    (
        "pegboard_findings_open",
        "Findings waiting for a person.",
        "severity",
        lambda: {**SEVERITIES, **_count_by(Finding.objects.filter(state=FindingState.OPEN), "severity")},
    ),
    (
        "pegboard_credentials",
        "Credentials by kind.",
        "kind",
        lambda: _count_by(Credential.objects.filter(removed_at=None), "kind"),
    ),
    (
        "pegboard_credentials_ended",
        "Credentials that need a sign-in, by kind.",
        "kind",
        lambda: _count_by(Credential.objects.filter(removed_at=None, grant__ended_at__isnull=False), "kind"),
    ),
    (
        "pegboard_circuits_open",
        "Endpoints that are left alone after failures.",
        "",
        lambda: {"": Circuit.objects.filter(open_until__gt=Now()).count()},
    ),
    (
        "pegboard_tool_circuits_open",
        "Tools whose calls are not sent for a while.",
        "",
        lambda: {"": ToolCircuit.objects.filter(open_until__gt=Now()).count()},
    ),
    (
        "pegboard_notices_waiting",
        "Notices, mails and deliveries that are to go out.",
        "",
        lambda: {
            "": Notice.objects.filter(settled_at=None).count()
            + sum(model.objects.filter(state=SendingState.WAITING).count() for model in (Mail, Delivery))
        },
    ),
    (
        "pegboard_webhooks_paused",
        "Webhooks that are paused.",
        "",
        lambda: {"": Webhook.objects.filter(removed_at=None, is_paused=True).count()},
    ),
    ("pegboard_secrets", "Stored secrets by the key that decrypts them.", "key", encryption.secrets_by_key),
    (
        "pegboard_api_keys_ending",
        "API keys that end within 14 days.",
        "",
        lambda: {"": api_keys.find_ending(timezone.now()).count()},
    ),
    (
        "pegboard_broker_up",
        "Whether the broker answers; without it no counters are shown.",
        "",
        lambda: {"": float(redis_client.is_up())},
    ),
]
