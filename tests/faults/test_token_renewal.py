"""Many processes need a token that has expired, and some of them die. The server revokes a token used twice.

Each test runs over both rows that hold tokens: of a credential, and of an end user.
"""

import signal
import time
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.db.models.functions import Now

from catalog.credentials.oauth import token_holder
from catalog.models import Grant, UserGrant
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import status_of
from tests.faults import deeds
from tests.faults.sign_ins import SIGN_INS, CredentialSignIn, SignIn
from tests.faults.warm import Child

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

PROCESSES, ROUNDS = 8, 5
each_sign_in = pytest.mark.parametrize("make_sign_in", SIGN_INS)


def expire_lease() -> None:
    for model in (Grant, UserGrant):
        model.objects.update(lease_until=Now() - timedelta(seconds=1))


@each_sign_in
def test_eight_processes_ask_once_a_round(worker, make_sign_in):
    with AuthorizationServer(latency=0.1) as server:
        sign_in = make_sign_in(server)
        for number in range(ROUNDS):
            sign_in.wear_out()
            children = [worker.start(sign_in.deed, sign_in.argument) for _ in range(PROCESSES)]
            ended = [child.wait() for child in children]
            assert [child.status for child in ended] == [0] * PROCESSES, worker.words()
            assert len({child.result for child in ended}) == 1
            assert server.is_good(ended[0].result)
            assert len(server.forms) == 1 + number + 1

    assert server.revoked == 0
    assert sign_in.row().generation == 1 + ROUNDS


def kill_during_renewal(worker, server: AuthorizationServer, sign_in: SignIn, point: str) -> None:
    if point != "sent":
        ended = worker.start(sign_in.deed, sign_in.argument, crash=f"token-{point}").wait()
    else:
        victims = []

        def kill(form: dict[str, str]) -> None:
            while not victims:
                time.sleep(0.001)
            victims[0].kill()
            server.before_reply = None

        server.before_reply = kill
        victims.append(worker.start(sign_in.deed, sign_in.argument))
        ended = victims[0].wait()
    assert ended.status == -signal.SIGKILL


def wait_until_it_stops(sleeper: Child) -> None:
    deadline = time.monotonic() + 30
    while not sleeper.is_stopped():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@each_sign_in
@pytest.mark.parametrize("point", ["claimed", "sent", "received", "stored"])
def test_killed_in_a_renewal_it_ends_well_or_with_a_person(worker, make_sign_in, point):
    """Nothing is lost before the call and after the commit. In between the server has rotated the token."""
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        kill_during_renewal(worker, server, sign_in, point)
        form_count = len(server.forms)
        expire_lease()
        ended = [worker.start(sign_in.deed, sign_in.argument).wait() for _ in range(3)]

        if point in ("claimed", "stored"):
            assert [child.status for child in ended] == [0] * 3
            assert server.is_good(ended[0].result)
            assert not sign_in.is_over()
            assert len(server.forms) == 2
        else:
            assert [child.status for child in ended] == [1] * 3
            assert sign_in.is_over()
            assert len(server.forms) == form_count + 1, "the old token is tried once"
            sign_in.sign_in_again()
            assert not sign_in.is_over()


def test_message_names_the_renewal_that_was_interrupted(worker):
    with AuthorizationServer() as server:
        sign_in = CredentialSignIn(server)
        sign_in.wear_out()
        kill_during_renewal(worker, server, sign_in, "received")
        began = sign_in.row().started_at
        expire_lease()
        worker.start(sign_in.deed, sign_in.argument).wait()

    assert f"{began:%H:%M:%S} UTC on " in status_of(sign_in.credential).message


@each_sign_in
@pytest.mark.parametrize("point", ["sent", "received"])
def test_killed_at_a_server_that_does_not_rotate_it_goes_on(worker, make_sign_in, point):
    with AuthorizationServer(rotates=False) as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        kill_during_renewal(worker, server, sign_in, point)
        expire_lease()
        token = worker.do(sign_in.deed, sign_in.argument)

    assert server.is_good(token)
    assert not sign_in.is_over()


@each_sign_in
def test_while_the_dead_ones_lease_lasts_nobody_asks(worker, make_sign_in):
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out(seconds=60)
        kill_during_renewal(worker, server, sign_in, "claimed")
        token = worker.do(sign_in.deed, sign_in.argument)

    assert server.is_good(token), "the old one still is"
    assert len(server.forms) == 1


@each_sign_in
def test_sleeper_that_wakes_up_after_its_lease_undoes_nothing(worker, make_sign_in):
    """It stopped after the reply; another found the old token spent, and a person has signed in anew."""
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        sleeper = worker.start(sign_in.deed, sign_in.argument, crash="token-received:1:SIGSTOP")
        wait_until_it_stops(sleeper)
        expire_lease()
        assert worker.start(sign_in.deed, sign_in.argument).wait().status == 1
        sign_in.sign_in_again()
        before = sign_in.row()
        sleeper.kill(signal.SIGCONT)
        woken = sleeper.wait()

    assert woken.status == 0
    assert server.is_good(woken.result), "it looked again, and has the new one"
    assert sign_in.row().generation == before.generation


@each_sign_in
def test_tokens_that_are_removed_during_a_renewal_stay_removed(worker, make_sign_in):
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        sleeper = worker.start(sign_in.deed, sign_in.argument, crash="token-received:1:SIGSTOP")
        wait_until_it_stops(sleeper)
        sign_in.remove_tokens()
        sleeper.kill(signal.SIGCONT)
        assert sleeper.wait().status == 1

    stored = [*Grant.objects.all(), *UserGrant.objects.all()]
    assert {(row.access_token, row.refresh_token) for row in stored} == {("", "")}


@each_sign_in
def test_failed_renewal_is_not_repeated_by_the_next_caller(worker, make_sign_in):
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        server.client_secret = "another"
        assert [worker.start(sign_in.deed, sign_in.argument).wait().status for _ in range(3)] == [1] * 3

    assert len(server.forms) == 2, "the sign-in, and one renewal"
    row = sign_in.row()
    assert (row.failures, row.error_code) == (1, "TOKEN_INVALID_CLIENT")
    assert row.retry_at > row.now
    assert not sign_in.is_over()


@each_sign_in
def test_lost_reply_is_requested_once_more(worker, make_sign_in):
    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        server.takes_again, server.loses = True, 1
        token = worker.do(sign_in.deed, sign_in.argument)

    assert server.is_good(token)
    assert server.revoked == 0
    assert sign_in.row().started_at is None


@each_sign_in
def test_reply_is_stored_although_the_database_ended_the_connection(make_sign_in, monkeypatch):
    def end_connection(point: str) -> None:
        if point == "token-received":
            backend = connection.connection.info.backend_pid
            with connections.create_connection("default").cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
                cursor.db.close()

    with AuthorizationServer() as server:
        sign_in = make_sign_in(server)
        sign_in.wear_out()
        monkeypatch.setattr(token_holder, "failpoint", end_connection)
        token = getattr(deeds, sign_in.deed)(sign_in.argument)

    assert server.is_good(token)
    assert sign_in.row().generation == 2
