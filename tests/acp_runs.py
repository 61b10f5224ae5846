"""A vendor of ACP whose runs go on until a test lets them end."""

import json
import uuid

from tests.hostile_vendor import Line, Request, json_reply, reply

RUNNING, DONE = "pending", "success"


class Runs:
    """`started` holds the request bodies by run; `ended` holds the output of each run that is over, and
    `updates` the stream before its end: without an output it breaks off after them. `threads` holds the
    states by thread, and `on_thread` the thread of each run that has one. A run that asks
    ends with `after` once it is `answered`."""

    def __init__(self) -> None:
        self.threads: dict[str, dict] = {}
        self.removed: list[str] = []
        self.on_thread: dict[str, str] = {}
        self.started: dict[str, dict] = {}
        self.ended: dict[str, dict] = {}
        self.stopped: list[str] = []
        self.forgotten: list[str] = []
        self.updates: list[dict] = []
        self.answered: list[dict] = []
        self.after: dict = {"type": "result", "values": {}}

    def end(self, values: dict | None = None, output: dict | None = None) -> None:
        """All that have been started, and those that will be."""
        self.output = output or {"type": "result", "values": values or {}}
        self.ended |= dict.fromkeys(self.started, self.output)

    output: dict | None = None

    def __call__(self, line: Line, request: Request) -> bool | None:
        return self._answer(request)(line, request)

    def _answer(self, request: Request):
        path, _, query = request.path.partition("?")
        _, *path = path.split("/")
        if path[0] == "threads":
            return self._of_thread(request, path[1:], query)
        return self._of_run(request, path)

    def _of_thread(self, request: Request, path: list[str], query: str):
        match request.method, path:
            case "POST", []:
                thread = f"theirs-{request.json()['thread_id']}"
                self.threads.setdefault(thread, {"told": []})
                return json_reply(self._thread(thread))
            case _, [thread, *_] if thread not in self.threads:
                return json_reply("There is no such thread.", status=404)
            case "GET", [thread]:
                return json_reply(self._thread(thread))
            case "DELETE", [thread]:
                self.removed.append(thread)
                del self.threads[thread]
                return reply(b"", status=204)
            case "GET", [thread, "history"]:
                received = self.threads[thread]["told"]
                states = [
                    {"checkpoint": {"checkpoint_id": str(n)}, "values": {"told": received[:n]}}
                    for n in range(len(received))
                ]
                return json_reply(states[::-1])
            case "GET", [thread, "runs"]:
                return json_reply(
                    [self._run(run) for run, run_thread in self.on_thread.items() if run_thread == thread]
                )
            case _, [thread, "runs", *tail]:
                before = set(self.started)
                answer = self._of_run(request, ["runs", *tail])
                for run in self.started.keys() - before:
                    self.on_thread[run] = thread
                    self.threads[thread]["told"].append(self.started[run]["input"])
                return answer
        return json_reply("There is nothing here.", status=404)

    def _thread(self, thread: str) -> dict:
        return {"thread_id": thread, "status": "idle", "metadata": {}, "values": self.threads[thread]}

    def _of_run(self, request: Request, path: list[str]):
        match request.method, path:
            case "POST", ["runs"]:
                return json_reply(self._run(self._start(request)))
            case "POST", ["runs", "wait"]:
                run = self._start(request)
                return json_reply({"run": self._run(run), "output": self.ended[run]})
            case "POST", ["runs", "stream"]:
                return self._stream(request)
            case "POST", ["runs", "search"]:
                metadata = request.json()["metadata"].items()
                started = [run for run, body in self.started.items() if metadata <= body["metadata"].items()]
                return json_reply([self._run(run) for run in started])
            case "GET", ["runs", run]:
                return json_reply(self._run(run))
            case "GET", ["runs", run, "wait"]:
                return json_reply({"run": self._run(run), "output": self.ended[run]})
            case "POST", ["runs", run]:
                self.answered.append(json.loads(request.body))
                self.ended[run] = self.after
                return json_reply(self._run(run))
            case "POST", ["runs", run, "cancel"]:
                self.stopped.append(run)
                return reply(b"", status=204)
            case "DELETE", ["runs", run]:
                self.forgotten.append(run)
                return reply(b"", status=204)
        return json_reply("There is nothing here.", status=404)

    def _start(self, request: Request) -> str:
        run = str(uuid.uuid4())
        self.started[run] = json.loads(request.body)
        if self.output:
            self.ended[run] = self.output
        return run

    def _stream(self, request: Request):
        run = self._start(request)

        def say(update: dict) -> bytes:
            return f"event: agent_event\ndata: {json.dumps({'run_id': run, **update})}\n\n".encode()

        def script(line: Line, request: Request) -> None:
            line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for update in self.updates:
                line.send(say(update))
            if self.output:
                self.ended[run] = self.output
                kind = {"result": "values"}.get(self.output["type"], self.output["type"])
                line.send(say({**self.output, "type": kind, "status": DONE}))

        return script

    def _run(self, run: str) -> dict:
        kind = self.ended.get(run, {}).get("type")
        status = {None: RUNNING, "result": DONE, "interrupt": "interrupted"}.get(kind, "error")
        return {"run_id": run, "status": status, "creation": self.started[run]}
