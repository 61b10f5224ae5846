import os
import subprocess
import sys
from pathlib import Path

from core.priority import NICENESS

ROOT = Path(__file__).resolve().parents[2]
BEGIN_A_POOL_PROCESS = """
import os
from celery import signals
from pegboard import celery
signals.worker_process_init.send(sender=None)
print(os.nice(0))
"""


def test_a_process_of_a_pool_yields_to_those_that_answer_requests():
    command = [sys.executable, "-c", BEGIN_A_POOL_PROCESS]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    assert int(done.stdout) == min(os.nice(0) + NICENESS, 19)
