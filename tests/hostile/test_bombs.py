"""Replies that are made to fill the memory or to hold the processor (H1), each in a process of its own.

PEGBOARD_BOMBS=all tries every bomb on every protocol; the suite takes the worst of each kind.
"""

import gzip
import json
import os
import subprocess
import sys
import zlib

import pytest

from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, raw, reply

MIB = 1024 * 1024
MAX_GROWN, DEADLINE = 150, 20 + 1
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def filled(unit, start=b"[", end=b"]", size=10 * MIB - 100):
    """A document of almost the most that is read."""
    return start + unit * ((size - len(start) - len(end)) // len(unit)) + unit.rstrip(b",") + end


def packed(size):
    """Zeros in gzip, made without holding them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()


BOMBS = {
    "a gzip bomb of 500 MB": lambda: reply(packed(500 * MIB), headers={"Content-Encoding": "gzip"}),
    "a gzip bomb of 100 MB": lambda: reply(packed(100 * MIB), headers={"Content-Encoding": "gzip"}),
    "a gzip bomb below the ratio": lambda: reply(
        gzip.compress(b"".join(os.urandom(600) + bytes(100_000) for _ in range(200))),
        headers={"Content-Encoding": "gzip"},
    ),
    "10 MB of empty objects": lambda: reply(filled(b"{},")),
    "10 MB of empty lists": lambda: reply(filled(b"[],")),
    "10 MB of lists in lists": lambda: reply(filled(b"[[[[[[[[]]]]]]]],")),
    "half a million texts": lambda: reply(filled(b'"abcdefghijklmno",')),
    "half a million objects": lambda: reply(filled(b'{"a":{"b":{}}},', size=490_000 * 15)),
    "four hundred thousand objects": lambda: reply(filled(b'{"a":0},', size=399_000 * 8)),
    "a list of half a million nothings": lambda: reply(
        filled(b"{},", b'{"items":[', b"]}", size=490_000 * 3)
    ),
    "a text of 10 MB": lambda: reply(b'["' + b"a" * (10 * MIB - 10) + b'"]'),
    "10 MB of escapes": lambda: reply(b'["' + b"\\u00e9" * (10 * MIB // 6 - 10) + b'"]'),
    "a number of 10 MB": lambda: reply(b"[" + b"1" * (10 * MIB - 10) + b"]"),
    "nothing but brackets": lambda: reply(b"[" * (10 * MIB - 10)),
    "an endless body": lambda: raw(HEAD + b"\r\n" + bytes(12 * MIB)),
    "30 MB of YAML": lambda: reply(b"openapi: 3.1.0\nx-a:\n" + b"- a\n" * (30 * MIB // 4)),
    "YAML that laughs": lambda: reply(
        b"openapi: 3.1.0\nx-a: &a [l, l, l, l, l, l, l, l, l, l]\n"
        + b"".join(
            b"x-%c: &%c [%s]\n" % (98 + n, 98 + n, b", ".join([b"*%c" % (97 + n)] * 10)) for n in range(9)
        )
    ),
    "an endless stream of events": lambda: raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"data: {}\n\n" * MIB
    ),
}
WORST = {
    ("a2t", "a gzip bomb of 100 MB"),
    ("a2t", "a list of half a million nothings"),
    ("oxp", "half a million objects"),
    ("acp", "four hundred thousand objects"),
    ("mcp", "an endless stream of events"),
    ("openapi", "30 MB of YAML"),
}
ALL = [(protocol, bomb) for protocol in DIALECTS for bomb in BOMBS]


def read_apart(protocol, script):
    with HostileVendor(script) as vendor:
        command = [sys.executable, "-m", "tests.hostile.reader", protocol, vendor.url]
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr[-2_000:]
        return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("protocol", "bomb"), ALL if os.environ.get("PEGBOARD_BOMBS") == "all" else sorted(WORST)
)
def test_a_bomb_neither_fills_the_memory_nor_outlives_the_deadline(protocol, bomb):
    ended = read_apart(protocol, BOMBS[bomb]())
    assert ended["grown"] <= MAX_GROWN, ended
    assert ended["seconds"] <= DEADLINE, ended
