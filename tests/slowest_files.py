"""The files of tests that took most of the time of a run."""

from collections import Counter
from collections.abc import Iterable

import pytest

SHOWN = 10


def summary(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each of the slowest files: seconds of all workers, and its part of the whole time.

    reports: of the set-up, the call and the end of each test. An empty list for a run of a few files.
    """
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) <= SHOWN:
        return []
    total = sum(seconds.values()) or 1.0
    return [
        f"{file_seconds:8.1f} s {file_seconds / total:6.1%}  {file}"
        for file, file_seconds in seconds.most_common(SHOWN)
    ]
