"""A worker whose main loop or pool is stuck ends, and one that waits for its broker does not."""

import pytest

from pegboard.watchdog import MAX_SILENT_INTERVALS, MAX_WAITING_INTERVALS, Watch


def test_a_main_loop_that_is_silent_is_stuck():
    watch = Watch(2)
    looks = [
        watch.is_stuck(broker_answers=True, connection_attempts=1) for _ in range(MAX_SILENT_INTERVALS + 2)
    ]
    assert looks[-2:] == [False, True]
    watch.beat(set(), set())
    assert not watch.is_stuck(broker_answers=True, connection_attempts=1)


def test_a_main_loop_that_waits_for_its_broker_is_not_stuck():
    watch = Watch(2)
    assert not any(
        watch.is_stuck(broker_answers=number % 10 != 0, connection_attempts=1) for number in range(100)
    )


def test_a_main_loop_that_connects_again_and_again_is_not_stuck():
    watch = Watch(2)
    assert not any(
        watch.is_stuck(broker_answers=True, connection_attempts=number // 10) for number in range(100)
    )


@pytest.mark.parametrize(
    ("active", "is_stuck"),
    [(set(), True), ({"other"}, True), ({"task"}, False), ({"other", "another"}, False)],
    ids=["no process accepts it", "one is free", "it runs", "all processes have work"],
)
def test_a_pool_that_does_not_accept_a_task_is_stuck(active, is_stuck):
    watch = Watch(2)
    for _ in range(MAX_WAITING_INTERVALS + 1):
        watch.beat({"task", *active}, active)
    assert watch.is_stuck(broker_answers=True, connection_attempts=1) is is_stuck
