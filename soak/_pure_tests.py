"""A pytest plug-in for `soak/mutants.py`: only tests without a database, as forked processes share none."""

import functools
import gc

import pytest

from core.content_cache import ContentCache, ObjectCache

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "live_server"}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Empty all caches. The process was forked after a run of the tests without a mutant, whose results
    hide the mutant."""
    gc.unfreeze()  # tests/conftest.py has frozen the caches, and frozen objects are not listed
    for cache in gc.get_objects():
        # `isinstance` would evaluate lazy objects.
        if issubclass(type(cache), functools._lru_cache_wrapper):
            cache.cache_clear()
        elif issubclass(type(cache), ContentCache | ObjectCache):
            cache.clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needing = [item for item in items if needs_database(item)]
    config.hook.pytest_deselected(items=needing)
    items[:] = [item for item in items if item not in needing]
    for item in items:
        # mutmut 3.8 reads this attribute, which pytest 9.2 no longer has.
        vars(item)["_nodeid"] = item.nodeid


def needs_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or bool(fixtures & DATABASE_FIXTURES)
