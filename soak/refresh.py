"""Eight processes want a token that is over, and some are killed: a token sent twice revokes the sign-in."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from catalog.credentials.oauth import grant_status
from catalog.models import Grant
from soak.frame import Field, stopwatch
from tests.authorization_server import AuthorizationServer
from tests.catalog.credentials.oauth.cases import grant_of, sign, signed_in, status_of, wear_out
from tests.factories import make_user
from tests.faults.warm import Warm

PROCESSES = 8
POINTS = ("claimed", "received", "stored")


def storm(field: Field) -> None:
    with workers(field) as warm, AuthorizationServer() as server:
        credential = signed_in(server)
        race(field, warm, server, credential)
        die(field, warm, server, credential)


@contextmanager
def workers(field: Field) -> Iterator[Warm]:
    warm = Warm(field.environment, field.directory / "warm.log")
    try:
        yield warm
    finally:
        warm.stop()


def race(field: Field, warm: Warm, server: AuthorizationServer, credential: Any) -> None:
    """The token endpoint takes 75 to 225 ms, as vendors do."""
    rounds, without = field.times(short=5, long=25), 0
    before = len(server.forms)
    for number in range(1, rounds + 1):
        server.latency = field.random.uniform(0.075, 0.225)
        wear_out(credential)
        children = [warm.start("token", str(credential.pk)) for _ in range(PROCESSES)]
        ended = [child.wait() for child in children]
        without += sum(not (child.status == 0 and server.is_good(child.result)) for child in ended)
        field.expect(len(server.forms) - before == number, f"round {number} took more than one token call")
        field.fault("token worn out under eight processes", f"round {number}")
    field.expect(without == 0, f"{without} processes were left without a token")
    field.expect(server.revoked == 0, f"{server.revoked} families were revoked")
    field.figure("rounds", rounds)
    field.figure("token calls", len(server.forms) - before)
    field.figure("families revoked", server.revoked)
    field.figure("processes without a token", without)


def die(field: Field, warm: Warm, server: AuthorizationServer, credential: Any) -> None:
    """Each ends in a token, or in a sentence that asks a person to sign in again; never in a second try."""
    server.latency, lost_replies = 0.0, 0
    for number in range(field.times(short=6, long=60)):
        point = POINTS[number % len(POINTS)]
        wear_out(credential)
        ended = warm.start("token", str(credential.pk), crash=f"token-{point}").wait()
        field.expect(ended.status == -signal.SIGKILL, f"no process was killed at {point}")
        Grant.objects.update(lease_until=Now() - timedelta(seconds=1))
        requests_before = len(server.forms)
        with stopwatch() as elapsed:
            after = [warm.start("token", str(credential.pk)).wait() for _ in range(2)]
            seconds = elapsed()
        status = status_of(credential)
        if status.state == grant_status.SignInState.NEEDS_SIGN_IN:
            lost_replies += 1
            field.expect(point == "received", f"a kill at {point} cost the sign-in")
            field.expect("a renewal was interrupted then" in status.message, f"it says: {status.message}")
            sign(server, credential, make_user())
            requests_before += 1
        else:
            field.expect(all(child.status == 0 for child in after), f"no token after a kill at {point}")
        field.expect(
            len(server.forms) - requests_before <= 1, f"the server was asked more than once after {point}"
        )
        field.fault("killed in a renewal", point, recovery=seconds, limit=30)
    field.expect(grant_of(credential).ended_at is None, "the last sign-in did not last")
    field.figure("sign-ins lost", lost_replies)
