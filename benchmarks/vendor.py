"""The vendor that benchmarks read: 5,000 signatures of 1.8 KB in pages of 100, made before the first request.

Every fourth tool has quotation marks, line breaks, tabs and backslashes in its texts, as real ones do: JSON
and COPY escape them, in the product and in the floor alike. Prints its port. Below /tagged it sends ETags
and answers 304. A POST runs a tool at once, below /slow after two seconds; GET /count returns how many ran.
"""

import hashlib
import itertools
import json
import random
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

COUNT, PAGE = 5_000, 100
SLOW_SECONDS = 2.0
WORDS = (
    *("order", "customer", "refund", "shipment", "invoice", "address", "date", "status", "number", "store"),
    *("account", "payment", "request", "limit", "returns", "optional", "filter", "window", "currency"),
)


def tool(number: int, dice: random.Random) -> dict[str, Any]:
    def text(words: int) -> str:
        said = dice.choices(WORDS, k=words)
        if number % 4 == 0:
            said[1::12] = [f'"{word}"\n\t- \\{word}' for word in said[1::12]]
        return " ".join(said).capitalize() + "."

    inputs = [
        {"id": f"p{n}", "name": f"{word}_{n}", "type": "string", "description": text(16), "required": n == 0}
        for n, word in enumerate(dice.sample(WORDS, 5))
    ]
    outputs = [
        {"id": f"o{n}", "name": f"{word}_{n}", "type": "string", "description": text(8)}
        for n, word in enumerate(dice.sample(WORDS, 2))
    ]
    return {
        "toolId": str(uuid.UUID(int=dice.getrandbits(128))),
        "name": f"{dice.choice(WORDS)}_{dice.choice(WORDS)}_{number}",
        "description": text(35),
        "version": 1,
        "currentVersion": 1,
        "tags": dice.sample(WORDS, 2),
        "input_parameters": inputs,
        "output_parameters": outputs,
    }


def pages() -> list[bytes]:
    dice = random.Random(7)
    tools = [tool(number, dice) for number in range(COUNT)]
    starts = range(0, COUNT, PAGE)
    return [
        json.dumps(
            {
                "items": tools[start : start + PAGE],
                "paging": {"pageLimit": PAGE} | ({"next": str(start + PAGE)} if start + PAGE < COUNT else {}),
            }
        ).encode()
        for start in starts
    ]


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bodies: list[bytes] = []
    etags: list[str] = []
    ran = itertools.count()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/slow"):
            time.sleep(SLOW_SECONDS)
        next(self.ran)
        self._answer(b'{"output_parameters": []}')

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/count":
            # The representation of `count()` contains its value; calling `next` would increase it.
            self._answer(repr(self.ran).removeprefix("count(").removesuffix(")").encode())
            return
        number = int(parse_qs(url.query).get("pageCursor", ["0"])[0]) // PAGE
        etag = self.etags[number] if url.path.startswith("/tagged") else ""
        is_unchanged = bool(etag) and self.headers.get("If-None-Match") == etag
        body = b"" if is_unchanged else self.bodies[number]
        self.send_response(304 if is_unchanged else 200)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def main() -> None:
    Handler.bodies = pages()
    Handler.etags = [f'"{hashlib.sha256(body).hexdigest()}"' for body in Handler.bodies]
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
