"""What a kind of activity is: the contract between one module of this folder and the calls it runs for.

A kind checks what an activity of it is set up with, and performs one call. It makes no call by itself: what
it needs of execution/calls comes with its `Work`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar
from typing import Protocol as Interface

from catalog.models import ActivityVersion, Call
from core.errors import DomainError
from core.outbound.exchange import Exchange
from core.outbound.limits import Limits
from core.outbound.session import Session
from execution.activities.picking import Fault
from protocols.base import Outcome
from protocols.signature import Annotations, Signature

# Opens a conversation, which adds its exchanges to the list and keeps to the limits.
Open = Callable[[MutableSequence[Exchange], Limits], AbstractContextManager[Session]]


class CallStep(Interface):
    """Makes step `number` of a call: a version of a tool, at its vendor or by an `activity`. The same step is
    made once. Raises DomainError for one that is not made."""

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
    """Goes on with a step that stopped to ask, in the call that goes on with the whole."""

    def __call__(self, number: int, stopped: Call, *, answers: Mapping[str, Any]) -> Call: ...


@dataclass(frozen=True, kw_only=True)
class Work:
    """One call that an activity has to perform.

    `signature` is that of the version that was called, which the arguments of the call fit. `may_go_on` is
    asked before anything leaves: it is False once the call was ended from outside. `converse` speaks with
    what it opens, and ends with the call.
    """

    call: Call
    config: Mapping[str, Any]
    signature: Signature
    seconds_left: Callable[[], float]
    may_go_on: Callable[[], bool]
    sleep: Callable[[float], None]
    call_step: CallStep
    continue_step: ContinueStep
    converse: Callable[[Open, Callable[[Session], Outcome]], Outcome]


class Kind(ABC):
    name: ClassVar[str]
    label: ClassVar[str]
    summary: ClassVar[str]
    # Whether something outside of Pegboard may change by it, so that a person confirms what may destroy.
    acts: ClassVar[bool] = True

    @abstractmethod
    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        """The configuration as it is kept. Raises DomainError with a code for what cannot run.

        `interface` has the inputs that it takes and the outputs that it gives; None: those of any tool.
        """

    def faults(self, config: Mapping[str, Any], interface: Signature | None) -> Iterable[Fault]:
        """What stands against running it, all at once; empty for what `check` takes."""
        try:
            self.check(config, interface)
        except DomainError as error:
            said = error.fields or {"": error.message}
            return [Fault(place, error.code, words) for place, words in said.items()]
        return []

    @abstractmethod
    def perform(self, work: Work) -> Outcome:
        """Raises DomainError or ProtocolError, which the call ends with."""

    def why_confirm(self, config: Mapping[str, Any], effects: Annotations) -> str:
        """What a person has to know and confirm before it runs, as a sentence without its subject, beside
        what is to be known of the tools and activities that it runs; empty for most. `effects` are those of
        the tool that it runs for."""
        return ""

    def may_ask(self, config: Mapping[str, Any]) -> bool:
        """Whether it may stop to ask by itself, beside what the tools and activities that it runs may ask."""
        return False

    def tools(self, config: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        """The versions of tools that it calls at their vendors: id of the tool, and ordinal."""
        return ()

    def origins(self, config: Mapping[str, Any]) -> Iterable[str]:
        """Where it sends to by itself, as scheme, host and port: of no vendor that was connected."""
        return ()

    def credentials(self, config: Mapping[str, Any]) -> Iterable[str]:
        """The ids of credentials that it opens."""
        return ()

    def activities(self, config: Mapping[str, Any]) -> Sequence[int]:
        """The ids of other activities that it runs, in the versions that were current when it was saved."""
        return ()
