"""The task queue. A message contains ids only and is a hint: the work to do is in PostgreSQL."""

import gc
import os
from pathlib import Path
from typing import Any

from celery import Celery, signals
from celery.concurrency import thread
from django.utils.module_loading import import_string

from core.forked_memory import freeze_memory
from core.priority import lower_priority
from pegboard import periodic
from pegboard.watchdog import Watchdog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

app = Celery("pegboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(Watchdog)


@signals.worker_ready.connect
@signals.beat_init.connect
def report_ready(**_: object) -> None:
    """Touch the file that `manage.py up` and health checks watch."""
    if path := os.environ.get("PEGBOARD_READY_FILE"):
        Path(path).touch()


@signals.worker_ready.connect
def sweep_beside_threads(sender: Any, **_: object) -> None:
    """Start the sweep of a worker whose pool has threads; a pool of processes starts one in each of them."""
    if isinstance(sender.pool, thread.TaskPool):
        periodic.begin()


def import_task_modules() -> None:
    app.loader.import_default_modules()
    for name in periodic.WORK:
        import_string(name)


@signals.worker_init.connect
def share_modules_with_children(**_: object) -> None:
    """Import the modules of tasks before the pool forks, so that its processes share their memory.

    Modules are never freed. Without freezing them the garbage collector takes a tenth of the time of an
    enumeration.
    """
    import_task_modules()
    freeze_memory()


@signals.worker_process_init.connect
def freeze(**_: object) -> None:
    gc.freeze()  # objects that the pool has created since


@signals.worker_process_init.connect
def yield_to_requests(**_: object) -> None:
    """Lower the priority of a process that enumerates or inspects tools: on a machine that is busy, pages and
    calls are answered first. Calls in the background run in threads, whose process keeps its priority.
    """
    lower_priority()
