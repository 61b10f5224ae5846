"""Commands of busy paths, over connections that are kept."""

import threading

import pytest
import redis

from core import redis_client
from core.redis_client import execute, send

NAME = "pegboard:test:line"


@pytest.fixture(autouse=True)
def clean():
    redis_client.client().delete(NAME)
    yield
    redis_client.client().delete(NAME)


def test_commands_sent_run_before_the_next_command_executed():
    for number in range(1, 50):
        send("INCR", NAME)
        assert execute("GET", NAME) == str(number)
    send("INCR", NAME)
    send("INCR", NAME)
    assert execute("GET", NAME) == "51"


def test_error_is_reported_for_its_own_command_only():
    execute("SET", NAME, "no number")
    send("INCR", NAME)
    assert execute("GET", NAME) == "no number"
    with pytest.raises(redis.ResponseError, match="integer"):
        execute("INCR", NAME)
    assert execute("GET", NAME) == "no number"


def test_connection_that_the_server_has_closed_is_replaced():
    number = execute("CLIENT", "ID")
    assert execute("CLIENT", "ID") == number
    redis_client.client().client_kill_filter(_id=number)
    assert execute("CLIENT", "ID") != number
    send("SET", NAME, "told")
    redis_client.client().client_kill_filter(_id=execute("CLIENT", "ID"))
    assert execute("GET", NAME) == "told"


def test_threads_do_not_read_each_others_answers():
    def work(number: int) -> None:
        for _ in range(50):
            send("INCR", NAME)
            answers[number] += execute("ECHO", str(number)) == str(number)

    answers = [0] * 4
    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [50] * 4
