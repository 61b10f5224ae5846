"""Ends idle processes of a worker although small tasks arrive all the time."""

from typing import Any

from celery.worker.autoscale import Autoscaler


class BusyAutoscaler(Autoscaler):
    """Counts the half minute before processes end from the last task that needed all of them.

    Celery counts it from the last task of any kind. The scheduler sends one every second, so after a
    burst of work all processes would stay.
    """

    def on_task_received(self, req: Any) -> None:
        if self.qty >= self.processes:
            super().on_task_received(req)  # type: ignore[misc]  # the stubs lack it
