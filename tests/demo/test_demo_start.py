import http.client
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo import VENDORS

ROOT = Path(__file__).parents[2]


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_port_base():
    bases = range(20_000 + os.getpid() % 10_000, 32_000, len(VENDORS))
    return next(b for b in bases if all(is_free(b + v.port_offset) for v in VENDORS))


@contextmanager
def start(port_base, *more):
    """Ended in any case: a test that fails would wait for it for ever."""
    command = [sys.executable, "-m", "demo", "--port-base", str(port_base), *more]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_all_vendors_start_together_and_stop_at_once(end, tmp_path):
    port_base = free_port_base()
    with start(port_base, "--state", str(tmp_path / "state")) as process:
        lines = [process.stdout.readline().strip() for _ in VENDORS]
        for vendor, line in zip(VENDORS, lines, strict=True):
            port = port_base + vendor.port_offset
            assert line == f"{vendor.name}: http://127.0.0.1:{port}/"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
        process.send_signal(end)
        assert process.wait(timeout=2) == 0
        assert process.stderr.read() == ""


def test_a_port_in_use_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port_base = listener.getsockname()[1]
        with start(port_base) as process:
            message = process.stderr.read()
            assert process.wait(timeout=5) == 1
    assert message.startswith(f"The demo vendors cannot start on ports from {port_base} on: ")
    assert message.count("\n") == 1
