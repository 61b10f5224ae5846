"""A pytest plug-in for `soak/mutants.py`: only tests without a database, as forked processes share none."""

import pytest

DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "live_server"}


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
