"""The hook of tests/one_door.py stops a connection."""

import os
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from django.db import transaction

from core.outbound.addresses import Policy
from core.outbound.session import HttpSession
from tests import one_door
from tests.hostile_vendor import HostileVendor, reply

LOOPBACK = Policy.parse("127.0.0.1")
CONNECTS = "import socket\ndef call_home(to):\n    socket.create_connection(to, timeout=2).close()\n"
# As a library would, from a line of the product.
LOOKS_UP = "import socket\ndef call_home(to):\n    socket.getaddrinfo(to[0], to[1])\n"


def module_at(path, source):
    names = {}
    exec(compile(source, f"{one_door.ROOT}{path}", "exec"), names)
    return names["call_home"]


@pytest.fixture
def vendor():
    with HostileVendor(reply()) as vendor:
        yield vendor


@pytest.mark.parametrize("source", [CONNECTS, LOOKS_UP])
@pytest.mark.parametrize("path", ["catalog/letters_home.py", "people/sso.py", "pegboard/mail.py"])
def test_line_of_the_product_that_connects_by_itself_fails_the_run(vendor, path, source):
    with one_door.expected() as faults, pytest.raises(one_door.SecondDoorError):
        module_at(path, source)(("127.0.0.1", vendor.port))
    assert len(faults) == 1
    assert f"{path}, call_home" in faults[0]
    assert "went past core/outbound/connection.py" in faults[0]
    assert vendor.connections == 0


def test_fault_is_kept_even_if_the_product_swallows_it(vendor):
    swallowing = CONNECTS.replace("def call_home(to):\n    ", "def call_home(to):\n  try:\n    ")
    with one_door.expected() as faults:
        module_at("catalog/quiet.py", swallowing + "  except Exception: pass\n")(("127.0.0.1", vendor.port))
    assert len(faults) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_of_a_library_that_calls_home_fails_the_run(vendor):
    with one_door.expected() as faults:
        thread = threading.Thread(target=socket.create_connection, args=(("127.0.0.1", vendor.port),))
        thread.start()
        thread.join()
    assert any("A thread without a line of ours" in fault for fault in faults)
    assert vendor.connections == 0


@pytest.mark.django_db
def test_vendor_that_is_dialled_inside_a_transaction_fails_the_run(vendor):
    session = HttpSession(vendor.url, policy=LOOPBACK)
    with (
        one_door.expected() as faults,
        session,
        transaction.atomic(),
        pytest.raises(one_door.SecondDoorError),
    ):
        session.get("/")
    assert "while a database transaction was open" in faults[0]
    assert vendor.connections == 0


CHILD = """
import sys
source, path, port = sys.argv[1:]
names = {}
exec(compile(source, path, "exec"), names)
names["call_home"](("127.0.0.1", int(port)))
"""


def test_child_processes_are_watched_too(vendor):
    path = f"{one_door.ROOT}catalog/in_a_worker.py"
    with one_door.expected() as faults:
        child = subprocess.run(
            [sys.executable, "-c", CHILD, CONNECTS, path, str(vendor.port)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert child.returncode == 1
    assert "SecondDoorError" in child.stderr
    assert [fault for fault in faults if "catalog/in_a_worker.py, call_home" in fault]
    assert vendor.connections == 0


@pytest.mark.django_db
def test_door_and_the_tests_own_clients_pass(vendor):
    with one_door.expected() as faults:
        with HttpSession(vendor.url, policy=LOOPBACK) as session:
            session.get("/")
        urllib.request.urlopen(vendor.url).close()
        subprocess.run(
            [sys.executable, "-c", CONNECTS + f"call_home(('127.0.0.1', {vendor.port}))"],
            env=os.environ,
            check=True,
        )
    assert faults == []
    assert vendor.connections == 3
