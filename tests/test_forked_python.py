import json
import signal
import subprocess
from urllib.parse import urlsplit

import pytest

from tests import forked_python

PRINT = """
import json, os, sys
from django.conf import settings
from core import failpoints
print(json.dumps([os.getpid(), sys.argv, settings.DATABASES["default"]["NAME"], failpoints._name]))
"""


def test_each_fork_has_an_environment_of_its_own(process_environment):
    elsewhere = urlsplit(process_environment["DATABASE_URL"])._replace(path="/elsewhere").geturl()
    crash = {"DATABASE_URL": elsewhere, "DEBUG_CRASH": "1", "CRASHPOINT": "step-made"}
    first, second = (
        json.loads(forked_python.run("-c", PRINT, "word", env=process_environment | changes).stdout)
        for changes in (crash, {})
    )
    database = urlsplit(process_environment["DATABASE_URL"]).path.removeprefix("/")
    assert first[1:] == [["-c", "word"], "elsewhere", "step-made"]
    assert second[1:] == [["-c", "word"], database, ""]
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('No.')", 1, "No."),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
    ],
)
def test_a_fork_ends_as_a_process_does(process_environment, code, status, error):
    done = forked_python.run("-c", code, env=process_environment)
    assert (done.returncode, done.stdout) == (status, "")
    assert error in done.stderr
    assert bool(error) == bool(done.stderr)


def test_settings_of_another_environment_are_read(process_environment):
    code = "from django.conf import settings; print(settings.ALLOWED_HOSTS)"
    done = forked_python.run("-c", code, env=process_environment | {"PEGBOARD_HOSTS": "desk.example"})
    assert "desk.example" in done.stdout


def test_a_fork_that_takes_too_long_is_killed(process_environment):
    with pytest.raises(subprocess.TimeoutExpired):
        forked_python.run("-c", "import time; time.sleep(60)", env=process_environment, timeout=0.1)
