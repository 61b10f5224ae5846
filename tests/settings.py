"""The product's settings on servers of the test run's own.

With DATABASE_URL and REDIS_URL in the environment those servers are used; otherwise tests/conftest.py
starts private ones in TEST_DATA. Workers of a parallel run inherit the environment of the first process.
"""

import base64
import os
import tempfile
from pathlib import Path

from pegboard.local.embedded import database_url, redis_url, run_directory

if "DATABASE_URL" not in os.environ:
    os.environ["PEGBOARD_TEST_DATA"] = tempfile.mkdtemp(prefix="pegboard-test-")
    _run = run_directory(Path(os.environ["PEGBOARD_TEST_DATA"]))
    os.environ |= {"DATABASE_URL": database_url(_run), "REDIS_URL": redis_url(_run)}

# Each worker of a parallel run has a broker database of its own, as it has a PostgreSQL database of its own.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_broker, _, _ = os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:6379").partition("?")
if _broker.startswith("redis+socket"):
    os.environ["REDIS_URL"] = f"{_broker}?virtual_host={WORKER % 16}"
else:
    os.environ["REDIS_URL"] = f"{_broker.rstrip('/').removesuffix('/0')}/{WORKER % 16}"

os.environ["PEGBOARD_SEARCH_DIRECTORY"] = tempfile.mkdtemp(prefix="pegboard-search-")
# The model takes a second and 220 MB of each process that tests start.
os.environ["PEGBOARD_SEARCH_MEANING"] = "none"
os.environ["PEGBOARD_SECRET_KEY"] = "a key for tests and for nothing else, long enough to be one"
os.environ["PEGBOARD_KEYS"] = "k1:" + base64.b64encode(bytes(range(32))).decode()
os.environ["PEGBOARD_OUTBOUND_ALLOW"] = os.environ["PEGBOARD_CALLBACK_ALLOW"] = "127.0.0.0/8"
# Transactional tests use the same ids of users again, within the same minute.
os.environ["PEGBOARD_CALLS_PER_MINUTE"] = os.environ["PEGBOARD_WRITES_PER_MINUTE"] = "60000"
os.environ["PEGBOARD_HOSTS"] = "127.0.0.1 localhost testserver"
# Playwright's synchronous interface runs an event loop in the thread that also uses the ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

from pegboard.settings import *  # noqa: E402, F403

# A test is one transaction, in which a busy machine may compute for longer than the product ever would.
DATABASES["default"]["OPTIONS"]["limits"]["idle_in_transaction_session_timeout"] = "5min"  # noqa: F405
