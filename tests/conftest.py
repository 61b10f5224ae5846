import gc
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from subprocess import Popen
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from whitenoise.responders import StaticFile

from core import redis_client
from pegboard.local.embedded import Embedded
from tests import emptying, forked_python, migrating, module_data, one_door, slowest_files
from tests.hostile_vendor import reserved_port
from tests.vendor import Vendor, serving, tools

# Half of what Hypothesis tries by itself: each run tries others.
hypothesis_settings.register_profile("here", deadline=None, max_examples=50)
hypothesis_settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis_settings.load_profile("ci" if os.environ.get("CI") else "here")

SERVERS = pytest.StashKey[Embedded]()
MIGRATING = pytest.StashKey[Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """The first process starts the servers for itself and for the workers of a parallel run."""
    _watch_the_door(config)
    if hasattr(config, "workerinput") or "PEGBOARD_TEST_DATA" not in os.environ:
        return
    if config.option.collectonly or config.option.help or config.option.version:
        return
    servers = Embedded(Path(os.environ["PEGBOARD_TEST_DATA"]), durable=False)
    servers.start()
    config.stash[SERVERS] = servers
    if config.getoption("numprocesses", None):
        config.stash[MIGRATING] = migrating.begin()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imported and collected objects live to the end: the garbage collector need not look at them again.

    Of what tests make it looks at fifty thousand objects at once, as in the children of tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first: the last test of a parallel run would leave the other processes without work."""
    items.sort(key=lambda item: not {"faults", "browser"} & {mark.name for mark in item.iter_markers()})
    module_data.in_order(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the work of threads and child processes after the last test."""
    if faults := one_door.judge():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(*faults, sep="\n")  # noqa: T201 - there is no test left to fail


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest files, and the faults of the fault tests in the form of the storms."""
    from tests.faults import tally

    every = [report for reports in terminalreporter.stats.values() for report in reports]
    reports = [report for report in every if isinstance(report, pytest.TestReport)]
    sections = {"slowest files": slowest_files.summary(reports), "faults": tally.summary(reports)}
    for title, lines in sections.items():
        if lines:
            terminalreporter.section(title)
            terminalreporter.write_line("\n".join(lines))


def pytest_unconfigure(config: pytest.Config) -> None:
    forked_python.stop()
    if report := os.environ.pop(one_door.REPORT, ""):
        Path(report).unlink(missing_ok=True)
    if process := config.stash.get(MIGRATING, None):
        process.kill()
        process.wait()
    if servers := config.stash.get(SERVERS, None):
        servers.stop()
    if not hasattr(config, "workerinput") and "PEGBOARD_TEST_DATA" in os.environ:
        shutil.rmtree(os.environ["PEGBOARD_TEST_DATA"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let a fixture whose setup broke off be set up again for the next test.

    pytest 9 remembers exceptions, but no SystemExit: that fixture fails in each later test of the process,
    with an AssertionError that does not tell why (https://github.com/pytest-dev/pytest/issues/15067).
    """
    try:
        return (yield)
    except BaseException as error:
        if fixturedef.cached_result is None:
            failure = (error, error.__traceback__)
            fixturedef.cached_result = (None, fixturedef.cache_key(request), failure)  # type: ignore[arg-type]
        raise


@pytest.fixture(scope="session")
def is_copied(django_db_modify_db_settings: None) -> bool:
    """See tests/migrating.py."""
    return migrating.copy_what_was_made()


@pytest.fixture(scope="session")
def django_db_setup(is_copied: bool, django_db_setup: None, django_db_blocker: pytest.Item) -> Iterator[None]:
    """Truncate all tables after a test with transactions of its own, which the product's roles may not do."""
    from django.db import connection

    emptying.instead_of_truncating()
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        if is_copied:
            migrating.copy_rights()
        emptying.remember()
        cursor.execute(
            r"SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgname LIKE '%\_not\_truncated'"
        )
        for table, trigger in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
    yield
    # Threads that a test left behind, as those of the live server, give their connections up a moment later.
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        for _ in range(100):
            cursor.execute(f"SELECT state, query {others}")
            if not (rows := cursor.fetchall()):
                return
            time.sleep(0.1)
        sys.stderr.write(f"still connected at the end: {rows}\n")
        cursor.execute(f"SELECT pg_terminate_backend(pid, 5000) {others}")


@pytest.fixture(scope="session")
def shared_rows(
    pytestconfig: pytest.Config, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[module_data.Shared]:
    shared = pytestconfig.stash[module_data.SHARED] = module_data.Shared()
    yield shared
    with django_db_blocker.unblock():
        shared.close()


@pytest.fixture
def rows_of_module(
    request: pytest.FixtureRequest, shared_rows: module_data.Shared, django_db_blocker: DjangoDbBlocker
) -> None:
    """See tests/module_data.py."""
    with django_db_blocker.unblock():
        shared_rows.prepare(request)


@pytest.fixture(autouse=True)
def heartbeats_see_the_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the heartbeats of a test that is rolled back.

    They work in a connection of their own, where the rows of the test do not exist. After a second they
    would report that the run is lost.
    """
    if module_data.commits(request.node):
        return
    from catalog.enumeration import heartbeat
    from execution.calls import lease

    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 3600)
    monkeypatch.setattr(lease, "BEAT_SECONDS", 3600.0)


@pytest.fixture
def empty_queues() -> None:
    """Delete the messages of earlier tests, which no worker receives: the queue of a task has a limit."""
    redis_client.client().delete(*(queue.name for queue in settings.CELERY_TASK_QUEUES))


@pytest.fixture
def _django_db_helper(rows_of_module: None, empty_queues: None, _django_db_helper: None) -> None:
    """The transaction of a test, which is a savepoint where rows are shared."""


@pytest.fixture(autouse=True)
def own_search_index() -> Iterator[None]:
    """An index outlives the rows of its test, which it contains."""
    yield
    from catalog.search.engines import current_engine

    if current_engine().open():
        current_engine().discard()


@pytest.fixture(scope="session", autouse=True)
def no_pause_before_another_try() -> None:
    """Retries of a failed request wait for more than a second: hundreds of tests would wait for them."""
    from core.outbound.limits import DEFAULT_LIMITS

    object.__setattr__(DEFAULT_LIMITS, "backoff", tuple(0.01 for _ in DEFAULT_LIMITS.backoff))


@pytest.fixture(scope="session", autouse=True)
def static_files_are_listed_once() -> None:
    """Each test client makes its own middleware, which would look at some two hundred files again."""
    from whitenoise.middleware import WhiteNoiseMiddleware

    files: dict[str, StaticFile] = {}
    listing = WhiteNoiseMiddleware.add_files_from_finders

    def list_once(middleware: WhiteNoiseMiddleware) -> None:
        if not files:
            listing(middleware)
            files.update(middleware.files)
        middleware.files.update(files)

    WhiteNoiseMiddleware.add_files_from_finders = list_once


@pytest.fixture(scope="session", autouse=True)
def no_pause_before_a_call_is_sent_again() -> None:
    """The record of a call contains its waits; no test needs the real pause."""
    from execution.calls import invocation, lease

    invocation.sleep = lambda seconds: None
    sleep = lease.LeasedCall.sleep
    lease.LeasedCall.sleep = lambda lease, seconds: sleep(lease, 0)


@pytest.fixture(scope="session", autouse=True)
def calls_are_looked_at_within_their_test() -> None:
    """A call that has taken more than a second is looked at by a thread, which may get to the database when
    the test is over and no test may use it."""
    from execution.calls import lease

    ended = lease._find_ended

    def ended_meanwhile(calls: list[int]) -> list[int]:
        try:
            return ended(calls)
        except RuntimeError as error:
            if "Database access not allowed" in str(error):
                return []
            raise

    lease._find_ended = ended_meanwhile


def _watch_the_door(config: pytest.Config) -> None:
    """Report in this process, and in the child processes of the test runner."""
    one_door.watch()
    runs_tests = hasattr(config, "workerinput") or config.getoption("dist", "no") == "no"
    if runs_tests and one_door.REPORT not in os.environ:
        descriptor, os.environ[one_door.REPORT] = tempfile.mkstemp(prefix="pegboard-one-door-")
        os.close(descriptor)
        children = str(Path(__file__).parent / "children")
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{children}{os.pathsep}{others}" if others else children


@pytest.fixture(autouse=True)
def digest_key_of_each_database() -> None:
    """A process uses the key of digests for a minute, and each test has a database of its own."""
    from core import encryption

    encryption.forget_digest_key()


@pytest.fixture(autouse=True)
def process_stays_as_it_was() -> Iterator[None]:
    """A change of the whole process that outlives its test breaks another test, but in some orders only."""
    before = _process_state()
    yield
    after = _process_state()
    assert set(after.items()) == set(before.items())


@pytest.fixture
def monkeypatch(process_stays_as_it_was: None, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Undoes its changes before the process is compared."""
    return monkeypatch


def _process_state() -> dict[str, object]:
    """The environment, the directory and the levels of our loggers, each by its name."""
    from pegboard.ops import logs

    variables = {f"${name}": value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    levels = {f"log {name}": logging.getLogger(name).level for name in ("root", *logs.OURS)}
    return {"directory": Path.cwd(), **variables, **levels}


@pytest.fixture(autouse=True)
def one_way_out() -> Iterator[None]:
    """See tests/one_door.py."""
    yield
    if faults := one_door.judge():
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.fixture
def process_environment(transactional_db: None) -> dict[str, str]:
    """Return the environment of a child process (a worker, a command) that uses this test's database."""
    from django.conf import settings
    from django.db import connection

    name = connection.settings_dict["NAME"]
    return {
        **os.environ,
        "DATABASE_URL": urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl(),
        "REDIS_URL": settings.REDIS_URL,
        "DJANGO_SETTINGS_MODULE": "pegboard.settings",
    }


@pytest.fixture
def own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the calls of this test apart: what others have asked in the same minute does not count here."""
    from core import rate_limits

    monkeypatch.setattr(rate_limits, "_KEY", f"test:limit:{time.time_ns()}")


@pytest.fixture(scope="session")
def vendor_port() -> Iterator[int]:
    """The port of vendors whose address is in rows that tests share."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with serving(Vendor(tools(25))) as vendor:
        yield vendor


@pytest.fixture
def admin_api(db: None):
    """The API as an administrator calls it."""
    from tests.clients import signed_in

    return signed_in("admin")


@pytest.fixture
def designer_api(db: None):
    """The API as a designer calls it."""
    from tests.clients import signed_in

    return signed_in("designer")


@pytest.fixture
def program(db: None):
    """Makes a program with a new API key: `program(user, *scopes)`."""
    from tests.clients import bearer

    return bearer
