"""`python -m catalog.meaning.server DIRECTORY ENCODER SECONDS`: the process of a host that compares meanings.

A question takes 15 ms, and a batch of texts 800 ms; a question does not wait for texts that are sent to
an address, and a request for the state waits for neither. The model is loaded for the first request that
needs it; after so many quiet seconds the process starts anew without it, because it holds 200 MB of each
host. The process ends when the one that started it does, which the end of its standard input shows.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Protocol

import msgspec

from catalog.meaning.messages import (
    SOCKET,
    Failure,
    FindNearest,
    Loading,
    OtherTools,
    Prepare,
    ReadState,
    Reply,
    Request,
    Similarities,
    StoredState,
    StoreTexts,
    decode_request,
    encode,
)
from catalog.meaning.models import Model, find_model
from catalog.meaning.vector_head import read_head, write_head
from core.priority import lower_priority

# A client of this host sends its request at once.
READ_SECONDS = 1.0
MAX_CLIENTS = 4


class LoadedModel(Protocol):
    """The class `Comparison`, which is imported with the libraries that it needs."""

    @property
    def stored_state(self) -> StoredState: ...

    def find_nearest(self, request: FindNearest, read_tools: Callable[[], Sequence[int]]) -> Similarities: ...

    def store(self, request: StoreTexts) -> None: ...


class MeaningServer:
    def __init__(self, directory: Path, model: Model) -> None:
        self._directory, self._model = directory, model
        self._vectors = directory / "meaning"
        self._loaded: LoadedModel | None = None
        self._used_at, self._client_count = 0.0, 0
        self._lock = threading.Lock()
        # Its own lock, because loading takes seconds in which other requests are answered.
        self._load_lock = threading.Lock()

    def serve(self, listener: Listener) -> None:
        # A slow address may occupy all threads of the model, so requests are read and states sent by others.
        with (
            ThreadPoolExecutor(MAX_CLIENTS) as readers,
            ThreadPoolExecutor(MAX_CLIENTS) as workers,
            ThreadPoolExecutor(1, initializer=lower_priority) as writers,
        ):
            while True:
                client = listener.accept()
                # A client that waits for a thread counts, too.
                with self._lock:
                    self._client_count += 1
                readers.submit(self._read_request, client, workers, writers)

    def _read_request(
        self, client: "Connection[Any, Any]", workers: ThreadPoolExecutor, writers: ThreadPoolExecutor
    ) -> None:
        with self._conversation(client) as stack:
            if not client.poll(READ_SECONDS):
                return
            request = decode_request(client.recv_bytes())
            if isinstance(request, ReadState):
                self._send_reply(client, request)
                return
            if isinstance(request, Prepare):
                client.send_bytes(encode(self._stored_state()))
            pool = writers if isinstance(request, StoreTexts) else workers
            pool.submit(self._converse, client, request)
            stack.pop_all()

    @contextmanager
    def _conversation(self, client: "Connection[Any, Any]") -> Iterator[ExitStack]:
        """Report a failure, and end the conversation unless the callbacks of the stack are removed."""
        with ExitStack() as stack:
            stack.callback(self._end_conversation, client)
            try:
                yield stack
            except (OSError, EOFError, msgspec.MsgspecError) as error:
                _report(f"A request about meanings failed: {error}")

    def _end_conversation(self, client: "Connection[Any, Any]") -> None:
        client.close()
        with self._lock:
            self._client_count -= 1

    def _converse(self, client: "Connection[Any, Any]", request: Request) -> None:
        with self._conversation(client):
            if isinstance(request, Prepare):
                self.load()
            else:
                self._send_reply(client, request)

    def _send_reply(self, client: "Connection[Any, Any]", request: Request) -> None:
        if self._loaded is None and _needs_model(request):
            client.send_bytes(encode(Loading()))
        try:
            reply = self.answer(request, partial(_read_tools, client))
        except Exception as error:  # noqa: BLE001 - one request, as with a full disk, ends no other
            reply = Failure(f"{type(error).__name__}: {error}")
        client.send_bytes(encode(reply))

    def answer(self, request: Request, read_tools: Callable[[], Sequence[int]] = list) -> Reply:
        """Return the reply. `read_tools` returns the tools that follow a question."""
        match request:
            case FindNearest(tools=None):
                return self.load().find_nearest(request, read_tools)
            case FindNearest(tools=[*tools]):
                return self.load().find_nearest(request, lambda: tools)
            case StoreTexts() if self._loaded or _needs_model(request):
                self.load().store(request)
            case StoreTexts():
                if head := read_head(self._vectors, self._model.recipe):
                    write_head(self._vectors, msgspec.structs.replace(head, state=request.state))
        return self._stored_state()

    def _stored_state(self) -> StoredState:
        if self._loaded:
            return self._loaded.stored_state
        head = read_head(self._vectors, self._model.recipe)
        return StoredState(head.state if head else None, self._model.recipe)

    def load(self) -> LoadedModel:
        with self._load_lock:
            if self._loaded is None:
                from catalog.meaning.comparison import Comparison  # noqa: PLC0415 - with numpy and the model

                self._loaded = Comparison(self._directory, self._vectors, self._model)
            self._used_at = time.monotonic()
            return self._loaded

    def start_anew_when_idle(self, seconds: float) -> None:
        """Replace this process by a new one once the model was not used for so long. Never returns.

        After a failure, as without memory, it tries again when as much time has passed.
        """
        has_failed = False
        while True:
            time.sleep(seconds / 10)
            with self._lock:
                is_idle = self._client_count == 0
                if not (is_idle and self._loaded and time.monotonic() - self._used_at > seconds):
                    continue
                try:
                    os.execv(sys.executable, [sys.executable, "-m", "catalog.meaning.server", *sys.argv[1:]])  # noqa: S606
                except OSError as error:
                    self._used_at = time.monotonic()
                    if not has_failed:
                        _report(f"The model of meanings stays in memory, because no process started: {error}")
                    has_failed = True


def _report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - there is no log here


def _read_tools(client: "Connection[Any, Any]") -> list[int]:
    """Return the tools that a client sends after its question. Raises OSError or EOFError."""
    if not client.poll(READ_SECONDS):
        raise OSError("No tools followed the question.")
    request = decode_request(client.recv_bytes())
    return request.tools if isinstance(request, OtherTools) else []


def _needs_model(request: Request) -> bool:
    match request:
        case StoreTexts():
            return bool(request.is_start or request.texts or request.removed)
        case FindNearest():
            return True
    return False


def main() -> None:
    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    directory = Path(sys.argv[1])
    model = find_model(sys.argv[2])
    server = MeaningServer(directory, model)
    if model.takes_memory:
        threading.Thread(target=server.start_anew_when_idle, args=[float(sys.argv[3])], daemon=True).start()
    else:
        server.load()
    address = directory / SOCKET
    address.unlink(missing_ok=True)
    with Listener(str(address), "AF_UNIX", backlog=64) as listener:
        server.serve(listener)


if __name__ == "__main__":
    main()
