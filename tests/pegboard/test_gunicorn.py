"""The web server prepares what its processes share."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREPARE = """
import django
django.setup()
from pegboard import gunicorn
gunicorn.when_ready(None)
from catalog.search import job_words, word_lists
print(word_lists._ranks.cache_info().currsize, job_words.shipped_job_words.cache_info().currsize)
"""


def test_no_search_waits_for_word_lists():
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "pegboard.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["4", "1"]
