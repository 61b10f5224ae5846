"""Many processes want a token that is over, and some of them die: the server revokes whoever asks twice."""

import re
import signal
import time
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from catalog.credentials import operations as credential_operations
from catalog.credentials.oauth import grant_status
from catalog.models import Grant
from people.models import Role
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, sign, signed_in, status_of, wear_out
from tests.factories import make_user
from tests.faults.warm import Child

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

PROCESSES, ROUNDS = 8, 5


def let_the_lease_run_out() -> None:
    Grant.objects.update(lease_until=Now() - timedelta(seconds=1))


def test_eight_processes_ask_once_a_round(worker):
    with AuthorizationServer(latency=0.1) as server:
        credential = signed_in(server)
        for number in range(ROUNDS):
            wear_out(credential)
            children = [worker.start("token", str(credential.pk)) for _ in range(PROCESSES)]
            ended = [child.wait() for child in children]
            assert [child.status for child in ended] == [0] * PROCESSES, worker.words()
            assert len({child.result for child in ended}) == 1
            assert server.is_good(ended[0].result)
            assert len(server.forms) == 1 + number + 1

    assert server.revoked == 0
    assert grant_of(credential).generation == 1 + ROUNDS


def killed(worker, server: AuthorizationServer, credential, point: str) -> None:
    if point != "sent":
        ended = worker.start("token", str(credential.pk), crash=f"token-{point}").wait()
    else:
        victims = []

        def kill(form: dict[str, str]) -> None:
            while not victims:
                time.sleep(0.001)
            victims[0].kill()
            server.before_reply = None

        server.before_reply = kill
        victims.append(worker.start("token", str(credential.pk)))
        ended = victims[0].wait()
    assert ended.status == -signal.SIGKILL


def wait_until_it_stops(sleeper: Child) -> None:
    deadline = time.monotonic() + 30
    while not sleeper.is_stopped():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("point", ["claimed", "sent", "received", "stored"])
def test_killed_in_a_renewal_it_ends_well_or_with_a_person(worker, point):
    """Before the call and after the commit nothing is lost. In between the server has rotated."""
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential)
        killed(worker, server, credential, point)
        asked = len(server.forms)
        let_the_lease_run_out()
        began = grant_of(credential).started_at
        ended = [worker.start("token", str(credential.pk)).wait() for _ in range(3)]

        status = status_of(credential)
        if point in ("claimed", "stored"):
            assert [child.status for child in ended] == [0] * 3
            assert server.is_good(ended[0].result)
            assert status.state == grant_status.State.OK
            assert len(server.forms) == 2
        else:
            assert [child.status for child in ended] == [1] * 3
            assert status.state == grant_status.State.NEEDS_SIGN_IN
            assert status.message.startswith(f"Please sign in again since {began:%H:%M:%S} UTC on ")
            assert "a renewal was interrupted then" in status.message
            assert len(server.forms) == asked + 1, "the old token is tried once"
            sign(server, credential, make_user(Role.ADMIN))
            assert status_of(credential).state == grant_status.State.OK


@pytest.mark.parametrize("point", ["sent", "received"])
def test_killed_at_a_server_that_does_not_rotate_it_goes_on(worker, point):
    with AuthorizationServer(rotates=False) as server:
        credential = signed_in(server)
        wear_out(credential)
        killed(worker, server, credential, point)
        let_the_lease_run_out()
        token = worker.do("token", str(credential.pk))

    assert server.is_good(token)
    assert status_of(credential).state == grant_status.State.OK


def test_while_the_dead_ones_lease_lasts_nobody_asks(worker):
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential, seconds=60)
        killed(worker, server, credential, "claimed")
        token = worker.do("token", str(credential.pk))

    assert server.is_good(token), "the old one still is"
    assert len(server.forms) == 1


def test_sleeper_that_wakes_up_after_its_lease_undoes_nothing(worker):
    """It stopped after the reply; another found the old token spent, and a person has signed in anew."""
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential)
        sleeper = worker.start("token", str(credential.pk), crash="token-received:1:SIGSTOP")
        wait_until_it_stops(sleeper)
        let_the_lease_run_out()
        assert worker.start("token", str(credential.pk)).wait().status == 1
        sign(server, credential, make_user(Role.ADMIN))
        before = grant_of(credential)
        sleeper.kill(signal.SIGCONT)
        woken = sleeper.wait()

    assert woken.status == 0
    assert server.is_good(woken.result), "it looked again, and has the new one"
    assert grant_of(credential).generation == before.generation


def test_client_that_is_changed_during_a_renewal_stays_changed(worker):
    with AuthorizationServer() as server:
        credential = signed_in(server)
        wear_out(credential)
        sleeper = worker.start("token", str(credential.pk), crash="token-received:1:SIGSTOP")
        wait_until_it_stops(sleeper)
        credential_operations.sign_out(credential, actor=make_user(Role.ADMIN))
        sleeper.kill(signal.SIGCONT)
        assert sleeper.wait().status == 1

    grant = grant_of(credential)
    assert (grant.access_token, grant.refresh_token) == ("", "")
    assert re.search("Please sign in again since .*: a person signed it out", status_of(credential).message)
