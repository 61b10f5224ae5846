"""The contract between a kind of activity, one module of this folder, and the calls that it runs for.

A kind validates the configuration of its activities, and performs one call. It sends nothing by itself: it
uses the functions of execution/calls that `Work` contains.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar
from typing import Protocol as Interface

from django.utils.functional import Promise

from catalog.models import ActivityVersion, Call
from core.errors import DomainError
from core.outbound.exchange import Exchange
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from execution.activities.picking import ActivityFault
from protocols.call_outcome import Outcome
from protocols.signature import Annotations, Signature

# Opens a conversation, which adds its exchanges to the list and keeps to the limits.
Open = Callable[[MutableSequence[Exchange], Limits], AbstractContextManager[HttpSession]]


class CallStep(Interface):
    """Runs step `number` of a call: a version of a tool, at its vendor or by an `activity`. A step runs
    only once, even if it is requested again. Raises DomainError if it cannot run."""

    def __call__(
        self,
        number: int,
        tool: int,
        ordinal: int,
        *,
        arguments: Mapping[str, Any],
        seconds: int,
        activity: ActivityVersion | None = None,
    ) -> Call: ...


class ContinueStep(Interface):
    """Continues a step that stopped with a question, in the call that continues the calling one."""

    def __call__(self, number: int, stopped_call: Call, *, answers: Mapping[str, Any]) -> Call: ...


@dataclass(frozen=True, kw_only=True)
class ActivityWork:
    """One call that an activity performs.

    signature: of the version that was called; the arguments of the call fit it.
    may_continue: checked before anything is sent. False once the call was ended from outside.
    converse: opens a session, runs a function with it, and ends with the call.
    """

    call: Call
    config: Mapping[str, Any]
    signature: Signature
    seconds_left: Callable[[], float]
    may_continue: Callable[[], bool]
    sleep: Callable[[float], None]
    call_step: CallStep
    continue_step: ContinueStep
    converse: Callable[[Open, Callable[[HttpSession], Outcome]], Outcome]


class ActivityKind(ABC):
    name: ClassVar[str]
    label: ClassVar[str | Promise]
    summary: ClassVar[str | Promise]
    # It may change something outside of Pegboard, so a user confirms what may destroy.
    acts: ClassVar[bool] = True

    @abstractmethod
    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        """Return the configuration in the form that is stored. Raises DomainError with a code if it cannot
        run.

        interface: the inputs that it accepts and the outputs that it returns; None: those of any tool.
        """

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterable[ActivityFault]:
        """Return all faults of the configuration. There are none if `check` accepts it."""
        try:
            self.check(config, interface)
        except DomainError as error:
            faults = error.fields or {"": error.message}
            return [ActivityFault(place, error.code, words) for place, words in faults.items()]
        return []

    @abstractmethod
    def perform(self, work: ActivityWork) -> Outcome:
        """Perform the call. A DomainError or ProtocolError becomes its outcome."""

    def why_confirm(self, config: Mapping[str, Any], effects: Annotations) -> str:
        """Return the end of a sentence about the confirmation that a user must give before it runs; "" if
        none is needed.

        The risks of the tools and activities that it runs are added to it. effects: those of the tool that it
        runs for.
        """
        return ""

    def may_ask(self, config: Mapping[str, Any]) -> bool:
        """Return whether it may stop with a question of its own, apart from those of the tools and
        activities it runs."""
        return False

    def tools(self, config: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        """Return the versions of tools that it calls at their vendors: id of the tool, and ordinal."""
        return ()

    def origins(self, config: Mapping[str, Any]) -> Iterable[str]:
        """Return the scheme, host and port of its own requests, which go to no connected vendor."""
        return ()

    def credentials(self, config: Mapping[str, Any]) -> Iterable[str]:
        """Return the ids of the credentials that it uses."""
        return ()

    def activities(self, config: Mapping[str, Any]) -> Sequence[int]:
        """Return the ids of other activities that it runs, in the versions that were current when it was
        saved."""
        return ()
