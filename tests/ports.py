"""Ports for servers of tests that bind them themselves."""

import random
import socket

# The system gives higher ports to whoever connects or listens next; lower ones have known owners.
_PORTS = range(20_000, 32_000)
# Hypothesis seeds the usual one, equally in each process of a parallel run.
_dice = random.SystemRandom()


def free_port() -> int:
    """Return a port of this machine on which nothing listens, and which nobody gets by chance."""
    for port in _dice.sample(_PORTS, 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("a hundred ports are in use")
