"""Reads one vendor's list in a process of its own: python -m tests.hostile.reader PROTOCOL URL

Prints JSON: the code that it ended with, how many seconds it took, and by how many MB the process grew.
"""

import json
import sys
import time
from pathlib import Path

import protocols
from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolError
from core.outbound.session import HttpSession
from protocols.list_pages import NoKnownPages, UnreadableItemError


def largest_mb() -> int:
    """The most memory that this process ever held (VmHWM of proc(5))."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def read_list(protocol: str, url: str) -> str:
    protocol_client = protocols.get(protocol)({})
    try:
        with HttpSession(url, policy=Policy.parse("127.0.0.0/8")) as session:
            for page in protocol_client.enumerate(session, NoKnownPages()):
                for item in page.items[:100]:
                    try:
                        protocol_client.read(item.document or {})
                    except UnreadableItemError:
                        continue
    except ProtocolError as error:
        return error.code
    return "ok"


if __name__ == "__main__":
    before, began = largest_mb(), time.monotonic()
    code = read_list(*sys.argv[1:3])
    report = {"code": code, "seconds": time.monotonic() - began, "grown": largest_mb() - before}
    sys.stdout.write(json.dumps(report))
