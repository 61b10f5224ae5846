"""Commands of busy paths, over connections that are kept."""

import threading

import pytest
import redis

from core import redis_client
from core.redis_client import ask, tell

NAME = "pegboard:test:line"


@pytest.fixture(autouse=True)
def clean():
    redis_client.client().delete(NAME)
    yield
    redis_client.client().delete(NAME)


def test_what_was_told_is_done_before_what_is_asked_next():
    for number in range(1, 50):
        tell("INCR", NAME)
        assert ask("GET", NAME) == str(number)
    tell("INCR", NAME)
    tell("INCR", NAME)
    assert ask("GET", NAME) == "51"


def test_error_is_told_of_the_command_that_was_asked_alone():
    ask("SET", NAME, "no number")
    tell("INCR", NAME)
    assert ask("GET", NAME) == "no number"
    with pytest.raises(redis.ResponseError, match="integer"):
        ask("INCR", NAME)
    assert ask("GET", NAME) == "no number"


def test_connection_that_the_server_has_closed_is_replaced():
    number = ask("CLIENT", "ID")
    assert ask("CLIENT", "ID") == number
    redis_client.client().client_kill_filter(_id=number)
    assert ask("CLIENT", "ID") != number
    tell("SET", NAME, "told")
    redis_client.client().client_kill_filter(_id=ask("CLIENT", "ID"))
    assert ask("GET", NAME) == "told"


def test_threads_do_not_read_each_others_answers():
    def work(number: int) -> None:
        for _ in range(50):
            tell("INCR", NAME)
            answers[number] += ask("ECHO", str(number)) == str(number)

    answers = [0] * 4
    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [50] * 4
