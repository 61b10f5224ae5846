"""The priority of background work: on a busy machine, pages and calls are answered first."""

import os

# A process with 5 gets a third of the time of one with 0, where both want it.
NICENESS = 5


def lower_priority() -> None:
    """Lower the priority of this process. On Linux, a thread that calls it lowers its own priority alone."""
    os.nice(NICENESS)
