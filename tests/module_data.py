"""Rows that the tests of a module share, made once, as Django's `setUpTestData` makes them for a class.

The result of a fixture marked `@module_data` stays in an open transaction as long as tests of its module use
the same ones; each test works in a savepoint of it and gets copies of the objects. Tests that commit, and
those that use others, find nothing of it. Fixtures that such a fixture uses are marked too, or last as long
as the module; a marked one of a conftest is made with what takes it, else in the test. All this comes before
the fixtures of the test: nothing that they patch holds for it. The database's `now()` is when the transaction
began, so it does not advance over these tests.
"""

import copy
from collections.abc import Callable
from contextlib import ExitStack
from inspect import Parameter, signature
from itertools import groupby
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase

Make = Callable[..., Any]
LASTING = {"module", "package", "session"}
COMMITTING = {"transactional_db", "live_server", "django_db_reset_sequences", "django_db_serialized_rollback"}


def module_data(make: Make) -> Any:
    """A fixture that returns what `make` returns, in place of `@pytest.fixture`."""

    def copy_or_make(request: pytest.FixtureRequest, db: None, **arguments: Any) -> Any:
        copies = request.config.stash[SHARED].copies
        return copies[make] if make in copies else make(**arguments)

    names = ("request", "db", *signature(make).parameters)
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    vars(copy_or_make).update(make=make, __signature__=signature(copy_or_make).replace(parameters=parameters))
    return pytest.fixture(name=make.__name__)(copy_or_make)


class Shared:
    """`made` is as it was made; `copies` are those of the running test."""

    def __init__(self) -> None:
        self.asked: tuple[str, frozenset[str]] | None = None
        self.made: dict[Make, Any] = {}
        self.copies: dict[Make, Any] = {}
        self.atomics: Any = None

    def prepare(self, request: pytest.FixtureRequest) -> None:
        """Prepare the rows of the module before the savepoint of the test begins."""
        item = request.node
        names = _asked_by(item)
        requested = (_module_of(item), names) if names else None
        if requested != self.asked or self.is_broken():
            self.close()
        if requested and not self.atomics:
            self.atomics = TestCase._enter_atomics()
            self.asked = requested
            with ExitStack() as unless_all_are_made:
                unless_all_are_made.callback(self.close)
                for name in sorted(names):
                    self._make(name, request)
                unless_all_are_made.pop_all()
        self.copies = copy.deepcopy(self.made)

    def is_broken(self) -> bool:
        """A test may have closed the connection."""
        return bool(connection.closed_in_transaction or connection.needs_rollback)

    def _make(self, name: str, request: pytest.FixtureRequest) -> Any:
        fixture = request.node._fixtureinfo.name2fixturedefs[name][-1]
        if (make := _make_of(fixture)) is None:
            if fixture.scope not in LASTING:
                raise TypeError(f"@module_data takes the fixture {name}, which is not marked so")
            return request.getfixturevalue(name)
        if make not in self.made:
            parameters = signature(make).parameters
            self.made[make] = make(**{name: self._make(name, request) for name in parameters})
        return self.made[make]

    def close(self) -> None:
        atomics, self.atomics, self.asked = self.atomics, None, None
        self.made, self.copies = {}, {}
        if atomics:
            TestCase._rollback_atomics(atomics)


SHARED = pytest.StashKey[Shared]()


def in_order(items: list[pytest.Item]) -> None:
    """Group the tests of a module that share the same rows; the others keep their order."""
    items[:] = [
        item for _, of_module in groupby(items, _module_of) for item in _those_alike_together(list(of_module))
    ]


def _those_alike_together(items: list[pytest.Item]) -> list[pytest.Item]:
    places: dict[frozenset[str], int] = {}
    return sorted(items, key=lambda item: (commits(item), places.setdefault(_asked_by(item), len(places))))


def _asked_by(item: pytest.Item) -> frozenset[str]:
    """The marked fixtures of its module that a test uses."""
    if commits(item):
        return frozenset()
    fixtures_by_name = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    module = _module_of(item)
    return frozenset(
        name for name, those in fixtures_by_name.items() if those[-1].baseid == module and _make_of(those[-1])
    )


def _make_of(fixture: pytest.FixtureDef[Any]) -> Make | None:
    return getattr(fixture.func, "make", None)


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def commits(item: pytest.Item) -> bool:
    """Return whether the rows of this test are committed, and not rolled back at its end."""
    marker = item.get_closest_marker("django_db")
    options = marker.kwargs if marker else {}
    return bool(
        options.get("transaction")
        or options.get("reset_sequences")
        or options.get("serialized_rollback")
        or COMMITTING.intersection(item.fixturenames)  # type: ignore[attr-defined]
    )
