"""What the current work belongs to: a request, a user, a run. Log lines name it, in web and workers.

Facts are ids and names of ours, never what a user typed or a vendor sent. They belong to one thread.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType

Fact = str | int | None
Facts = Mapping[str, Fact | Callable[[], Fact]]

REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}", re.ASCII)

_current: ContextVar[Facts] = ContextVar("trace", default=MappingProxyType({}))


def new_request_id() -> str:
    # Short enough to be read out on the telephone.
    return secrets.token_hex(8)


def taken_request_id(offered: str) -> str:
    """What a proxy or another program called this request, if that is well formed; else a new id."""
    return offered if REQUEST_ID.fullmatch(offered) else new_request_id()


def begin(facts: Facts) -> Token[Facts]:
    """A new piece of work, which has nothing to do with what this thread did before."""
    return _current.set(facts)


def end(token: Token[Facts]) -> None:
    _current.reset(token)


@contextmanager
def about(**facts: Fact) -> Iterator[None]:
    token = _current.set({**_current.get(), **facts})
    try:
        yield
    finally:
        _current.reset(token)


def facts() -> dict[str, str | int]:
    """Those that are known by now. A fact may be a function, asked when it is needed."""
    found = ((name, fact() if callable(fact) else fact) for name, fact in _current.get().items())
    return {name: fact for name, fact in found if fact not in (None, "")}


def request_id() -> str:
    """Empty outside of any request."""
    return str(_current.get().get("request_id") or "")
