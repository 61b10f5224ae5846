"""Circuit breakers: an endpoint or a tool receives no requests if it did not answer or asked for a pause.

A circuit is a row in PostgreSQL. Failures of an enumeration run open the endpoint's circuit, and failures of
a call open its tool's. docs/decisions/0014-pacing.md has the reasons.
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
from core.translatable import mark
from protocols.call_outcome import Outcome
from protocols.calls.outcomes import CUT_OFF

# A call with retries fails three times alone. A second one must fail before the vendor counts as unavailable.
OPENS_AFTER = 5
# A Retry-After of years would close the endpoint for good.
MAX_WAIT = timedelta(seconds=DAY)
# Ranges of the first pause, the second, and so on, in seconds. The last one repeats. Random within the range,
# so that endpoints which failed together do not return together.
BACK_OFF = ((30, 40), (300, 375), (1_500, 1_875), (2_700, 3_600))
# Pegboard's own refusals prove nothing about the vendor.
OUR_OWN_CODES = {"BUSY", "CIRCUIT_OPEN", "UNSTABLE"}


def back_off(failures: int) -> timedelta:
    """Return the pause after this number of consecutive failures: 30 s to 1 h."""
    pause = random.uniform(*BACK_OFF[min(failures, len(BACK_OFF)) - 1])  # noqa: S311 - spreads load
    return timedelta(seconds=pause)


def retry_after_wait(retry_after: float | None) -> timedelta:
    return min(timedelta(seconds=min(retry_after or 0.0, DAY)), MAX_WAIT)


def admit(target: Endpoint | Tool, seconds: float) -> None:
    """Allow a call, or raise UnavailableError `CIRCUIT_OPEN`; then nothing was sent.

    After the pause one call is allowed as a probe. No other call is allowed for `seconds`, its maximum
    duration.
    """
    if _is_known_closed(target):
        return
    circuit = _circuit_of(target).annotate(now=Now()).first()
    if circuit is None or circuit.open_until is None:
        return
    open_until, now = circuit.open_until, circuit.now
    if open_until <= now:
        if circuit.failures < OPENS_AFTER:
            return
        expected_circuit = _circuit_of(target).filter(open_until=open_until)
        if expected_circuit.update(open_until=Now() + timedelta(seconds=seconds)):
            return
        open_until = now + timedelta(seconds=seconds)
    failures, moment = circuit.failures, open_until.astimezone(UTC)
    if failures >= OPENS_AFTER:
        reason = mark(f"did not answer {failures} times in a row")
    else:
        reason = mark("asked us to wait")
    is_soon = moment - now < timedelta(hours=12)
    time_text = f"{moment:%H:%M:%S} UTC" if is_soon else f"{moment:%d %b, %H:%M} UTC"
    raise UnavailableError(
        "CIRCUIT_OPEN",
        f"“{target}” {reason}, so nothing was sent: it is unavailable until {time_text}.",
        retry_after=max(0.0, (open_until - now).total_seconds()),
    )


def _circuit_of(target: Endpoint | Tool) -> QuerySet[Any]:
    model = Circuit if isinstance(target, Endpoint) else ToolCircuit
    return model.objects.filter(pk=target.pk)


def _is_known_closed(target: Endpoint | Tool) -> bool:
    # From the row that was just read.
    if "circuit" not in target._state.fields_cache:
        return False
    circuit: OpenCircuit | None = getattr(target, "circuit", None)
    return circuit is None or (circuit.open_until is None and not circuit.failures)


def unavailable_until(target: Endpoint | Tool) -> datetime | None:
    """Return the time until which calls are refused without a request. None: calls are sent."""
    circuit: OpenCircuit | None = getattr(target, "circuit", None)
    if circuit is None or circuit.open_until is None or circuit.open_until <= timezone.now():
        return None
    return circuit.open_until


def record_run(endpoint: Endpoint, error: ProtocolError | None) -> None:
    """Record the end of an enumeration run; None: success. Any answer closes the circuit."""
    if error and is_about_token(error):
        return
    if isinstance(error, UnavailableError):
        record_failure(endpoint, error.code, error.retry_after)
    else:
        record_answer(endpoint)


def record_call(tool: Tool, outcome: Outcome) -> None:
    # The outcome of a call concerns only the tool. An answer also proves that the endpoint is reachable. A
    # late answer counts as none, whatever the outcome.
    code = (outcome.error or {}).get("code", "")
    if outcome.outcome != "unavailable" and code not in CUT_OFF:
        for target in (tool, tool.endpoint):
            if not _is_known_closed(target):
                record_answer(target)
        return
    if not is_about_token(UnavailableError(code, "")):
        record_failure(tool, code, outcome.retry_after)


def record_answer(target: Endpoint | Tool) -> None:
    open_or_failed = _circuit_of(target).exclude(failures=0, open_until=None)
    open_or_failed.update(failures=0, open_until=None)


def reset(endpoint: Endpoint) -> None:
    # A user had the endpoint read at once, or changed how it is reached.
    record_answer(endpoint)
    ToolCircuit.objects.filter(tool__endpoint=endpoint).delete()


@transaction.atomic
def record_failure(target: Endpoint | Tool, code: str, retry_after: float | None) -> None:
    """Record a failure. The fifth consecutive one opens the circuit, and so does a vendor that asks for a
    pause."""
    if code in OUR_OWN_CODES:
        return
    _circuit_of(target).get_or_create(pk=target.pk)
    circuit = _circuit_of(target).select_for_update().annotate(now=Now()).get()
    circuit.failures += 1
    wait = retry_after_wait(retry_after)
    if circuit.failures >= OPENS_AFTER:
        wait = max(wait, back_off(circuit.failures - OPENS_AFTER + 1))
    if wait:
        circuit.open_until = max(circuit.open_until or circuit.now, circuit.now + wait)
    circuit.save(update_fields=["failures", "open_until"])


def is_about_token(error: ProtocolError) -> bool:
    """Return whether the error came from the authorization server, not from the vendor."""
    return error.code.startswith("TOKEN_") or error.code == "NEEDS_SIGN_IN"
