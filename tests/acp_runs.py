"""A vendor of ACP whose runs go on until a test lets them end."""

import json
import uuid

from tests.hostile_vendor import Line, Request, json_reply, reply

RUNNING, DONE = "pending", "success"


class Runs:
    """`started` are the bodies by run; `ended` holds the output of those that are over, and
    `updates` what a stream says before its end: without an output it breaks off after them."""

    def __init__(self) -> None:
        self.started: dict[str, dict] = {}
        self.ended: dict[str, dict] = {}
        self.stopped: list[str] = []
        self.forgotten: list[str] = []
        self.updates: list[dict] = []

    def end(self, values: dict | None = None, output: dict | None = None) -> None:
        """All that have been started, and those that will be."""
        self.output = output or {"type": "result", "values": values or {}}
        self.ended |= dict.fromkeys(self.started, self.output)

    output: dict | None = None

    def __call__(self, line: Line, request: Request) -> bool | None:
        return self._answer(request)(line, request)

    def _answer(self, request: Request):
        _, *path = request.path.split("/")
        match request.method, path:
            case "POST", ["runs"]:
                return json_reply(self._run(self._start(request)))
            case "POST", ["runs", "wait"]:
                run = self._start(request)
                return json_reply({"run": self._run(run), "output": self.ended[run]})
            case "POST", ["runs", "stream"]:
                return self._stream(request)
            case "POST", ["runs", "search"]:
                wanted = request.json()["metadata"].items()
                found = [run for run, body in self.started.items() if wanted <= body["metadata"].items()]
                return json_reply([self._run(run) for run in found])
            case "GET", ["runs", run]:
                return json_reply(self._run(run))
            case "GET", ["runs", run, "wait"]:
                return json_reply({"run": self._run(run), "output": self.ended[run]})
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
