import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from pegboard.local.embedded import Embedded
from people.models import Role
from tests.factories import make_user
from tests.faults import tally
from tests.faults.stand import NO_LIMITS, Stand, wait_for
from tests.faults.warm import Warm
from tests.vendor import Vendor, serving, tools


@pytest.fixture(autouse=True)
def _tally(request: pytest.FixtureRequest) -> Iterator[None]:
    """Begun first, so that it ends last and misses nothing."""
    tally.take()
    yield
    request.node.user_properties.append((tally.PROPERTY, tally.take()))


@pytest.fixture(scope="session")
def _warm_processes() -> Iterator[dict[str, Warm]]:
    processes: dict[str, Warm] = {}
    yield processes
    for process in processes.values():
        process.stop()


@pytest.fixture
def worker(process_environment, _warm_processes, tmp_path_factory) -> Warm:
    """Forks processes that work on this test's database."""
    url = process_environment["DATABASE_URL"]
    if url not in _warm_processes:
        log: Path = tmp_path_factory.mktemp("warm") / "log"
        _warm_processes[url] = Warm(process_environment, log)
    return _warm_processes[url]


@pytest.fixture(scope="module")
def stand(tmp_path_factory) -> Iterator[Stand]:
    """The product with a read endpoint, on durable servers that a test may kill. The web server runs."""
    directory: Path = tmp_path_factory.mktemp("stand")
    servers = Embedded(directory / "data")
    servers.start()
    environment = {**os.environ, **servers.urls, "DJANGO_SETTINGS_MODULE": "pegboard.settings"} | NO_LIMITS
    stand = Stand(servers, environment, directory)
    try:
        stand.warm.do("migrate", seconds=300)  # on a machine with other work, too
        with serving(Vendor(tools(25))) as vendor:
            stand.vendor = vendor
            stand.set_up()
            stand.begin_web()
            wait_for(lambda: stand.ask("/healthz").status == 200, 120, "the first page")
            yield stand
    finally:
        stand.stop()
        servers.stop()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with serving(Vendor(tools(25))) as vendor:
        yield vendor


@pytest.fixture
def admin_api(db: None) -> APIClient:
    client = APIClient()
    client.force_login(make_user(Role.ADMIN))
    return client
