"""Memory that a process shares with the processes that it forks."""

import ctypes
import gc


def freeze_memory() -> None:
    """Exempt all objects from garbage collection and return free memory to the system.

    The collector writes to each object that it looks at, and a fork gets a copy of each page that is written
    to.
    """
    gc.collect()
    gc.freeze()
    # Otherwise old garbage would wait until a quarter as many objects are new as were frozen.
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # GNU's C library
        trim(0)
