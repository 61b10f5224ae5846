"""As whom a program calls a tool."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from catalog.user_grants.end_users import OnBehalfOf
from people.models import ApiKey, User
from protocols.base import QUESTIONS

MAX_NAME_LENGTH = 150


@dataclass(frozen=True, kw_only=True)
class CallerSide:
    """The program that waits for a call, as its protocol tells of it. `has_left` says whether it has hung up,
    where that ends its call; `questions` are the kinds that it can put to its user."""

    has_left: Callable[[], bool] | None = None
    questions: Collection[str] = QUESTIONS


# What is so where a protocol has no word for it.
USUAL = CallerSide()


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """On whose behalf a program calls: an agent, or a sub-agent of it, as one of its releases says.

    `tool` is what the release calls the tool, and `on_behalf_of` the user of the agent for whom it runs.
    `site` is our own address as the caller knows it, for links to our pages, and `side` the program that
    waits.
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

    def called_by(self, actor: User) -> str:
        return (f"{actor}, key {self.key.name}" if self.key else str(actor))[:MAX_NAME_LENGTH]
