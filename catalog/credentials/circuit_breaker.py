"""When an endpoint or a tool is not asked at all, because it did not answer or wants us to wait.

A circuit is a row in PostgreSQL: what an enumeration run meets keeps back the endpoint, what a call meets
keeps back its tool. docs/decisions/0014-pacing.md says why.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models import Circuit, Endpoint, Tool, ToolCircuit
from catalog.models.circuit import OpenCircuit
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.retry_after import DAY
from protocols.base import Outcome
from protocols.calls.outcomes import CUT_OFF

# A call that is repeated fails three times by itself; it takes another one to say that the vendor is down.
OPENS_AFTER = 5
# A Retry-After of years would close the endpoint for good.
MAX_WAIT = timedelta(seconds=DAY)
# Seconds, from and to: the first pause, the second, ...; the last one stays. Spread, so that endpoints which
# failed together do not come back together.
BACK_OFF = ((30, 40), (300, 375), (1_500, 1_875), (2_700, 3_600))
# What our own rules brought about says nothing about the vendor.
OUR_OWN_CODES = {"BUSY", "CIRCUIT_OPEN", "UNSTABLE"}


def back_off(failures: int) -> timedelta:
    """How long to leave an endpoint alone after so many failures in a row: 30 s to 1 h."""
    pause = random.uniform(*BACK_OFF[min(failures, len(BACK_OFF)) - 1])  # noqa: S311 - spreads load
    return timedelta(seconds=pause)


def retry_after_wait(retry_after: float | None) -> timedelta:
    return min(timedelta(seconds=min(retry_after or 0.0, DAY)), MAX_WAIT)


def admit(asked: Endpoint | Tool, seconds: float) -> None:
    """Let a call through, or raise UnavailableError `CIRCUIT_OPEN`: then nothing was sent.

    After the wait one call goes as a probe; it may take `seconds`, and meanwhile no other goes.
    """
    if _is_known_closed(asked):
        return
    circuit = _circuit_of(asked).annotate(now=Now()).first()
    if circuit is None or circuit.open_until is None:
        return
    open_until, now = circuit.open_until, circuit.now
    if open_until <= now:
        if circuit.failures < OPENS_AFTER:
            return
        mine = _circuit_of(asked).filter(open_until=open_until)
        if mine.update(open_until=Now() + timedelta(seconds=seconds)):
            return
        open_until = now + timedelta(seconds=seconds)
    failures, moment = circuit.failures, open_until.astimezone(UTC)
    why = f"did not answer {failures} times in a row" if failures >= OPENS_AFTER else "asked us to wait"
    is_soon = moment - now < timedelta(hours=12)
    said = f"{moment:%H:%M:%S} UTC" if is_soon else f"{moment:%d %b, %H:%M} UTC"
    raise UnavailableError(
        "CIRCUIT_OPEN",
        f"“{asked}” {why}, so nothing was sent: it is unavailable until {said}.",
        retry_after=max(0.0, (open_until - now).total_seconds()),
    )


def _circuit_of(asked: Endpoint | Tool) -> QuerySet[Any]:
    model = Circuit if isinstance(asked, Endpoint) else ToolCircuit
    return model.objects.filter(pk=asked.pk)


def _is_known_closed(asked: Endpoint | Tool) -> bool:
    # From the row that was read along with it, a moment ago.
    if "circuit" not in asked._state.fields_cache:
        return False
    circuit: OpenCircuit | None = getattr(asked, "circuit", None)
    return circuit is None or (circuit.open_until is None and not circuit.failures)


def unavailable_until(asked: Endpoint | Tool) -> datetime | None:
    """Until when calls are answered without asking the vendor; None: they are sent."""
    circuit: OpenCircuit | None = getattr(asked, "circuit", None)
    if circuit is None or circuit.open_until is None or circuit.open_until <= timezone.now():
        return None
    return circuit.open_until


def record_run(endpoint: Endpoint, error: ProtocolError | None) -> None:
    """How an enumeration run ended; None: well. An answer of any kind closes the circuit."""
    if error and is_about_token(error):
        return
    if isinstance(error, UnavailableError):
        record_failure(endpoint, error.code, error.retry_after)
    else:
        record_answer(endpoint)


def record_call(tool: Tool, outcome: Outcome) -> None:
    # The outcome of a call is about the tool alone, whatever the vendor meant by it. An answer shows that the
    # vendor is there, which is true of its endpoint too. An answer that came too late is none, whatever the
    # outcome of the call is called.
    code = (outcome.error or {}).get("code", "")
    if outcome.outcome != "unavailable" and code not in CUT_OFF:
        for asked in (tool, tool.endpoint):
            if not _is_known_closed(asked):
                record_answer(asked)
        return
    if not is_about_token(UnavailableError(code, "")):
        record_failure(tool, code, outcome.retry_after)


def record_answer(asked: Endpoint | Tool) -> None:
    open_or_failed = _circuit_of(asked).exclude(failures=0, open_until=None)
    open_or_failed.update(failures=0, open_until=None)


def reset(endpoint: Endpoint) -> None:
    # A user had the endpoint read at once, or changed how it is reached.
    record_answer(endpoint)
    ToolCircuit.objects.filter(tool__endpoint=endpoint).delete()


@transaction.atomic
def record_failure(asked: Endpoint | Tool, code: str, retry_after: float | None) -> None:
    """One more failure in a row: the fifth opens the circuit, and so does a vendor that asks us to wait."""
    if code in OUR_OWN_CODES:
        return
    _circuit_of(asked).get_or_create(pk=asked.pk)
    circuit = _circuit_of(asked).select_for_update().annotate(now=Now()).get()
    circuit.failures += 1
    wait = retry_after_wait(retry_after)
    if circuit.failures >= OPENS_AFTER:
        wait = max(wait, back_off(circuit.failures - OPENS_AFTER + 1))
    if wait:
        circuit.open_until = max(circuit.open_until or circuit.now, circuit.now + wait)
    circuit.save(update_fields=["failures", "open_until"])


def is_about_token(error: ProtocolError) -> bool:
    """Whether the authorization server met it, and not the vendor."""
    return error.code.startswith("TOKEN_") or error.code == "NEEDS_SIGN_IN"
