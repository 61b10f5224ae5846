"""The runtime in whose name a program calls a tool."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from execution.user_grants.end_users import OnBehalfOf
from people.models import ApiKey
from protocols.call_outcome import QUESTIONS


@dataclass(frozen=True, kw_only=True)
class CallerSide:
    """The client that waits for a call.

    has_left: returns whether it has hung up, in protocols in which that cancels the call.
    questions: the kinds of questions that it can show to its user.
    wants_progress: it shows the progress of the call, so that progress restarts the deadline.
    """

    has_left: Callable[[], bool] | None = None
    questions: Collection[str] = QUESTIONS
    wants_progress: bool = False


# The default for protocols without such declarations.
USUAL = CallerSide()


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The agent or sub-agent for which a program calls, in one of its releases.

    tool: the name of the tool in the release. on_behalf_of: the agent's user for whom the tool runs.
    site: Pegboard's address as the caller knows it, for links to pages. side: the client that waits.
    """

    agent: int
    release: int
    key: ApiKey | None
    why: str
    sub_agent: str = ""
    tool: str = ""
    on_behalf_of: OnBehalfOf | None = None
    site: str = ""
    side: CallerSide = USUAL
