"""`python -m catalog.meaning.server DIRECTORY ENCODER`: the process of a host that compares meanings.

It answers one request at a time: a question takes 2 ms, and a batch of texts some 30 ms. It ends when the
process that started it does, which the end of its standard input shows.
"""

import os
import sys
import threading
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import msgspec

from catalog.meaning.encoders import ENCODERS, Encoder
from catalog.meaning.messages import (
    SOCKET,
    Failure,
    FindNearest,
    ReadState,
    Reply,
    Request,
    Similarities,
    StoredState,
    StoreTexts,
    decode_request,
    encode,
)
from catalog.meaning.vector_file import VectorFile

# A client of this host sends its request at once.
READ_SECONDS = 1.0


class MeaningServer:
    def __init__(self, directory: Path, encoder: Encoder) -> None:
        self._encoder = encoder
        self._file = VectorFile(directory / "meaning", encoder.recipe, encoder.dimensions)

    def answer(self, request: Request) -> Reply:
        match request:
            case ReadState():
                return self._stored_state()
            case StoreTexts():
                if request.is_start:
                    self._file.clear()
                vectors = self._encoder.encode(request.texts)
                self._file.write(request.tools, request.endpoints, vectors, request.removed, request.state)
                return self._stored_state()
            case FindNearest():
                vector = self._encoder.encode([request.text])[0]
                nearest = self._file.nearest(vector, request.endpoints, request.limit)
                return Similarities(nearest, self._file.cosines(vector, request.tools))

    def _stored_state(self) -> StoredState:
        return StoredState(self._file.state, self._encoder.recipe)


def serve(listener: Listener, server: MeaningServer) -> None:
    while True:
        with listener.accept() as client:
            try:
                if client.poll(READ_SECONDS):
                    _answer(client, server)
            except (OSError, EOFError, msgspec.MsgspecError) as error:
                print(f"A request about meanings failed: {error}", file=sys.stderr, flush=True)  # noqa: T201 - no log here


def _answer(client: "Connection[Any, Any]", server: MeaningServer) -> None:
    request = decode_request(client.recv_bytes())
    try:
        reply = server.answer(request)
    except Exception as error:  # noqa: BLE001 - one request, as with a full disk, ends no other
        reply = Failure(f"{type(error).__name__}: {error}")
    client.send_bytes(encode(reply))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    directory = Path(sys.argv[1])
    server = MeaningServer(directory, ENCODERS[sys.argv[2]](directory))
    address = directory / SOCKET
    address.unlink(missing_ok=True)
    with Listener(str(address), "AF_UNIX", backlog=64) as listener:
        serve(listener, server)


if __name__ == "__main__":
    main()
