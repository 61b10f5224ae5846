"""A name server that changes its mind, and the machine's own resolver pointed at it.

Run as a program inside of namespaces of its own (unshare -Urnm), where it may be root for itself: it
brings loopback up, puts a resolv.conf in place, serves UDP port 53 and lets the product ask. The result is
printed as JSON.
"""

import fcntl
import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from select import select

A, AAAA = 1, 28


class NameServer:
    """A server that answers A with the next of `answers`[name], each a list of addresses; the last one stays.

    The TTL is 0."""

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def start(self, host: str = "127.0.0.53", port: int = 53) -> None:
        self.socket.bind((host, port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, sender = self.socket.recvfrom(512)
            self.socket.sendto(self.reply(query), sender)

    def reply(self, query: bytes) -> bytes:
        """RFC 1035 4.1: one question, and the records for it."""
        labels, offset = [], 12
        while query[offset]:
            labels.append(query[offset + 1 : offset + 1 + query[offset]].decode())
            offset += 1 + query[offset]
        kind = struct.unpack("!H", query[offset + 1 : offset + 3])[0]
        name = ".".join(labels).lower()
        addresses = self._next(name) if kind == A else []
        is_known = name in self.answers
        head = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if is_known else 3), 1, len(addresses), 0, 0)
        records = [
            struct.pack("!HHHIH", 0xC00C, A, 1, 0, 4) + socket.inet_aton(address) for address in addresses
        ]
        return head + query[12 : offset + 5] + b"".join(records)

    def _next(self, name: str) -> list[str]:
        self.asked.append(name)
        answers_left = self.answers.get(name, [[]])
        return answers_left.pop(0) if len(answers_left) > 1 else answers_left[0]


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def point_the_resolver_here() -> None:
    for path, text in (
        ("/etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n"),
        ("/etc/nsswitch.conf", "hosts: dns\n"),
    ):
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(text)
        subprocess.run(["mount", "--bind", file.name, path], check=True)


def main() -> None:
    from core.outbound.addresses import Policy
    from core.outbound.errors import ProtocolError
    from core.outbound.session import HttpSession
    from tests.hostile_vendor import HostileVendor, reply

    bring_loopback_up()
    point_the_resolver_here()
    names = NameServer(
        {
            "moving.example": [["127.0.0.1"], ["127.0.0.66"]],
            "mixed.example": [["127.0.0.1", "127.0.0.66"]],
            "metadata.example": [["169.254.169.254"]],
        }
    )
    names.start()
    statuses: list[object] = []
    with HostileVendor(reply(keep=False)) as vendor, socket.socket() as canary:
        canary.bind(("127.0.0.66", vendor.port))
        canary.listen()
        for name in ("moving", "moving", "mixed", "metadata", "unknown"):
            url = f"http://{name}.example:{vendor.port}"
            with HttpSession(url, policy=Policy.parse("127.0.0.1/32")) as session:
                try:
                    statuses.append(session.get("/").status)
                except ProtocolError as error:
                    statuses.append(error.code)
        was_reached = bool(select([canary], [], [], 0)[0])
    facts = {"heard": statuses, "asked": names.asked, "canary": was_reached, "vendor": vendor.connections}
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    main()
