"""The context of the current work, for log lines in web processes and workers: a request, a user, a run.

Facts are ids and names that Pegboard chose, never text from a user or a vendor. They belong to one thread.
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
    # Short enough to read out on the telephone.
    return secrets.token_hex(8)


def accept_request_id(header: str) -> str:
    """Return the id that a proxy or a client sent if it is well formed, otherwise a new one."""
    return header if REQUEST_ID.fullmatch(header) else new_request_id()


def begin(facts: Facts) -> Token[Facts]:
    """Start a new piece of work, unrelated to earlier work of this thread."""
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
    """Return the current facts. A fact may be a function, which is called here."""
    values = ((name, fact() if callable(fact) else fact) for name, fact in _current.get().items())
    return {name: fact for name, fact in values if fact not in (None, "")}


def request_id() -> str:
    """Return the id of the current request, or "" outside of one."""
    return str(_current.get().get("request_id") or "")
