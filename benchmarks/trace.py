"""Measures the paths of a call and of an enumerated page: the modules and functions of the product that
they enter, and how often the next function entered is in another module.
MODULES=1 lists the modules with their calls.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from types import FrameType

from benchmarks.enumeration import endpoint_at, vendor
from benchmarks.frame import Figure
from benchmarks.invocation import Desk, mcp
from benchmarks.vendor import COUNT, PAGE
from catalog.enumeration import runs as enumeration_runs
from catalog.models.runs import Trigger
from designer.agents import agent_keys
from pegboard import wsgi
from people.models import KeyScope, User

ROOT = str(Path(__file__).parents[1]) + "/"
PACKAGES = tuple(
    f"{ROOT}{name}/"
    for name in ("pegboard", "serving", "designer", "execution", "catalog", "protocols", "people", "core")
)
MAX_MODULES_OF_A_CALL, MAX_MODULES_OF_A_PAGE = 45, 30
MIDDLE_PAGE = COUNT // PAGE // 2


class Trace:
    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.functions: set[tuple[str, str]] = set()
        self.module_changes = 0
        self._last_module = ""

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this thread, and threads that it starts, enter."""
        sys.setprofile(self._record)
        threading.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Comprehensions and lambdas belong to the function around them.
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(PACKAGES):
            return
        module = code.co_filename.removeprefix(ROOT)
        self.module_changes += module != self._last_module
        self._last_module = module
        self.modules[module] += 1
        self.functions.add((module, code.co_qualname))

    def figures(self, name: str, max_modules: int) -> Iterator[Figure]:
        modules = len(self.modules)
        yield Figure(f"{name}, modules", modules, "modules", target=max_modules, less_is_better=True)
        yield Figure(f"{name}, functions", len(self.functions), "functions")
        yield Figure(f"{name}, module changes", self.module_changes, "changes")


def main() -> Iterator[Figure]:
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    with vendor() as port:
        call, page = trace_call(user, port), trace_page(port)
    yield from call.figures("tools/call of MCP", MAX_MODULES_OF_A_CALL)
    yield from page.figures("enumerated page", MAX_MODULES_OF_A_PAGE)
    if os.environ.get("MODULES") == "1":
        for trace in (call, page):
            print(*(f"{count:8} {module}" for module, count in sorted(trace.modules.items())), "", sep="\n")


def trace_call(user: User, vendor_port: int) -> Trace:
    """Trace a call that was warmed up by others, from the web server's side of WSGI to the reply."""
    desk = Desk(user, vendor_port)
    scopes = [KeyScope.RUNTIME, KeyScope.INVOKE]
    _, key = agent_keys.issue(
        user, actor=user, name="benchmark", scopes=scopes, agents=[desk.release.agent], calls_at_once=10
    )
    arguments = desk.arguments(desk.fast)
    body = mcp("tools/call", {"name": desk.fast.name, "arguments": arguments})
    send = _request(desk.served, key, body)
    for _ in range(3):
        send()
    trace = Trace()
    with trace.recording():
        send()
    return trace


def _request(path: str, key: str, body: bytes) -> Callable[[], None]:
    def send() -> None:
        status: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_HOST": "127.0.0.1",
            "HTTP_ACCEPT": "application/json, text/event-stream",
            "HTTP_AUTHORIZATION": f"Bearer {key}",
            "HTTP_MCP_PROTOCOL_VERSION": "2025-06-18",
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "http",
        }
        response = wsgi.application(environ, lambda line, _: status.append(line))
        content = b"".join(response)
        if close := getattr(response, "close", None):
            close()
        if not status[0].startswith("200") or b'"isError":true' in content:
            raise RuntimeError(f"{status[0]}: {content!r}")

    return send


def trace_page(vendor_port: int) -> Trace:
    """Trace one page in the middle of a list: its request, its tools, and what is staged of them."""
    endpoint = endpoint_at(f"http://127.0.0.1:{vendor_port}/plain")
    trace = Trace()
    with ExitStack() as stack:

        def on_progress(pages: int, seen: int, rejected: int) -> None:
            if pages == MIDDLE_PAGE:
                stack.enter_context(trace.recording())
            elif pages == MIDDLE_PAGE + 1:
                stack.close()

        enumeration_runs.perform(
            enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk, on_progress
        )
    return trace
