"""A worker gives the memory of idle processes back."""

from types import SimpleNamespace

import pytest
from celery.worker import state

from pegboard.autoscaler import BusyAutoscaler
from pegboard.celery import app


class Pool:
    num_processes = 7

    def shrink(self, count):
        self.num_processes -= count

    def grow(self, count):
        self.num_processes += count

    def maintain_pool(self):
        """Do nothing: there are no processes to maintain."""


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(state, "reserved_requests", set())
    return Pool()


@pytest.fixture
def move_clock(monkeypatch):
    """Return a function that moves the clock of the autoscaler."""
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr("celery.worker.autoscale.monotonic", lambda: clock.now)

    def move(seconds):
        clock.now += seconds

    return move


def receive(autoscaler, count):
    """Let so many tasks run at a time."""
    for number in range(count):
        state.reserved_requests.add(number)
        autoscaler.maybe_scale(SimpleNamespace())
    state.reserved_requests.clear()


def test_idle_processes_end_although_a_small_task_arrives_each_second(pool, move_clock):
    autoscaler = BusyAutoscaler(pool, 14, 1)
    receive(autoscaler, 8)
    for _ in range(40):
        move_clock(1)
        receive(autoscaler, 1)
    assert pool.num_processes == 1


def test_processes_that_are_needed_stay(pool, move_clock):
    autoscaler = BusyAutoscaler(pool, 14, 1)
    for _ in range(40):
        move_clock(1)
        receive(autoscaler, 8)
    assert pool.num_processes == 8


def test_workers_use_it():
    assert app.conf.worker_autoscaler == "pegboard.autoscaler:BusyAutoscaler"
