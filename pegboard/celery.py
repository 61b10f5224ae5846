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
    """Whoever started us may wait for this file."""
    if path := os.environ.get("PEGBOARD_READY_FILE"):
        Path(path).touch()


@signals.worker_process_init.connect
def freeze(**_: object) -> None:
    """What is loaded stays; looking through it for garbage takes a tenth of the time of reading a vendor."""
    gc.freeze()
