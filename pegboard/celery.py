"""The task queue. It carries ids only and is a hint: the truth about work to do is in PostgreSQL."""

import gc
import os
from pathlib import Path

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pegboard.settings")

app = Celery("pegboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.worker_ready.connect
@signals.beat_init.connect
def tell_that_it_works(**_: object) -> None:
    """The process that started this one may wait for the file."""
    if path := os.environ.get("PEGBOARD_READY_FILE"):
        Path(path).touch()


@signals.worker_process_init.connect
def freeze(**_: object) -> None:
    # Modules are never freed; collecting garbage among them takes a tenth of the time of an enumeration.
    gc.freeze()
